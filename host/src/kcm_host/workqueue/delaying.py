"""The delaying queue: keys that are due at a later time, each with its merged causes."""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

import msgspec

from kcm_host.api.kinds import Key
from kcm_host.api.sync import Cause
from kcm_host.api.watch import Priority

MAX_CAUSES = 16


class Pending(msgspec.Struct):
    """
    The merged enqueue requests for one key.

    `since` is loop time. `causes` holds the first 16, `merged` counts all. `priority` is the
    highest that was requested. `resync` is True when the resync was the first to request the key.
    """

    since: float
    causes: list[Cause]
    merged: int
    priority: Priority = Priority.NORMAL
    resync: bool = False

    def merge(self, other: "Pending") -> None:
        """Add the causes of `other`, up to 16 in all, and take the higher priority."""
        # Compared first: in a burst nothing else is left to do for nearly all requests.
        if len(self.causes) < MAX_CAUSES:
            self.causes.extend(other.causes[: MAX_CAUSES - len(self.causes)])
        self.merged += other.merged
        if other.priority < self.priority:  # noqa: PLR1730 - `min` takes longer than the rest here
            self.priority = other.priority


class Waiting(msgspec.Struct):
    """
    One waiting key: when it is due, and the latest time to which a debounce may defer it.

    `heap_time` is the time of its valid heap entry; other entries of the key are stale.
    """

    due: float
    latest: float
    pending: Pending
    heap_time: float = 0.0


class DelayingQueue:
    """Calls `on_due` with each key when it is due, in the order of due times (IQ-88)."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_due: Callable[[Key, Pending], None]
    ) -> None:
        self._loop = loop
        self._on_due = on_due
        self._waiting: dict[Key, Waiting] = {}
        self._heap: list[tuple[float, int, Key]] = []
        # The number orders equal times by their adds; without it the heap would compare keys.
        self._sequence = count()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, key: Key, pending: Pending, *, due: float) -> None:
        """Delay `key` until `due`; if it waits already, until the earlier of both times (IQ-85)."""
        waiting = self._waiting.get(key)
        if waiting is None:
            self._insert(key, Waiting(due, due, pending))
            return
        waiting.pending.merge(pending)
        waiting.latest = min(waiting.latest, due)
        self._reschedule(key, waiting, min(waiting.due, due))

    def debounce(self, key: Key, pending: Pending, *, due: float, latest: float) -> None:
        """
        Delay `key` until `due`; each further call defers it again, but not beyond `latest`.

        `latest` of the first call counts; an `add` meanwhile is an upper bound too.
        """
        waiting = self._waiting.get(key)
        if waiting is None:
            self._insert(key, Waiting(due, latest, pending))
            return
        waiting.pending.merge(pending)
        self._reschedule(key, waiting, due if due < waiting.latest else waiting.latest)

    def __contains__(self, key: Key) -> bool:
        return key in self._waiting

    def clear(self) -> None:
        """Remove all waiting keys."""
        self._waiting.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()

    def __len__(self) -> int:
        return len(self._waiting)

    def _insert(self, key: Key, waiting: Waiting) -> None:
        self._waiting[key] = waiting
        self._push(key, waiting)

    def _reschedule(self, key: Key, waiting: Waiting, due: float) -> None:
        waiting.due = due
        # A later time is handled when the earlier entry is popped: bursts need no heap operation.
        if due < waiting.heap_time:
            self._push(key, waiting)

    def _push(self, key: Key, waiting: Waiting) -> None:
        waiting.heap_time = waiting.due
        heapq.heappush(self._heap, (waiting.due, next(self._sequence), key))
        if self._heap[0][0] == waiting.due:
            self._start_timer()

    def _start_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._heap[0][0], self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._heap and self._heap[0][0] <= now:
            heap_time, _, key = heapq.heappop(self._heap)
            waiting = self._waiting.get(key)
            # Entries are not searched for when a key gets an earlier time: they are stale, and
            # skipped here.
            if waiting is None or waiting.heap_time != heap_time:
                continue
            if waiting.due > now:
                self._push(key, waiting)
                continue
            del self._waiting[key]
            # The time that a key was told to wait is no time that it waited for a worker.
            waiting.pending.since = now
            self._on_due(key, waiting.pending)
        if self._heap:
            self._start_timer()
