"""Enqueue requests because time has passed: the timers of a plugin, and the resync."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

from kcm_host.api.errors import PLUGIN_FAILURES
from kcm_host.api.kinds import Key
from kcm_host.api.sync import Cause
from kcm_host.api.watch import AnyWatch, Timer, name_of, object_key
from kcm_host.informer.store import Store
from kcm_host.runtime.event_handlers import ActiveWatch, EventDispatcher, InvalidResult, shown
from kcm_host.workqueue.queue import WorkQueue


async def run_timer(timer: Timer, dispatcher: EventDispatcher) -> None:
    """Call a timer each time its interval has passed, counted from now, until cancelled."""
    loop = asyncio.get_running_loop()
    every = timer.every.total_seconds()
    due = loop.time() + every
    while True:
        await asyncio.sleep(due - loop.time())
        fire(timer, dispatcher)
        # One call stands for all that came due while the process was suspended.
        missed = max(loop.time() - due, 0.0) // every
        due += every * (missed + 1)


def fire(timer: Timer, dispatcher: EventDispatcher) -> None:
    """Call a timer and enqueue what it returns."""
    source = f"'keys' of a timer (every {timer.every})"
    dispatcher.call(timer.keys, cause=_timer_cause, source=source)


def _timer_cause() -> Cause:
    return Cause(reason="timer", received=time.monotonic())


#: Keys of the resync in the queue at a time, and objects read in one turn of the loop.
BATCH = 100
#: A period is longer by up to this share, so that controllers do not resync together.
JITTER = 0.1


class Resync:
    """
    Enqueues the key of every object of the watches that name one (`Watch.resync`), or whose
    objects are keys.

    It corrects missed enqueue requests. A write in a sync that only the resync requested shows
    that `keys` of some watch has missed a change.
    """

    def __init__(
        self,
        queue: WorkQueue,
        dispatcher: EventDispatcher,
        *,
        active_watches: Callable[[], Iterable[ActiveWatch]],
        timers: Sequence[Timer],
        period: timedelta,
        random: Callable[[], float],
    ) -> None:
        self._queue = queue
        self._dispatcher = dispatcher
        self._active_watches = active_watches
        self._timers = timers
        self._period_seconds = period.total_seconds()
        self._random = random

    async def run(self) -> None:
        """Resync each time the period has passed since the end of the last one; 0 s: never."""
        while self._period_seconds:
            await asyncio.sleep(self._period_seconds * (1 + JITTER * self._random()))
            for watch, store, _ in list(self._active_watches()):
                resync = watch.resync or (_same if watch.keys is object_key else None)
                if resync is not None:
                    await self._resync(watch, resync, store)

    def is_resync_only(self, key: Key) -> bool:
        """
        Return whether only the resync has requested this running key, and no timer would now.

        To be called before a write is sent: the event of the write may request the key.
        """
        if not self._queue.is_resync_only(key) or self._is_syncing():
            return False
        for timer in self._timers:
            # Called early, so that a key whose time has come in this very moment is no missed
            # wake-up.
            if not timer.resync:
                fire(timer, self._dispatcher)
        return self._queue.is_resync_only(key) and not self._dispatcher.closed

    def _is_syncing(self) -> bool:
        """Return whether syncs read a store of which not all objects have gone through `keys`."""
        return any(len(one.store) and not one.is_synced for one in self._active_watches())

    async def _resync(
        self, watch: AnyWatch, resync: Callable[[Key], Key], store: Store[Any]
    ) -> None:
        keys = store.keys()
        for begin in range(0, len(keys), BATCH):
            # Never more than a batch is queued: objects of 100,000 keys would otherwise wait in the
            # memory and in the metrics of the queue.
            await self._queue.wait_resync_taken()
            await asyncio.sleep(0)
            cause = Cause(reason="resync", received=time.monotonic(), kind=str(watch.kind))
            for key in keys[begin : begin + BATCH]:
                try:
                    if _is_readable(store, key):
                        self._queue.add_resync(_checked(resync(key)), cause)
                except PLUGIN_FAILURES as error:
                    source = f"'resync' of watch '{name_of(watch)}'"
                    self._dispatcher.fail(error, source=source, about=key)
                    return


def _same(key: Key) -> Key:
    return key


def _checked(key: object) -> Key:
    if isinstance(key, Key):
        return key
    raise InvalidResult(f"returned {shown(key)}; return a Key")


def _is_readable(store: Store[Any], key: Key) -> bool:
    """Return whether an object is still in the store, in a version that could be decoded."""
    entry = store.entry(key)
    return entry is not None and not entry.undecodable
