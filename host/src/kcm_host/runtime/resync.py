"""The slow sweep: syncs everything now and then, and judges whether a wake-up was missed."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

from kcm_host.api.errors import PLUGIN_FAILURES
from kcm_host.api.kinds import Key
from kcm_host.api.records import Cause
from kcm_host.api.timers import Timer
from kcm_host.api.watches import AnyWatch
from kcm_host.informer.store import Store
from kcm_host.runtime.event_handlers import ActiveWatch, EventDispatcher
from kcm_host.runtime.timers import fire
from kcm_host.workqueue.queue import WorkQueue

#: Keys of the sweep in the queue at a time, and objects looked at in one turn of the loop.
SLICE = 100
#: A period is longer by up to this share, so that controllers do not sweep together.
JITTER = 0.1


class Resync:
    """
    Queues the key of every object of the watches that say which (`Watch.resync`).

    A net under missed wake-ups. What a key of the sweep writes was missed by `keys`, unless
    anything else that the host knows of would have led to that sync too.
    """

    def __init__(
        self,
        queue: WorkQueue,
        functions: EventDispatcher,
        *,
        followed: Callable[[], Iterable[ActiveWatch]],
        timers: Sequence[Timer],
        period: timedelta,
        random: Callable[[], float],
    ) -> None:
        self._queue = queue
        self._functions = functions
        self._followed = followed
        self._timers = timers
        self._period_seconds = period.total_seconds()
        self._random = random

    async def run(self) -> None:
        """Sweep each time the period has passed since the end of the sweep before; 0 s: never."""
        while self._period_seconds:
            await asyncio.sleep(self._period_seconds * (1 + JITTER * self._random()))
            for watch, store, _ in list(self._followed()):
                if watch.resync is not None:
                    await self._sweep(watch, watch.resync, store)

    def is_unasked(self, key: Key) -> bool:
        """
        Whether nothing but the sweep has asked for this running key, and no timer would now.

        To be asked before a write is sent: the echo of the write may ask for the key.
        """
        if not self._queue.is_unasked(key) or self._is_being_told():
            return False
        for timer in self._timers:
            if not timer.resync:
                fire(timer, self._functions)
        return self._queue.is_unasked(key) and not self._functions.failure.done()

    def _is_being_told(self) -> bool:
        """Whether syncs see objects of a watch of which not all have gone through `keys`."""
        return any(len(one.store) and not one.is_synced for one in self._followed())

    async def _sweep(
        self, watch: AnyWatch, resync: Callable[[Key], Key], store: Store[Any]
    ) -> None:
        names = store.keys()
        for begin in range(0, len(names), SLICE):
            await self._queue.sweep_taken()
            await asyncio.sleep(0)
            cause = Cause("resync", time.monotonic(), str(watch.kind))
            try:
                for name in names[begin : begin + SLICE]:
                    if _is_readable(store, name):
                        self._queue.sweep(resync(name), cause)
            except PLUGIN_FAILURES as error:
                self._functions.fail(error, culprit="'resync' of a watch")
                return


def _is_readable(store: Store[Any], name: Key) -> bool:
    """Whether an object is still there, in a version that fits: no sync of another could help."""
    entry = store.entry(name)
    return entry is not None and entry.good
