"""The time limit of syncs, watched from outside of them."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import takewhile

from kcm_host.api.kinds import Key
from kcm_host.reconcile.writer import SyncWriter

SYNC_SECONDS = 60.0
#: How long a sync may take to end after it was cancelled; below what a stop has beyond its drain.
GRACE_SECONDS = 3.0


class Running:
    """One sync under way. `due` is the loop time at which something is done about it."""

    __slots__ = ("cancelled", "due", "key", "late", "stuck", "task", "writer")

    def __init__(self, key: Key, task: asyncio.Task[None], writer: SyncWriter, due: float) -> None:
        self.key = key
        self.task = task
        self.writer = writer
        self.due = due
        #: It was cancelled because its time was over.
        self.late = False
        #: It goes on though it was cancelled; its worker was replaced.
        self.stuck = False
        #: Somebody else than the limit cancelled it.
        self.cancelled = False

    def over(self) -> None:
        """Note that the plugin's code has ended: the limit's own cancellation is taken back."""
        asked = self.task.uncancel() if self.late else self.task.cancelling()
        self.cancelled = asked > 0


class SyncTimeLimit:
    """
    Cancels syncs whose time is over, and tells of those that go on.

    One timer for all of them: syncs end long before it fires, and a timer for each would cost
    more than the rest of a sync that has nothing to do.
    """

    def __init__(self, on_stuck: Callable[[Running], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_stuck = on_stuck
        # Both in the order of their times, because every sync has the same limit.
        self._running: dict[Running, None] = {}
        self._cancelled: dict[Running, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, key: Key, writer: SyncWriter) -> Running:
        """Note that the current task begins a sync."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a sync runs in a task")
        running = Running(key, task, writer, self._loop.time() + SYNC_SECONDS)
        self._running[running] = None
        if self._timer is None:
            self._timer = self._loop.call_at(running.due, self._look)
        return running

    def end(self, running: Running) -> None:
        """Note that a sync has ended."""
        self._running.pop(running, None)
        self._cancelled.pop(running, None)

    def give_up(self) -> None:
        """Take every sync that is left as stuck."""
        for running in [*self._running, *self._cancelled]:
            self._stuck(running)

    def _look(self) -> None:
        """Do what is due, and come again at the next time that counts."""
        now = self._loop.time()
        for running in _due(self._cancelled, now):
            self._stuck(running)
        for running in _due(self._running, now):
            del self._running[running]
            self._cancelled[running] = None
            running.late = True
            running.due = now + GRACE_SECONDS
            running.task.cancel()
        first = [next(iter(some)).due for some in (self._running, self._cancelled) if some]
        self._timer = self._loop.call_at(min(first), self._look) if first else None

    def _stuck(self, running: Running) -> None:
        self.end(running)
        running.stuck = True
        self._on_stuck(running)


def _due(some: dict[Running, None], now: float) -> Iterator[Running]:
    return iter(list(takewhile(lambda running: running.due <= now, some)))
