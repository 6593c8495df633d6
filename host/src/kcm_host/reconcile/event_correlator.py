"""The event correlator: aggregation, deduplication and spam filter of event occurrences."""

import re
import uuid
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from typing import Any

import msgspec
from cachetools import LRUCache

from kcm_host.api.kinds import Key, Kind
from kcm_host.api.writes import EVENT, Write
from kcm_host.client.rest import JSON
from kcm_host.reconcile.requests import PATCHES, encode

#: The namespace of Events about objects without a namespace (IQ-121).
CLUSTER_NAMESPACE = "default"
MAX_NAME_LENGTH = 253

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII)


class EventOccurrence(msgspec.Struct, frozen=True, gc=False):
    """
    What happened to an object, at one moment.

    `at` is in nanoseconds since the epoch; `version` is the resourceVersion in the store.
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
        """The key of the spam filter: component, object and type."""
        kind = (self.kind.api_version, self.kind.name)
        return self.component, kind, self.key.namespace, self.key.name, self.uid, self.warning

    @property
    def group(self) -> Hashable:
        """The key of the aggregation: everything but the message."""
        return self.source, self.reason


class Event(msgspec.Struct, frozen=True, gc=False):
    """One Event as it is to be on the server: its last occurrence, and the count of all."""

    occurrence: EventOccurrence
    name: str
    count: int
    #: Time of the first occurrence, in nanoseconds since the epoch.
    first: int

    @property
    def key(self) -> Key:
        """Name and namespace of the Event itself."""
        return Key(self.name, self.occurrence.key.namespace or CLUSTER_NAMESPACE)

    def create(self) -> Write:
        """Return the request that creates it (IQ-121)."""
        return Write(
            kind=EVENT, key=self.key, verb="create", body=encode(self._body()), content_type=JSON
        )

    def update(self) -> Write:
        """Return the request that updates an earlier state of it to this one (IQ-124)."""
        return Write(
            kind=EVENT,
            key=self.key,
            verb="patch",
            body=encode(self._changed_fields()),
            # As client-go sends it (IQ-124); Events are a kind of Kubernetes itself.
            content_type=PATCHES["strategic"],
        )

    def _body(self) -> dict[str, Any]:
        occurrence = self.occurrence
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.name,
            "metadata": {"name": self.name, "namespace": self.key.namespace},
            "involvedObject": _reference(occurrence),
            "type": occurrence.type,
            "reason": occurrence.reason,
            "firstTimestamp": rfc3339(self.first),
            **self._changed_fields(),
            "source": {"component": occurrence.component},
            "reportingComponent": occurrence.component,
            "reportingInstance": "",
        }

    def _changed_fields(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "lastTimestamp": rfc3339(self.occurrence.at),
            "message": self.occurrence.message,
        }


def first_event(occurrence: EventOccurrence) -> Event:
    """Return the Event of a first occurrence."""
    name = event_name(occurrence.key.name, occurrence.at)
    return Event(occurrence=occurrence, name=name, count=1, first=occurrence.at)


def event_name(name: str, at: int) -> str:
    """
    Return the name of an Event: the name of its object and the time in hex.

    Objects may have names that an Event cannot have (`system:node`): it is a UUID then (IQ-121).
    """
    preferred = f"{name}.{at:x}"
    if len(preferred) <= MAX_NAME_LENGTH and _SUBDOMAIN.fullmatch(preferred):
        return preferred
    return str(uuid.uuid5(uuid.NAMESPACE_URL, preferred))


def rfc3339(at: int) -> str:
    """Return a time in the format of the API, to the second."""
    return datetime.fromtimestamp(at // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _reference(occurrence: EventOccurrence) -> dict[str, str]:
    fields = {
        "apiVersion": occurrence.kind.api_version,
        "kind": occurrence.kind.name,
        "namespace": occurrence.key.namespace,
        "name": occurrence.key.name,
        "uid": occurrence.uid,
        "resourceVersion": occurrence.version,
    }
    return {name: value for name, value in fields.items() if value}


#: The number of groups, Events and sources that are kept, each (IQ-122).
MAX_ENTRIES = 4096
MAX_SINGLE_MESSAGES = 9
#: These limits are those of client-go (IQ-123, IQ-125).
GROUP_SECONDS = 600.0
COMBINED = "(combined from similar events): "
SPAM_BURST = 25
SPAM_SECONDS = 300.0

Clock = Callable[[], float]


class _Group(msgspec.Struct, frozen=True):
    messages: frozenset[str]
    last: float


class EventAggregator:
    """
    Combines occurrences that differ only in their messages, from the tenth message on (IQ-123).

    The first nine messages of a group stay separate Events, however often they repeat; all others
    share one. After 600 s without an occurrence the group is reset.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._groups: LRUCache[Hashable, _Group] = LRUCache(MAX_ENTRIES)

    def aggregated(self, occurrence: EventOccurrence) -> tuple[EventOccurrence, Hashable]:
        """Return the occurrence to send, and the key by which its repetitions are counted."""
        now = self._clock()
        group = self._groups.get(occurrence.group)
        messages: frozenset[str] = frozenset()
        if group is not None and now - group.last <= GROUP_SECONDS:
            messages = group.messages
        # A known message does not count again: only different ones are many (IQ-123).
        is_single = occurrence.message in messages or len(messages) < MAX_SINGLE_MESSAGES
        if is_single:
            # Not beyond the ninth: a controller that puts a number into each message must not fill
            # the memory.
            messages |= {occurrence.message}
        self._groups[occurrence.group] = _Group(messages, now)
        if is_single:
            return occurrence, (occurrence.group, occurrence.message)
        combined = msgspec.structs.replace(occurrence, message=f"{COMBINED}{occurrence.message}")
        return combined, occurrence.group


class EventCounter:
    """Keeps the last Events, so that a repetition only increases a count (IQ-124)."""

    def __init__(self) -> None:
        self._events: LRUCache[Hashable, Event] = LRUCache(MAX_ENTRIES)

    def counted(self, occurrence: EventOccurrence, identity: Hashable) -> Event:
        """Return the Event with this occurrence counted."""
        before = self._events.get(identity)
        event = first_event(occurrence)
        if before is not None:
            event = Event(
                occurrence=occurrence,
                name=before.name,
                count=before.count + 1,
                first=before.first,
            )
        self._events[identity] = event
        return event


class _Tokens(msgspec.Struct, frozen=True):
    left: float
    at: float


class SpamFilter:
    """Admits 25 Events about one object, then one each 300 s, for each source (IQ-125)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sources: LRUCache[Hashable, _Tokens] = LRUCache(MAX_ENTRIES)

    def admits(self, occurrence: EventOccurrence) -> bool:
        """Return whether it may be sent, and take a token if so."""
        now = self._clock()
        tokens = self._sources.get(occurrence.source) or _Tokens(SPAM_BURST, now)
        left = min(SPAM_BURST, tokens.left + (now - tokens.at) / SPAM_SECONDS)
        admitted = left >= 1
        self._sources[occurrence.source] = _Tokens(left - admitted, now)
        return admitted


class EventCorrelator:
    """Aggregation, counting and spam filter, in this order (IQ-122)."""

    def __init__(self, clock: Clock) -> None:
        self._aggregator = EventAggregator(clock)
        self._counter = EventCounter()
        self._spam_filter = SpamFilter(clock)

    def event(self, occurrence: EventOccurrence) -> Event | None:
        """
        Return the Event to send for an occurrence; None when there were too many.

        An Event that is not sent is counted too: the next one that is sent holds the full count.
        """
        aggregated, identity = self._aggregator.aggregated(occurrence)
        event = self._counter.counted(aggregated, identity)
        return event if self._spam_filter.admits(aggregated) else None
