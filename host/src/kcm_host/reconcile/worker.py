"""Workers: take a key from the queue, run one sync within its time limit, handle its result."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import takewhile
from typing import Protocol

import msgspec

from kcm_host.api.errors import HostError
from kcm_host.api.kinds import Key
from kcm_host.api.sync import Cause, Done, Later, Outcome, SyncOutcome, SyncRecord, Terminal
from kcm_host.api.watch import View
from kcm_host.api.writes import Permission, Writer
from kcm_host.informer.cache_view import Stores, SyncView
from kcm_host.observe.deduplication import DeduplicatedLog, fingerprint
from kcm_host.observe.logging import current_controller, place_of
from kcm_host.observe.tracing import NoTracing, SyncSpan, Tracing, WriteLinks
from kcm_host.reconcile.event_recorder import RecordEvent, record_nothing
from kcm_host.reconcile.read_your_writes import ReadYourWrites
from kcm_host.reconcile.sender import Sender
from kcm_host.reconcile.sync_log import log_hot_key, log_missed_wakeup, log_sync
from kcm_host.reconcile.writer import OnWrite, SyncWriter, check_awaited, close_unawaited
from kcm_host.workqueue.queue import Item, QueueShutDown, WorkQueue

#: How long a cancelled sync may take to end; less than a stop has after its drain.
GRACE_SECONDS = 3.0


class RunningSync(msgspec.Struct, eq=False):
    """One running sync. `due` is the loop time at which the limit acts on it."""

    key: Key
    task: asyncio.Task[None]
    writer: SyncWriter
    due: float
    #: The limit has cancelled it.
    timed_out: bool = False
    #: It did not end after its cancellation; its worker was replaced.
    stuck: bool = False
    #: Something other than the limit has cancelled it.
    cancelled: bool = False

    def note_end(self) -> None:
        """Record that the plugin's code has ended, and undo the cancellation by the limit."""
        # One request is the limit's own; what is left is somebody else's, such as the stop of the
        # host.
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
        running = RunningSync(
            key=key, task=task, writer=writer, due=self._loop.time() + self._seconds
        )
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
        # Before those that are due now: these get their own time to end.
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


log = logging.getLogger(__name__)


class SyncFunction(Protocol):
    """The `kcm_sync` hook of a plugin."""

    def __call__(self, key: Key, view: View, writer: Writer) -> Awaitable[Outcome]:
        """Call `kcm_sync`."""


class WorkerContext(msgspec.Struct, frozen=True):
    """What the workers of one controller share."""

    controller: str
    sync: SyncFunction
    queue: WorkQueue
    stores: Stores
    sender: Sender
    permissions: frozenset[Permission]
    on_sync: Callable[[SyncRecord], None]
    on_write: OnWrite
    #: Whether nothing but the resync requested a key that is being synced.
    is_resync_only: Callable[[Key], bool]
    read_your_writes: ReadYourWrites
    failed_syncs: DeduplicatedLog
    sync_timeout_seconds: float = 60.0
    record_event: RecordEvent = record_nothing
    #: A module of the plugin, whose package is named where a sync has failed.
    module: str = ""
    tracing: Tracing = msgspec.field(default_factory=NoTracing)
    write_links: WriteLinks = msgspec.field(default_factory=WriteLinks)


def failed_sync_log() -> DeduplicatedLog:
    """Return the log of failed syncs: the same failure of many keys is one line and a count."""
    return DeduplicatedLog(log, "sync failed")


class _Result(msgspec.Struct, frozen=True):
    """How one sync ended, and after how many seconds its key is requeued."""

    outcome: SyncOutcome
    requeue_seconds: float | None = None
    error: str = ""


class _Attempt(msgspec.Struct, frozen=True):
    """One sync of one item."""

    item: Item
    number: int
    view: SyncView
    writer: SyncWriter
    span: SyncSpan


async def run_worker(context: WorkerContext, limit: SyncTimeLimit) -> None:
    """Sync keys until the queue is shut down, the task is cancelled, or a sync in it is stuck."""
    current_controller.set(context.controller)
    while True:
        try:
            item = await context.queue.get()
        except QueueShutDown:
            return
        try:
            running = await sync_item(context, limit, item)
        finally:
            context.queue.done(item.key)
        if running.stuck or running.cancelled:
            return
        # A sync that sends nothing never waits: without this, a long queue of them would block
        # watches, other controllers and the stop signal.
        if not running.writer.is_answered:
            await asyncio.sleep(0)


async def sync_item(context: WorkerContext, limit: SyncTimeLimit, item: Item) -> RunningSync:
    """
    Run one sync and handle its result: forget failures, requeue the key, call the observers.

    Return the sync, which shows whether its worker was replaced or cancelled meanwhile.
    """
    if item.is_newly_hot:
        log_hot_key(context.controller, item)
    if not await context.read_your_writes.wait_until_visible(item.key):
        # It reads a state from before its own last write, so it may repeat that write.
        context.queue.clear_resync_only(item.key)
    number = context.queue.failures(item.key) + 1
    with context.tracing.sync(
        context.controller,
        item.key,
        attempt=number,
        causes=context.write_links.linked(item.causes),
        merged=item.merged,
        queued_seconds=item.queued_seconds,
    ) as span:
        view = SyncView(context.controller, context.stores)
        writer = SyncWriter(
            context.controller,
            context.sender,
            context.permissions,
            span=span,
            tracker=context.read_your_writes.tracker(item.key),
            write_links=context.write_links,
            on_write=context.on_write,
            uid_read=view.uid_read,
            record_event=context.record_event,
            is_resync_only=partial(context.is_resync_only, item.key),
        )
        return await _run_attempt(
            context, limit, _Attempt(item=item, number=number, view=view, writer=writer, span=span)
        )


async def _run_attempt(
    context: WorkerContext, limit: SyncTimeLimit, attempt: _Attempt
) -> RunningSync:
    started = time.monotonic()
    result = _Result("cancelled")
    running = limit.begin(attempt.item.key, attempt.writer)
    try:
        result = await _call_sync(context, attempt, running)
    finally:
        limit.end(running)
        # A task that the plugin has left running could write beside the next sync of the key
        # (F-30).
        attempt.writer.close("its sync has ended")
        _report(context, attempt, result, seconds=time.monotonic() - started)
    return running


def _report(context: WorkerContext, attempt: _Attempt, result: _Result, *, seconds: float) -> None:
    item, writer = attempt.item, attempt.writer
    if writer.missed is not None:
        log_missed_wakeup(context.controller, item.key, writer.missed)
    attempt.span.finish(
        result.outcome,
        reads=attempt.view.reads,
        error=result.error,
        retry_after_seconds=result.requeue_seconds,
    )
    record = SyncRecord(
        controller=context.controller,
        key=item.key,
        outcome=result.outcome,
        attempt=attempt.number,
        queued_seconds=item.queued_seconds,
        seconds=seconds,
        causes=item.causes,
        merged=item.merged,
        writes=tuple(writer.records),
        reads=attempt.view.reads,
        error=result.error,
        retry_after_seconds=result.requeue_seconds,
        missed_wakeup=writer.missed is not None,
    )
    log_sync(record, item)
    context.on_sync(record)


async def _call_sync(context: WorkerContext, attempt: _Attempt, running: RunningSync) -> _Result:
    """Call the plugin's sync and handle its result; raises what ends the worker too."""
    key = attempt.item.key
    try:
        outcome = await context.sync(key, attempt.view, attempt.writer)
        if attempt.writer.calls:
            check_awaited(attempt.writer.calls)
    except BaseException as error:
        # Everything: a sync that raised `CancelledError` or `SystemExit` by itself ended its worker
        # for good, silently (F-3).
        running.note_end()
        close_unawaited(attempt.writer.calls)
        if _ends_worker(error, running):
            raise
        pairs = {"controller": context.controller, "key": str(key)}
        log.debug("sync raised", exc_info=True, extra={"kv": pairs})
        return _handle_error(context, attempt, error, timed_out=running.timed_out)
    running.note_end()
    if running.timed_out:
        # It returned a result in spite of its cancellation, but was interrupted somewhere.
        return _handle_error(context, attempt, TimeoutError(), timed_out=True)
    return _handle_result(context, attempt, outcome)


def _ends_worker(error: BaseException, running: RunningSync) -> bool:
    """
    Return whether this is the end of the worker and not a failure of the plugin.

    A sync that awaits a task of its own which was cancelled raises `CancelledError` too, but then
    nobody has cancelled the sync.
    """
    if isinstance(error, asyncio.CancelledError):
        return running.cancelled
    return isinstance(error, (KeyboardInterrupt, GeneratorExit))


def _handle_result(context: WorkerContext, attempt: _Attempt, outcome: Outcome) -> _Result:
    item = attempt.item
    context.queue.forget(item.key)
    match outcome:
        case Done():
            return _Result("done")
        case Later(after):
            seconds = after.total_seconds()
            cause = _requeue_cause("timer", attempt.span)
            context.queue.add_after(item.key, cause, after=seconds, priority=item.priority)
            return _Result("later", seconds)
        case Terminal(text):
            pairs = {
                "controller": context.controller,
                "key": str(item.key),
                "error": text,
                "retry_in": "never",
            }
            context.failed_syncs.log("terminal", pairs, level=logging.ERROR)
            return _Result("terminal", error=text)


def _handle_error(
    context: WorkerContext, attempt: _Attempt, error: BaseException, *, timed_out: bool
) -> _Result:
    item = attempt.item
    text = str(error) if isinstance(error, HostError) else f"{type(error).__name__}: {error}"
    if timed_out:
        text = f"no end after {context.sync_timeout_seconds:g} s"
    # With the priority it had: a failed key came back as a normal one, so that an idle one was
    # promoted and an urgent one demoted (F-17).
    cause = _requeue_cause("retry", attempt.span)
    seconds = context.queue.add_rate_limited(item.key, cause, priority=item.priority, error=text)
    pairs = {
        "controller": context.controller,
        "key": str(item.key),
        "error": text,
        "retry_in": f"{seconds:.3g}s",
    }
    if place := place_of(error, module=context.module):
        pairs["at"] = place
    context.failed_syncs.log("timeout" if timed_out else fingerprint(error), pairs)
    return _Result("timeout" if timed_out else "error", seconds, text)


def _requeue_cause(reason: str, span: SyncSpan) -> Cause:
    return Cause(reason=reason, received=time.monotonic(), link=span.context)
