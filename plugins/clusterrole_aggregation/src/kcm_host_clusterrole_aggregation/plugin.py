"""The clusterrole-aggregation controller: roles made of the rules of other roles."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from typing import Any

from kcm_host.api import (
    Change,
    Done,
    Key,
    Kind,
    Later,
    Outcome,
    Permission,
    View,
    Watch,
    Writer,
    hookimpl,
)
from kcm_host_clusterrole_aggregation.aggregation import (
    ECHO_TIME,
    Rules,
    WriteOrder,
    apply_body,
    collect_rules,
    matchers_of,
)
from kcm_host_clusterrole_aggregation.models import Role
from kcm_host_clusterrole_aggregation.selectors import BadSelector

CLUSTER_ROLE = Kind(
    "rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False
)
FIELD_MANAGER = "clusterrole-aggregation-controller"
# One change of a role wakes all aggregated ones, and so does each of the writes that follow.
REST = timedelta(milliseconds=100)
SHOWN_BAD_SELECTORS = 10


class ClusterRoleAggregation:
    """
    Keeps the rules of every ClusterRole with an aggregation rule equal to what that selects.

    A key is the name of an aggregated role. Any change of any role queues all of them: cheaper
    than knowing who selects whom, because few roles are aggregated. `clock` gives seconds on a
    monotonic clock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        #: All aggregated roles: looking for them in the store at every change would be quadratic.
        self._aggregated: set[Key] = set()
        self._order = WriteOrder(clock)

    @hookimpl
    def kcm_watches(self) -> Sequence[Watch[Role]]:
        """Follow all ClusterRoles (CRA-5)."""
        return [
            Watch(
                kind=CLUSTER_ROLE,
                model=Role,
                keys=self._keys,
                rest=REST,
                resync=lambda key: key,
            )
        ]

    @hookimpl
    def kcm_writes(self) -> Sequence[Permission]:
        """
        Apply to ClusterRoles, with rules that the controller's own identity does not hold.

        `create` is missing on purpose: an apply to a role just deleted must be refused (CRA-57).
        """
        return [Permission(CLUSTER_ROLE, "patch"), Permission(CLUSTER_ROLE, "escalate")]

    @hookimpl
    async def kcm_sync(self, key: Key, view: View, writer: Writer) -> Outcome:
        """
        Write the collected rules when the role has others, or the same in another order.

        Not before the aggregated roles that it collects from are right: the echo of their write
        queues it again, and `Later` does where none comes. Raises `BadSelector` before anything is
        written.
        """
        roles = dict(view.of(CLUSTER_ROLE, Role).items())
        role = roles.get(key)
        if role is None or role.aggregation_rule is None:
            return Done()
        rules = _collected(key, roles)
        if rules == (role.rules or ()):
            self._order.forget(key)
            return Done()
        aggregated = {each: roles[each] for each in self._aggregated if each in roles}
        if self._order.waits_for(key, aggregated, lambda each: _collected(each, roles)):
            return Later(ECHO_TIME)
        try:
            await writer.apply(CLUSTER_ROLE, key, apply_body(rules), field_manager=FIELD_MANAGER)
        finally:
            self._order.written(key, rules)
        return Done()

    @hookimpl
    def kcm_status(self, view: View) -> Mapping[str, Any]:
        """Say how many roles there are, and which aggregated ones cannot be synced."""
        roles = view.of(CLUSTER_ROLE, Role)
        return {
            "roles": len(roles),
            "undecodable": len(roles.undecodable()),
            "aggregated": len(self._aggregated),
            "badSelectors": list(islice(self._bad_selectors(view), SHOWN_BAD_SELECTORS)),
        }

    def _keys(self, change: Change[Role], _view: View) -> Iterable[Key]:
        """
        Queue all aggregated roles, whatever changed (CRA-10, CRA-11).

        An initial object queues itself alone: no sync starts before all of them were here, so
        each aggregated role is queued once in time linear to the roles.
        """
        is_aggregated = change.new is not None and change.new.aggregation_rule is not None
        if is_aggregated:
            self._aggregated.add(change.key)
        else:
            self._aggregated.discard(change.key)
            self._order.forget(change.key)
        if change.initial:
            return (change.key,) if is_aggregated else ()
        return tuple(self._aggregated)

    def _bad_selectors(self, view: View) -> Iterable[str]:
        roles = view.of(CLUSTER_ROLE, Role)
        for key in sorted(self._aggregated, key=str):
            role = roles.get(key.name)
            if role is None or role.aggregation_rule is None:
                continue
            try:
                tuple(matchers_of(key.name, role.aggregation_rule))
            except BadSelector as bad:
                yield str(bad)


def _collected(key: Key, roles: Mapping[Key, Role]) -> Rules:
    aggregation = roles[key].aggregation_rule
    return collect_rules(key.name, aggregation, tuple(roles.items())) if aggregation else ()
