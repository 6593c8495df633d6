"""The rules of an aggregated role, and the order in which such roles are written."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from operator import itemgetter
from typing import Any

import msgspec

from kcm_host.api import Key
from kcm_host_clusterrole_aggregation.models import AggregationRule, Role, Rule
from kcm_host_clusterrole_aggregation.selectors import BadSelector, Matcher, compile_selector

#: Of a role without labels.
NO_LABELS: Mapping[str, str] = {}


def matchers_of(name: str, aggregation: AggregationRule) -> Iterator[Matcher]:
    """
    Give the selectors of the role called `name` one after the other, in the order written.

    Raises `BadSelector` at the first that makes no sense, naming role and position.
    """
    for position, selector in enumerate(aggregation.cluster_role_selectors or ()):
        place = f"clusterrole {name!r}, aggregationRule.clusterRoleSelectors[{position}]"
        yield compile_selector(selector, place=place)


def collect_rules(
    name: str, aggregation: AggregationRule, roles: Sequence[tuple[Key, Role]]
) -> tuple[Rule, ...]:
    """
    Give the rules that the role called `name` should have, out of all `roles` (CRA-23 to CRA-26).

    Selector after selector, and within one by name, each rule where it occurs first; the role
    gives nothing to itself. Raises `BadSelector`.
    """
    collected: dict[Rule, None] = {}
    for matches in matchers_of(name, aggregation):
        sources = [
            (key.name, role.rules or ())
            for key, role in roles
            if matches(role.metadata.labels or NO_LABELS) and key.name != name
        ]
        # Strings are ordered by code point, which is the order of their UTF-8 bytes (CRA-24).
        for _, rules in sorted(sources, key=itemgetter(0)):
            collected.update(dict.fromkeys(rules))
    return tuple(collected)


def apply_body(rules: Sequence[Rule]) -> dict[str, Any]:
    """
    Give the body of the apply, but for what the writer adds (CRA-51 to CRA-53).

    No rules are no key at all: the server then clears what this controller applied before, and
    leaves what somebody else wrote (CRA-56).
    """
    return {"rules": msgspec.to_builtins(rules)} if rules else {}


#: How long others wait for a role after its first write of some rules: an echo takes milliseconds,
#: and a write that is refused, or that changes nothing, must not hold up the others for ever.
ECHO_TIME = timedelta(seconds=1)

Rules = tuple[Rule, ...]
#: Returns the rules that a role should have; raises `BadSelector`.
Collect = Callable[[Key], Rules]


class _Written(msgspec.Struct, frozen=True):
    rules: Rules
    since: float


class WriteOrder:
    """
    Says whether a role has to wait until a role that it collects from is right.

    Written at once, a role would be written again as soon as its source is: a chain of roles would
    cost a number of writes that grows with the square of its length. Of roles that collect from
    each other the one with the lesser name goes first. `clock` gives seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._written: dict[Key, _Written] = {}

    def written(self, key: Key, rules: Rules) -> None:
        """Take note that a role was written, or that this was tried."""
        known = self._written.get(key)
        if known is None or known.rules != rules:
            self._written[key] = _Written(rules, self._clock())

    def forget(self, key: Key) -> None:
        """Take note that a role is right, or is no aggregated role any more."""
        self._written.pop(key, None)

    def waits_for(self, key: Key, aggregated: Mapping[Key, Role], collect: Collect) -> Key | None:
        """Return a role that has to be right before `key` is written, None if there is none."""
        for source in _sources(key, aggregated):
            if not self._is_due(source, aggregated[source], collect):
                continue
            circular = key in _sources(source, aggregated)
            if not circular or source.name < key.name:
                return source
        return None

    def _is_due(self, key: Key, role: Role, collect: Collect) -> bool:
        try:
            rules = collect(key)
        except BadSelector:
            return False
        if rules == (role.rules or ()):
            return False
        known = self._written.get(key)
        if known is None or known.rules != rules:
            return True
        return self._clock() - known.since < ECHO_TIME.total_seconds()


def _sources(key: Key, aggregated: Mapping[Key, Role]) -> Iterator[Key]:
    """Return the aggregated roles that a role collects from, directly or through others."""
    seen: set[Key] = set()
    ahead = [key]
    while ahead:
        here = ahead.pop()
        matchers = _matchers(here, aggregated[here])
        for other, role in aggregated.items():
            labels = role.metadata.labels or NO_LABELS
            if other in seen or other == here or not any(match(labels) for match in matchers):
                continue
            seen.add(other)
            ahead.append(other)
            yield other


def _matchers(key: Key, role: Role) -> tuple[Matcher, ...]:
    """Return the selectors of a role; none where one of them makes no sense: it is not written."""
    if role.aggregation_rule is None:
        return ()
    try:
        return tuple(matchers_of(key.name, role.aggregation_rule))
    except BadSelector:
        return ()
