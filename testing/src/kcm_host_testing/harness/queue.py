"""The work queue of the host, which also tells whether time has to pass until it is idle."""

import asyncio
from typing import Any

from kcm_host.api import Cause, Key, Priority
from kcm_host.workqueue.queue import Item, WorkQueue


class RecordingQueue(WorkQueue):
    """
    A `WorkQueue` that records the keys that the plugin has queued.

    Keys that wait for a retry or a debounce are told apart from those that wait because the
    plugin has said so (`Later`, `EnqueueRequest`): the latter are idle until their time comes.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, enqueued: list[Key]) -> None:
        super().__init__(loop)
        self._clock = loop.time
        self._enqueued = enqueued
        self._is_requeue = False
        #: Key -> the time of its retry, or the end of its debounce.
        self._soon: dict[Key, float] = {}

    def add(
        self, key: Key, cause: Cause, *, after: float = 0.0, priority: Priority = Priority.NORMAL
    ) -> None:
        """See `WorkQueue.add`."""
        if not self._is_requeue:
            self._enqueued.append(key)
        super().add(key, cause, after=after, priority=priority)

    def debounce(self, key: Key, cause: Cause, *, seconds: float, **options: Any) -> None:
        """See `WorkQueue.debounce`."""
        self._enqueued.append(key)
        self._soon[key] = self._clock() + seconds
        super().debounce(key, cause, seconds=seconds, **options)

    def add_rate_limited(self, key: Key, cause: Cause, **options: Any) -> float:
        """See `WorkQueue.add_rate_limited`."""
        self._is_requeue = True
        try:
            seconds = super().add_rate_limited(key, cause, **options)
        finally:
            self._is_requeue = False
        self._soon[key] = self._clock() + seconds
        return seconds

    def add_after(self, key: Key, cause: Cause, **options: Any) -> None:
        """See `WorkQueue.add_after`."""
        self._is_requeue = True
        try:
            super().add_after(key, cause, **options)
        finally:
            self._is_requeue = False

    async def get(self) -> Item:
        """See `WorkQueue.get`."""
        item = await super().get()
        if self._soon.get(item.key, 0.0) <= self._clock():
            self._soon.pop(item.key, None)
        return item

    @property
    def has_ready(self) -> bool:
        """Return whether a key can be taken now; to be called while no key is being synced."""
        return bool(self._dirty)

    def seconds_until_next(self) -> float | None:
        """Return the seconds until the next retry or end of a debounce, None without one."""
        now = self._clock()
        self._soon = {key: due for key, due in self._soon.items() if due > now}
        return min(self._soon.values()) - now if self._soon else None
