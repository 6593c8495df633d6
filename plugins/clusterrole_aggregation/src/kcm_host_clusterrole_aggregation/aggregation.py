"""The rules of an aggregated role, and the order in which such roles are written."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from operator import itemgetter
from typing import Any

import msgspec

from kcm_host.api import Key
from kcm_host_clusterrole_aggregation.models import AggregationRule, Role, Rule
from kcm_host_clusterrole_aggregation.selectors import InvalidSelector, Matcher, compile_selector

#: The labels of a role without labels.
NO_LABELS: Mapping[str, str] = {}
#: How long other roles wait for a role after the first write of its rules. The watch event of a
#: write arrives in milliseconds; a write that is refused, or that changes nothing, causes none.
WATCH_EVENT_TIMEOUT = timedelta(seconds=1)

Rules = tuple[Rule, ...]
#: Returns the rules that a role should have; raises `InvalidSelector`.
Collect = Callable[[Key], Rules]


def compile_selectors(name: str, aggregation: AggregationRule) -> Iterator[Matcher]:
    """
    Return the matchers of the role called `name` one after the other, in the order written.

    Raises `InvalidSelector` at the first invalid one; the message has the role and the position.
    """
    for position, selector in enumerate(aggregation.cluster_role_selectors or ()):
        place = f"clusterrole {name!r}, aggregationRule.clusterRoleSelectors[{position}]"
        yield compile_selector(selector, place=place)


def collect_rules(
    name: str, aggregation: AggregationRule, roles: Sequence[tuple[Key, Role]]
) -> Rules:
    """
    Return the rules that the role called `name` should have, out of all `roles` (CRA-23 to CRA-26).

    Selector after selector, and within one by name, each rule where it occurs first; the role is no
    source of itself. Raises `InvalidSelector`.
    """
    collected: dict[Rule, None] = {}
    for matches in compile_selectors(name, aggregation):
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
    Return the body of the apply, without the fields that the writer adds (CRA-51 to CRA-53).

    Without rules the key is left out: the server then removes the rules that this controller
    applied before, and keeps those of other managers (CRA-56).
    """
    return {"rules": msgspec.to_builtins(rules)} if rules else {}


class _Write(msgspec.Struct, frozen=True):
    rules: Rules
    first_attempt: float


class WriteOrder:
    """
    The order of writes: a role waits until the roles that it collects from are up to date.

    A role that is written at once has to be written again when its source changes: for a chain of
    roles the number of writes would grow with the square of its length. Of roles that collect from
    each other the first by name is written first. `clock` returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._writes: dict[Key, _Write] = {}

    def record_write(self, key: Key, rules: Rules) -> None:
        """Record that a role was written, or that this was attempted."""
        last = self._writes.get(key)
        if last is None or last.rules != rules:
            self._writes[key] = _Write(rules, self._clock())

    def discard(self, key: Key) -> None:
        """Remove the record of a role that is up to date, or no longer aggregated."""
        self._writes.pop(key, None)

    def outdated_source(
        self, key: Key, aggregated: Mapping[Key, Role], collect: Collect
    ) -> Key | None:
        """Return a role that has to be written before `key`, None if there is none."""
        for source in _sources(key, aggregated):
            if not self._is_outdated(source, aggregated[source], collect):
                continue
            circular = key in _sources(source, aggregated)
            if not circular or source.name < key.name:
                return source
        return None

    def _is_outdated(self, key: Key, role: Role, collect: Collect) -> bool:
        try:
            rules = collect(key)
        except InvalidSelector:
            return False
        if rules == (role.rules or ()):
            return False
        last = self._writes.get(key)
        if last is None or last.rules != rules:
            return True
        return self._clock() - last.first_attempt < WATCH_EVENT_TIMEOUT.total_seconds()


def _sources(key: Key, aggregated: Mapping[Key, Role]) -> Iterator[Key]:
    """Return the aggregated roles that a role collects from, directly or through others."""
    visited: set[Key] = set()
    pending = [key]
    while pending:
        current = pending.pop()
        matchers = _matchers(current, aggregated[current])
        for other, role in aggregated.items():
            labels = role.metadata.labels or NO_LABELS
            if other in visited or other == current:
                continue
            if not any(matches(labels) for matches in matchers):
                continue
            visited.add(other)
            pending.append(other)
            yield other


def _matchers(key: Key, role: Role) -> tuple[Matcher, ...]:
    """Return the matchers of a role; none when a selector is invalid: the role is not written."""
    if role.aggregation_rule is None:
        return ()
    try:
        return tuple(compile_selectors(key.name, role.aggregation_rule))
    except InvalidSelector:
        return ()
