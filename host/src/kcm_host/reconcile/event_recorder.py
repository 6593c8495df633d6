"""Tells users about objects by Kubernetes Events, in the background of syncs."""

import asyncio
import logging
import random
import time
from collections.abc import Callable

from kcm_host.api.errors import Conflict, HostError, NotFound, Unreachable
from kcm_host.api.kinds import Key, Kind
from kcm_host.observe.repeats import Repeats, sort_of_error
from kcm_host.reconcile.event_correlator import Clock, Event, EventCorrelator, EventOccurrence
from kcm_host.reconcile.sender import Sender

log = logging.getLogger(__name__)

#: More remarks than this wait for nobody (IQ-120).
MOST_WAITING = 1000
MOST_TRIES = 12
RETRY_SECONDS = 10.0


class EventRecorder:
    """
    The Events of one start of a controller.

    `record` is for syncs: it costs microseconds and nothing can go wrong in it. `run` sends, one
    Event at a time. Neither tells a sync whether an Event arrived: nobody may rely on Events.
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
        self._correlation = EventCorrelator(clock)
        self._waiting: asyncio.Queue[EventOccurrence] = asyncio.Queue(MOST_WAITING)
        self._full = False
        self._over = False
        self._not_sent = Repeats(log, "event not sent")

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
        Say something about an object, soon.

        Dropped when 1000 remarks wait already, which is logged once until there is room again,
        and after the end of `run` (IQ-120).
        """
        if self._over:
            return
        at = self._wall_nanoseconds()
        remark = EventOccurrence(kind, key, uid, version, reason, message, warning, component, at)
        try:
            self._waiting.put_nowait(remark)
            self._full = False
        except asyncio.QueueFull:
            if not self._full:
                log.warning("events dropped: too many wait", extra={"kv": _pairs(remark)})
            self._full = True

    async def run(self) -> None:
        """Send what was recorded until cancelled; what waits then is dropped (IQ-127)."""
        try:
            while True:
                await self._tell(await self._waiting.get())
        finally:
            self._over = True
            self._not_sent.close()

    async def _tell(self, remark: EventOccurrence) -> None:
        event = self._correlation.event(remark)
        if event is None:
            return
        try:
            await self._deliver(event)
        except Conflict:
            # A create is sent again when its answer was lost: then the Event is there.
            log.debug("event exists", extra={"kv": _pairs(remark)})
        except Exception as error:  # noqa: BLE001 - one bad event must not silence those after it
            self._complain(remark, error)

    async def _deliver(self, event: Event) -> None:
        """Send until the server has answered, whatever it says, or patience ends (IQ-126)."""
        for attempt in range(1, MOST_TRIES + 1):
            try:
                await self._send(event)
            except Unreachable:
                if attempt == MOST_TRIES:
                    raise
            else:
                return
            # The first wait differs, so that controllers do not come back all at once.
            await asyncio.sleep(RETRY_SECONDS * (self._jitter() if attempt == 1 else 1))

    async def _send(self, event: Event) -> None:
        write = event.repeat() if event.count > 1 else event.create()
        try:
            await self._sender.send(write)
        except NotFound:
            if write.verb == "create":
                raise
            # Events end after an hour or so, and the first one may never have arrived.
            await self._sender.send(event.create())

    def _complain(self, remark: EventOccurrence, error: Exception) -> None:
        """Log why an Event was not sent; for each reason and sort of error a line and counts."""
        text = str(error) if isinstance(error, HostError) else f"{type(error).__name__}: {error}"
        fact = (remark.reason, sort_of_error(error))
        self._not_sent.say(fact, {**_pairs(remark), "error": text})


def _pairs(remark: EventOccurrence) -> dict[str, str]:
    return {"kind": str(remark.kind), "key": str(remark.key), "reason": remark.reason}
