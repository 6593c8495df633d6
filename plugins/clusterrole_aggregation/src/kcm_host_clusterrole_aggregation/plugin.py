"""The hooks of the clusterrole-aggregation controller."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from typing import Any

from kcm_host.api import (
    Change,
    ControllerInfo,
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
    WATCH_EVENT_TIMEOUT,
    Rules,
    WriteOrder,
    apply_body,
    collect_rules,
    compile_selectors,
)
from kcm_host_clusterrole_aggregation.models import Role
from kcm_host_clusterrole_aggregation.selectors import InvalidSelector

CLUSTER_ROLE = Kind(
    group="rbac.authorization.k8s.io",
    version="v1",
    name="ClusterRole",
    resource="clusterroles",
    namespaced=False,
)
FIELD_MANAGER = "clusterrole-aggregation-controller"
# One change of a role queues all aggregated ones, and so does each of the writes that follow.
DEBOUNCE = timedelta(milliseconds=100)
MAX_SHOWN_SELECTORS = 10


class ClusterRoleAggregation:
    """
    The controller that collects the rules of every ClusterRole with an aggregation rule.

    A key is the name of an aggregated role. Any change of any role queues all of them: cheaper
    than an index of the selected roles, because few roles are aggregated. `clock` returns
    monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        #: All aggregated roles: a search in the cache at every change would be quadratic.
        self._aggregated: set[Key] = set()
        self._order = WriteOrder(clock)

    @staticmethod
    @hookimpl
    def kcm_info() -> ControllerInfo:
        """Return the names that kube-controller-manager has for this controller."""
        return ControllerInfo(
            aliases=("clusterrole-aggregation-controller",),
            service_account="clusterrole-aggregation-controller",
            queue_name="ClusterRoleAggregator",
        )

    @hookimpl
    def kcm_watches(self) -> Sequence[Watch[Role]]:
        """Watch all ClusterRoles (CRA-5)."""
        return [
            Watch(
                kind=CLUSTER_ROLE,
                model=Role,
                keys=self._on_role,
                debounce=DEBOUNCE,
                resync=lambda key: key,
            )
        ]

    @hookimpl
    def kcm_writes(self) -> Sequence[Permission]:
        """
        Return the permissions to apply ClusterRoles, also with rules that the user does not have.

        `create` is missing on purpose: an apply to a role just deleted must be refused (CRA-57).
        """
        return [
            Permission(kind=CLUSTER_ROLE, verb="patch"),
            Permission(kind=CLUSTER_ROLE, verb="escalate"),
        ]

    @hookimpl
    async def kcm_sync(self, key: Key, view: View, writer: Writer) -> Outcome:
        """
        Apply the collected rules when the role has others, or the same in another order.

        Not before the aggregated roles that it collects from are up to date: the watch event of
        their write queues it again, and `Later` does if there is no event. Raises `InvalidSelector`
        before anything is written.
        """
        roles = dict(view.of(CLUSTER_ROLE, Role).items())
        role = roles.get(key)
        if role is None or role.aggregation_rule is None:
            return Done()
        rules = _collected(key, roles)
        if rules == (role.rules or ()):
            self._order.discard(key)
            return Done()
        aggregated = {each: roles[each] for each in self._aggregated if each in roles}
        if self._order.outdated_source(key, aggregated, lambda each: _collected(each, roles)):
            return Later(WATCH_EVENT_TIMEOUT)
        try:
            await writer.apply(CLUSTER_ROLE, key, apply_body(rules), field_manager=FIELD_MANAGER)
        finally:
            self._order.record_write(key, rules)
        return Done()

    @hookimpl
    def kcm_status(self, view: View) -> Mapping[str, Any]:
        """Return the number of roles, and the aggregated ones that cannot be synced."""
        roles = view.of(CLUSTER_ROLE, Role)
        return {
            "roles": len(roles),
            "undecodable": len(roles.undecodable()),
            "aggregated": len(self._aggregated),
            "badSelectors": list(islice(self._invalid_selectors(view), MAX_SHOWN_SELECTORS)),
        }

    def _on_role(self, change: Change[Role], _view: View) -> Iterable[Key]:
        """
        Queue all aggregated roles, whatever changed (CRA-10, CRA-11).

        An initial object queues only itself: no sync starts before all of them are delivered, so
        each aggregated role is queued once, in time linear to the roles.
        """
        is_aggregated = change.new is not None and change.new.aggregation_rule is not None
        if is_aggregated:
            self._aggregated.add(change.key)
        else:
            self._aggregated.discard(change.key)
            self._order.discard(change.key)
        if change.initial:
            return (change.key,) if is_aggregated else ()
        return tuple(self._aggregated)

    def _invalid_selectors(self, view: View) -> Iterable[str]:
        roles = view.of(CLUSTER_ROLE, Role)
        for key in sorted(self._aggregated, key=str):
            role = roles.get(key.name)
            if role is None or role.aggregation_rule is None:
                continue
            try:
                tuple(compile_selectors(key.name, role.aggregation_rule))
            except InvalidSelector as error:
                yield str(error)


def _collected(key: Key, roles: Mapping[Key, Role]) -> Rules:
    aggregation = roles[key].aggregation_rule
    return collect_rules(key.name, aggregation, tuple(roles.items())) if aggregation else ()
