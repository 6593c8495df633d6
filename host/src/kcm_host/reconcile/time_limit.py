"""The time limit of syncs, enforced from outside of them."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import takewhile

from kcm_host.api.kinds import Key
from kcm_host.reconcile.writer import SyncWriter

#: How long a cancelled sync may take to end; less than a stop has after its drain.
GRACE_SECONDS = 3.0


class RunningSync:
    """One running sync. `due` is the loop time at which the limit acts on it."""

    __slots__ = ("cancelled", "due", "key", "stuck", "task", "timed_out", "writer")

    def __init__(self, key: Key, task: asyncio.Task[None], writer: SyncWriter, due: float) -> None:
        self.key = key
        self.task = task
        self.writer = writer
        self.due = due
        #: The limit has cancelled it.
        self.timed_out = False
        #: It did not end after its cancellation; its worker was replaced.
        self.stuck = False
        #: Something other than the limit has cancelled it.
        self.cancelled = False

    def note_end(self) -> None:
        """Record that the plugin's code has ended, and undo the cancellation by the limit."""
        requests = self.task.uncancel() if self.timed_out else self.task.cancelling()
        self.cancelled = requests > 0


class SyncTimeLimit:
    """
    Cancels syncs that have timed out, and calls `on_stuck` for those that do not end then.

    One timer for all syncs: they end long before it fires, and a timer for each would cost more
    than the rest of a sync that has nothing to write.
    """

    def __init__(self, on_stuck: Callable[[RunningSync], None], *, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_stuck = on_stuck
        self._seconds = seconds
        # Both in the order of their due times, because every sync has the same limit.
        self._running: dict[RunningSync, None] = {}
        self._cancelled: dict[RunningSync, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, key: Key, writer: SyncWriter) -> RunningSync:
        """Record that the current task begins a sync."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a sync runs in a task")
        running = RunningSync(key, task, writer, self._loop.time() + self._seconds)
        self._running[running] = None
        if self._timer is None:
            self._timer = self._loop.call_at(running.due, self._on_timer)
        return running

    def end(self, running: RunningSync) -> None:
        """Record that a sync has ended."""
        self._running.pop(running, None)
        self._cancelled.pop(running, None)

    def mark_all_stuck(self) -> None:
        """Treat every sync that has not ended as stuck."""
        for running in [*self._running, *self._cancelled]:
            self._mark_stuck(running)

    def _on_timer(self) -> None:
        """Act on all syncs that are due, and start the timer for the next one."""
        now = self._loop.time()
        for running in _due(self._cancelled, now):
            self._mark_stuck(running)
        for running in _due(self._running, now):
            del self._running[running]
            self._cancelled[running] = None
            running.timed_out = True
            running.due = now + GRACE_SECONDS
            running.task.cancel()
        first = [next(iter(syncs)).due for syncs in (self._running, self._cancelled) if syncs]
        self._timer = self._loop.call_at(min(first), self._on_timer) if first else None

    def _mark_stuck(self, running: RunningSync) -> None:
        self.end(running)
        running.stuck = True
        self._on_stuck(running)


def _due(syncs: dict[RunningSync, None], now: float) -> Iterator[RunningSync]:
    return iter(list(takewhile(lambda running: running.due <= now, syncs)))
