"""In which order aggregated roles are written when some collect from others."""

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

import msgspec

from kcm_host.api import Key
from kcm_host_clusterrole_aggregation.logic import NO_LABELS, matchers_of
from kcm_host_clusterrole_aggregation.model import Role, Rule
from kcm_host_clusterrole_aggregation.selectors import BadSelector, Matcher

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
