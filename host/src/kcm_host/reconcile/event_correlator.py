"""Which Event an occurrence becomes: a new one, a repetition, a summary, or none."""

import re
import uuid
from collections import OrderedDict
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import msgspec

from kcm_host.api.kinds import Key, Kind
from kcm_host.api.writes import EVENT, Write
from kcm_host.client.rest import JSON
from kcm_host.reconcile.requests import STRATEGIC_MERGE, encode

#: Where Events about objects without a namespace are kept (IQ-121).
CLUSTER_NAMESPACE = "default"
LONGEST_NAME = 253

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII)


class EventOccurrence(msgspec.Struct, frozen=True, gc=False):
    """
    What users are to be told about an object, at one moment.

    `at` is in nanoseconds since the epoch; `version` is the resourceVersion that was seen.
    """

    kind: Kind
    key: Key
    uid: str
    version: str
    reason: str
    message: str
    warning: bool
    component: str
    at: int

    @property
    def type(self) -> str:
        """`Warning` or `Normal`."""
        return "Warning" if self.warning else "Normal"

    @property
    def source(self) -> Hashable:
        """Who says something of this type about which object: what the spam filter goes by."""
        kind = (self.kind.api_version, self.kind.name)
        return self.component, kind, self.key.namespace, self.key.name, self.uid, self.warning

    @property
    def group(self) -> Hashable:
        """All but the message: what remarks that differ in words alone have in common."""
        return self.source, self.reason


class Event(msgspec.Struct, frozen=True, gc=False):
    """One Event as it is to be on the server: the remark it says last, and how often by now."""

    remark: EventOccurrence
    name: str
    count: int
    #: When it was first said, in nanoseconds since the epoch.
    first: int

    @property
    def key(self) -> Key:
        """Name and namespace of the Event itself."""
        return Key(self.name, self.remark.key.namespace or CLUSTER_NAMESPACE)

    def create(self) -> Write:
        """Give the request that makes it (IQ-121)."""
        return Write(EVENT, self.key, "create", encode(self._body()), JSON)

    def repeat(self) -> Write:
        """Give the request that brings an older state of it up to this one (IQ-124)."""
        return Write(EVENT, self.key, "patch", encode(self._repeated()), STRATEGIC_MERGE)

    def _body(self) -> dict[str, Any]:
        remark = self.remark
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.name,
            "metadata": {"name": self.name, "namespace": self.key.namespace},
            "involvedObject": _reference(remark),
            "type": remark.type,
            "reason": remark.reason,
            "firstTimestamp": rfc3339(self.first),
            **self._repeated(),
            "source": {"component": remark.component},
            "reportingComponent": remark.component,
            "reportingInstance": "",
        }

    def _repeated(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "lastTimestamp": rfc3339(self.remark.at),
            "message": self.remark.message,
        }


def first_event(remark: EventOccurrence) -> Event:
    """Give the Event that says a remark for the first time."""
    return Event(remark, event_name(remark.key.name, remark.at), 1, remark.at)


def event_name(name: str, at: int) -> str:
    """
    Give the name of an Event about an object called `name`: that and the time in hex.

    Objects may have names that an Event cannot have (`system:node`): then it is a UUID (IQ-121).
    """
    wanted = f"{name}.{at:x}"
    if len(wanted) <= LONGEST_NAME and _SUBDOMAIN.fullmatch(wanted):
        return wanted
    return str(uuid.uuid5(uuid.NAMESPACE_URL, wanted))


def rfc3339(at: int) -> str:
    """Give a time as the API writes it, to the second."""
    return datetime.fromtimestamp(at // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _reference(remark: EventOccurrence) -> dict[str, str]:
    fields = {
        "apiVersion": remark.kind.api_version,
        "kind": remark.kind.name,
        "namespace": remark.key.namespace,
        "name": remark.key.name,
        "uid": remark.uid,
        "resourceVersion": remark.version,
    }
    return {name: value for name, value in fields.items() if value}


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


class EventAggregator:
    """
    Combines remarks that differ in their messages alone, once there are ten of them (IQ-123).

    The first nine messages of a group stay Events of their own however often they come again; all
    others share one. After 600 s without any it begins afresh.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._groups: Recent[Hashable, _Group] = Recent()

    def aggregated(self, remark: EventOccurrence) -> tuple[EventOccurrence, Hashable]:
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


class EventCounter:
    """Knows what was said before, so that a repetition only raises a count (IQ-124)."""

    def __init__(self) -> None:
        self._said: Recent[Hashable, Event] = Recent()

    def counted(self, remark: EventOccurrence, known_by: Hashable) -> Event:
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

    def admits(self, remark: EventOccurrence) -> bool:
        """Whether it may be sent; if so, that is one less."""
        now = self._clock()
        tokens = self._sources.get(remark.source) or _Tokens(SPAM_BURST, now)
        left = min(SPAM_BURST, tokens.left + (now - tokens.at) / SPAM_SECONDS)
        admitted = left >= 1
        self._sources.put(remark.source, _Tokens(left - admitted, now))
        return admitted


class EventCorrelator:
    """All three, in their order (IQ-122)."""

    def __init__(self, clock: Clock) -> None:
        self._aggregation = EventAggregator(clock)
        self._counting = EventCounter()
        self._spam = SpamFilter(clock)

    def event(self, remark: EventOccurrence) -> Event | None:
        """
        Give the Event to send for a remark, None when there were too many.

        What is not sent is counted all the same: the next one that is sent tells the whole count.
        """
        said, known_by = self._aggregation.aggregated(remark)
        event = self._counting.counted(said, known_by)
        return event if self._spam.admits(said) else None
