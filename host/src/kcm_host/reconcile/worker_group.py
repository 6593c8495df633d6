"""The workers of one start of a controller."""

import asyncio
import logging
from collections.abc import Collection
from itertools import islice

from kcm_host.api.errors import HostError
from kcm_host.reconcile.time_limit import GRACE_SECONDS, Running, SyncTimeLimit
from kcm_host.reconcile.worker import WorkerContext, work

log = logging.getLogger(__name__)

#: What the author of the plugin has to change.
KEYS_NAMED = 10
REMEDY = "kcm_sync has to let CancelledError pass"


class WorkerGroup:
    """
    As many workers as configured, none of them held by a sync for ever.

    A sync that goes on though it was cancelled is stuck: it is told by name, keeps its key, may
    write no more, and a new worker takes the place of its own. `stuck` holds such syncs until
    they end; they may outlive the group.
    """

    def __init__(self, bench: WorkerContext, *, count: int, stuck: set[Running]) -> None:
        self._bench = bench
        self._stuck = stuck
        self._limits = SyncTimeLimit(self._on_stuck)
        self._ending = False
        self._started = 0
        self._nobody_left = asyncio.Event()
        #: Fails when a worker ends that should not; is never done otherwise.
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.tasks: set[asyncio.Task[None]] = set()
        for _ in range(count):
            self._add_worker()

    async def drain(self) -> None:
        """Return when the running syncs have ended, save those stuck; the queue is closed."""
        await self._nobody_left.wait()
        self._bench.failures.close()

    async def cancel(self) -> None:
        """End all syncs now; those that have not ended after 3 s are left behind, as stuck."""
        self._ending = True
        for task in self.tasks:
            task.cancel()
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await self._nobody_left.wait()
        except TimeoutError:
            self._limits.give_up()
        self._bench.failures.close()
        self.failure.cancel()

    def _add_worker(self) -> None:
        name = f"{self._bench.controller} worker {self._started}"
        task = asyncio.create_task(work(self._bench, self._limits), name=name)
        self._started += 1
        self.tasks.add(task)
        task.add_done_callback(self._on_end)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        self._leave(task)
        unasked = task.cancelled() or error is not None
        if unasked and not self._ending and not self.failure.done():
            what = f"{type(error).__name__}: {error}" if error is not None else "it was cancelled"
            self.failure.set_exception(HostError(f"a worker ended: {what}"))
            self.failure.exception()  # seen: nobody need wait for it

    def _on_stuck(self, running: Running) -> None:
        pairs = {"controller": self._bench.controller, "key": str(running.key), "remedy": REMEDY}
        log.error("sync goes on after its cancellation", extra={"kv": pairs})
        running.writer.close("its sync was cancelled")
        self._stuck.add(running)
        running.task.add_done_callback(lambda _: self._stuck.discard(running))
        self._leave(running.task)
        if not self._ending:
            self._add_worker()

    def _leave(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not self.tasks:
            self._nobody_left.set()


def stuck_problems(stuck: Collection[Running]) -> list[str]:
    """Say which syncs go on though they were cancelled; nothing when there are none."""
    if not stuck:
        return []
    keys = ", ".join(f"'{running.key}'" for running in islice(stuck, KEYS_NAMED))
    more = ", ..." if len(stuck) > KEYS_NAMED else ""
    return [f"syncs go on though they were cancelled: {len(stuck)} ({keys}{more}); {REMEDY}"]
