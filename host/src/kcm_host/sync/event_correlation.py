"""Which Event a remark becomes: a new one, one more time an old one, a summary, or none."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import msgspec

from kcm_host.sync.event_objects import Event, Remark, first_event

#: How many groups, Events and sources are remembered, each (IQ-122).
REMEMBERED = 4096
MOST_SINGLE_MESSAGES = 9
GROUP_SECONDS = 600.0
COMBINED = "(combined from similar events): "
SPAM_BURST = 25
SPAM_SECONDS = 300.0

Clock = Callable[[], float]
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """A mapping that keeps what was used last and forgets the rest."""

    def __init__(self, size: int = REMEMBERED) -> None:
        self._size = size
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Give the value, which counts as a use."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key]

    def put(self, key: K, value: V) -> None:
        """Keep a value; when there are too many, the one unused for longest goes."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)


class _Group(msgspec.Struct, frozen=True):
    messages: frozenset[str]
    last: float


class Aggregation:
    """
    Combines remarks that differ in their messages alone, once there are ten of them (IQ-123).

    The first nine messages of a group stay Events of their own however often they come again; all
    others share one. After 600 s without any it begins afresh.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._groups: Recent[Hashable, _Group] = Recent()

    def aggregated(self, remark: Remark) -> tuple[Remark, Hashable]:
        """Give what to say, and by what its repetitions are known."""
        now = self._clock()
        group = self._groups.get(remark.group)
        known: frozenset[str] = frozenset()
        if group is not None and now - group.last <= GROUP_SECONDS:
            known = group.messages
        single = remark.message in known or len(known) < MOST_SINGLE_MESSAGES
        messages = known | {remark.message} if single else known
        self._groups.put(remark.group, _Group(messages, now))
        if single:
            return remark, (remark.group, remark.message)
        combined = msgspec.structs.replace(remark, message=f"{COMBINED}{remark.message}")
        return combined, remark.group


class Counting:
    """Knows what was said before, so that a repetition only raises a count (IQ-124)."""

    def __init__(self) -> None:
        self._said: Recent[Hashable, Event] = Recent()

    def counted(self, remark: Remark, known_by: Hashable) -> Event:
        """Give the Event with this remark counted in."""
        before = self._said.get(known_by)
        event = first_event(remark)
        if before is not None:
            event = Event(remark, before.name, before.count + 1, before.first)
        self._said.put(known_by, event)
        return event


class _Tokens(msgspec.Struct, frozen=True):
    left: float
    at: float


class SpamFilter:
    """Lets 25 Events about one object through, then one each 300 s, for each source (IQ-125)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sources: Recent[Hashable, _Tokens] = Recent()

    def admits(self, remark: Remark) -> bool:
        """Whether it may be sent; if so, that is one less."""
        now = self._clock()
        tokens = self._sources.get(remark.source) or _Tokens(SPAM_BURST, now)
        left = min(SPAM_BURST, tokens.left + (now - tokens.at) / SPAM_SECONDS)
        admitted = left >= 1
        self._sources.put(remark.source, _Tokens(left - admitted, now))
        return admitted


class Correlation:
    """All three, in their order (IQ-122)."""

    def __init__(self, clock: Clock) -> None:
        self._aggregation = Aggregation(clock)
        self._counting = Counting()
        self._spam = SpamFilter(clock)

    def event(self, remark: Remark) -> Event | None:
        """
        Give the Event to send for a remark, None when there were too many.

        What is not sent is counted all the same: the next one that is sent tells the whole count.
        """
        said, known_by = self._aggregation.aggregated(remark)
        event = self._counting.counted(said, known_by)
        return event if self._spam.admits(said) else None
