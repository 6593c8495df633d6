"""The workers of one run of a controller."""

import asyncio
import logging
from collections.abc import Collection
from itertools import islice

from kcm_host.api.errors import HostError
from kcm_host.reconcile.worker import (
    GRACE_SECONDS,
    RunningSync,
    SyncTimeLimit,
    WorkerContext,
    run_worker,
)

log = logging.getLogger(__name__)

MAX_KEYS_SHOWN = 10
#: What the author of the plugin has to change.
REMEDY = "kcm_sync has to let CancelledError pass"


class WorkerGroup:
    """
    As many workers as configured; no sync can block one of them for ever.

    A sync that does not end after its cancellation is stuck: it is logged with its key, keeps the
    key, may write no more, and a new worker replaces its own. `stuck` holds such syncs until they
    end; they may outlive the group.
    """

    def __init__(self, context: WorkerContext, *, count: int, stuck: set[RunningSync]) -> None:
        self._context = context
        self._stuck = stuck
        self._limit = SyncTimeLimit(self._on_stuck, seconds=context.sync_timeout_seconds)
        self._stopping = False
        self._started = 0
        self._all_ended = asyncio.Event()
        #: Fails when a worker ends unexpectedly; is never done otherwise.
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.tasks: set[asyncio.Task[None]] = set()
        for _ in range(count):
            self._add_worker()

    async def drain(self) -> None:
        """Return when the running syncs have ended, except stuck ones; the queue is shut down."""
        await self._all_ended.wait()
        self._context.failed_syncs.close()

    async def cancel(self) -> None:
        """Cancel all syncs; those that have not ended after 3 s are left running, as stuck."""
        self._stopping = True
        for task in self.tasks:
            task.cancel()
        try:
            # Bounded: a sync that swallows its cancellation kept the restart of its controller
            # waiting without end (F-4).
            async with asyncio.timeout(GRACE_SECONDS):
                await self._all_ended.wait()
        except TimeoutError:
            self._limit.mark_all_stuck()
        self._context.failed_syncs.close()
        self.failure.cancel()

    def _add_worker(self) -> None:
        name = f"{self._context.controller} worker {self._started}"
        task = asyncio.create_task(run_worker(self._context, self._limit), name=name)
        self._started += 1
        self.tasks.add(task)
        task.add_done_callback(self._on_end)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        self._remove(task)
        # A worker that ends by itself is a failure of the run: keys would be lost without a line
        # (F-3).
        is_unexpected = task.cancelled() or error is not None
        if is_unexpected and not self._stopping and not self.failure.done():
            reason = f"{type(error).__name__}: {error}" if error is not None else "it was cancelled"
            self.failure.set_exception(HostError(f"a worker ended: {reason}"))
            self.failure.exception()  # retrieved, because nobody has to await it

    def _on_stuck(self, running: RunningSync) -> None:
        pairs = {"controller": self._context.controller, "key": str(running.key), "remedy": REMEDY}
        log.error("sync stuck after its cancellation", extra={"kv": pairs})
        running.writer.close("its sync was cancelled")
        self._stuck.add(running)
        running.task.add_done_callback(lambda _: self._stuck.discard(running))
        self._remove(running.task)
        # A stuck sync keeps its task and its key; without a new worker, five of them would end the
        # controller (F-4).
        if not self._stopping:
            self._add_worker()

    def _remove(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not self.tasks:
            self._all_ended.set()


def stuck_problems(stuck: Collection[RunningSync]) -> list[str]:
    """Return one problem with the keys of stuck syncs; empty when there are none."""
    if not stuck:
        return []
    keys = ", ".join(f"'{running.key}'" for running in islice(stuck, MAX_KEYS_SHOWN))
    more = ", ..." if len(stuck) > MAX_KEYS_SHOWN else ""
    return [f"syncs go on though they were cancelled: {len(stuck)} ({keys}{more}); {REMEDY}"]
