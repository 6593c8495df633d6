"""The event recorder: sends Kubernetes Events about objects, in the background of syncs."""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from functools import partial
from itertools import chain, repeat
from typing import Protocol

from kcm_host.api.errors import Conflict, HostError, NotFound, Unreachable
from kcm_host.api.kinds import Key, Kind
from kcm_host.informer.cache_view import Stores
from kcm_host.observe.deduplication import DeduplicatedLog, fingerprint
from kcm_host.reconcile.event_correlator import Clock, Event, EventCorrelator, EventOccurrence
from kcm_host.reconcile.sender import Sender
from kcm_host.retries import retry

log = logging.getLogger(__name__)

#: Further occurrences are dropped (IQ-120).
MAX_WAITING = 1000
MAX_ATTEMPTS = 12
RETRY_SECONDS = 10.0


class RecordEvent(Protocol):
    """Records an Event about an object; never waits and never fails."""

    def __call__(
        self, kind: Kind, key: Key, *, reason: str, message: str, warning: bool, component: str
    ) -> None:
        """Record one occurrence."""


def record_nothing(
    kind: Kind, key: Key, *, reason: str, message: str, warning: bool, component: str
) -> None:
    """Do nothing: the `RecordEvent` of a controller without Events."""


class EventRecorder:
    """
    The Events of one run of a controller.

    `record` is for syncs: it takes microseconds and raises nothing. `run` sends one Event at a
    time. Events are best effort: a sync never learns whether one arrived.
    """

    def __init__(
        self,
        sender: Sender,
        *,
        clock: Clock = time.monotonic,
        wall_nanoseconds: Callable[[], int] = time.time_ns,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._sender = sender
        self._wall_nanoseconds = wall_nanoseconds
        self._jitter = jitter
        self._correlator = EventCorrelator(clock)
        # Bounded: a server that refuses Events must not fill the memory of a controller that
        # records them.
        self._waiting: asyncio.Queue[EventOccurrence] = asyncio.Queue(MAX_WAITING)
        self._is_full = False
        self._stopped = False
        self._errors = DeduplicatedLog(log, "event not sent")

    def record(
        self,
        kind: Kind,
        key: Key,
        *,
        uid: str,
        version: str,
        reason: str,
        message: str,
        warning: bool,
        component: str,
    ) -> None:
        """
        Enqueue one event occurrence.

        Dropped when 1000 occurrences wait already, which is logged once until the queue has room
        again, and after the end of `run` (IQ-120).
        """
        if self._stopped:
            return
        at = self._wall_nanoseconds()
        occurrence = EventOccurrence(
            kind=kind,
            key=key,
            uid=uid,
            version=version,
            reason=reason,
            message=message,
            warning=warning,
            component=component,
            at=at,
        )
        try:
            self._waiting.put_nowait(occurrence)
            self._is_full = False
        except asyncio.QueueFull:
            if not self._is_full:
                log.warning("events dropped: queue full", extra={"kv": _pairs(occurrence)})
            self._is_full = True

    def for_stores(self, stores: Stores) -> RecordEvent:
        """
        Return a `RecordEvent` that takes uid and resource version from these stores.

        An object that no store holds gets no Event, because an Event names the uid.
        """

        def record(
            kind: Kind, key: Key, *, reason: str, message: str, warning: bool, component: str
        ) -> None:
            entries = (store.entry(key) for store in stores.of_kind(kind))
            entry = next((entry for entry in entries if entry), None)
            if entry is not None:
                self.record(
                    kind,
                    key,
                    uid=entry.uid,
                    version=entry.resource_version,
                    reason=reason,
                    message=message,
                    warning=warning,
                    component=component,
                )

        return record

    async def run(self) -> None:
        """Send the recorded events until cancelled; the waiting ones are dropped then (IQ-127)."""
        try:
            while True:
                await self._process(await self._waiting.get())
        finally:
            # Before the log is closed: a sync that is still drained may record more.
            self._stopped = True
            self._errors.close()

    async def _process(self, occurrence: EventOccurrence) -> None:
        event = self._correlator.event(occurrence)
        if event is None:
            return
        try:
            await self._send_with_retries(event)
        except Conflict:
            # A create is sent again when its response was lost: the Event exists then.
            log.debug("event exists", extra={"kv": _pairs(occurrence)})
        except Exception as error:  # noqa: BLE001 - one bad event must not stop those after it
            self._log_error(occurrence, error)

    async def _send_with_retries(self, event: Event) -> None:
        """Send until the server has answered, with whatever status, at most 12 times (IQ-126)."""
        # The first delay is random, so that controllers do not all retry at once.
        delays = chain((RETRY_SECONDS * self._jitter(),), repeat(RETRY_SECONDS, MAX_ATTEMPTS - 2))
        await retry(partial(self._send, event), on=Unreachable, delays=delays)

    async def _send(self, event: Event) -> None:
        write = event.update() if event.count > 1 else event.create()
        try:
            await self._sender.send(write)
        except NotFound:
            if write.verb == "create":
                raise
            # The server removes Events after an hour, and the first one may not have arrived.
            await self._sender.send(event.create())

    def _log_error(self, occurrence: EventOccurrence, error: Exception) -> None:
        """Log why an Event was not sent, deduplicated by its reason and the error."""
        text = str(error) if isinstance(error, HostError) else f"{type(error).__name__}: {error}"
        fact = (occurrence.reason, fingerprint(error))
        self._errors.log(fact, {**_pairs(occurrence), "error": text})


def _pairs(occurrence: EventOccurrence) -> dict[str, str]:
    return {
        "kind": str(occurrence.kind),
        "key": str(occurrence.key),
        "reason": occurrence.reason,
    }
