"""Workers: take a key, run one sync, settle what comes of it."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from kcm_host.api.errors import HostError
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.outcomes import Done, Later, Outcome
from kcm_host.api.records import Cause, SyncRecord
from kcm_host.api.views import View
from kcm_host.api.writes import Permission, Receipt, Write, Writer
from kcm_host.informer.cache_view import Stores, SyncView
from kcm_host.observe.repeats import Repeats, sort_of_error
from kcm_host.reconcile.links import WriteLinks
from kcm_host.reconcile.read_your_writes import ReadYourWrites
from kcm_host.reconcile.sender import Sender
from kcm_host.reconcile.time_limit import SYNC_SECONDS, Running, SyncTimeLimit
from kcm_host.reconcile.writer import OnWrite, SyncWriter, TellUsers
from kcm_host.workqueue.queue import Item, QueueShutDown, WorkQueue

if TYPE_CHECKING:
    from kcm_host.observe.tracing import SyncSpan, Tracing
    from kcm_host.reconcile.event_recorder import EventRecorder

log = logging.getLogger(__name__)


class Sync(Protocol):
    """One sync of a plugin."""

    def __call__(self, key: Key, view: View, writer: Writer, settings: Any) -> Awaitable[Outcome]:
        """Call `kcm_sync`."""


class WorkerContext(msgspec.Struct, frozen=True):
    """What the workers of one controller share."""

    controller: str
    sync: Sync
    settings: Any
    queue: WorkQueue
    stores: Stores
    sender: Sender
    permissions: frozenset[Permission]
    on_sync: Callable[[SyncRecord], None]
    on_write: OnWrite
    #: Whether only the slow sweep has asked for a running key.
    is_unasked: Callable[[Key], bool]
    own_writes: ReadYourWrites
    #: What tells of failed syncs.
    failures: Repeats
    tracing: "Tracing | None" = None
    echoes: WriteLinks | None = None
    events: "EventRecorder | None" = None


def failed_syncs() -> Repeats:
    """Give what tells of failed syncs: the same failure of many keys is one line and a count."""
    return Repeats(log, "sync failed")


class _End(msgspec.Struct, frozen=True):
    """How one sync ended, and when its key runs again."""

    outcome: str
    again_seconds: float | None = None
    error: str = ""


async def work(bench: WorkerContext, limits: SyncTimeLimit) -> None:
    """Sync keys until the queue is closed, the task is cancelled, or a sync was stuck in it."""
    while True:
        try:
            item = await bench.queue.get()
        except QueueShutDown:
            return
        try:
            goes_on = await sync_one(bench, limits, item)
        finally:
            bench.queue.done(item.key)
        if not goes_on:
            return
        # A sync with nothing to write never waits: without this, a long queue of them would keep
        # the loop from watches, neighbours and the stop signal.
        await asyncio.sleep(0)


async def sync_one(bench: WorkerContext, limits: SyncTimeLimit, item: Item) -> bool:
    """
    Run one sync and settle it: forget its failures, queue it again, tell the observers.

    Give whether its worker goes on: it was neither replaced nor cancelled meanwhile.
    """
    if not await bench.own_writes.seen(item.key):
        # It reads from before its own last write, so it may write the same once more.
        bench.queue.doubt(item.key)
    attempt = bench.queue.failures(item.key) + 1
    if bench.tracing is None:
        return await _sync(bench, limits, item, attempt, None)
    with bench.tracing.sync(
        bench.controller,
        item.key,
        attempt=attempt,
        causes=bench.echoes.linked(item.causes) if bench.echoes else item.causes,
        merged=item.merged,
        queued_seconds=item.queued_seconds,
    ) as span:
        return await _sync(bench, limits, item, attempt, span)


async def _sync(
    bench: WorkerContext, limits: SyncTimeLimit, item: Item, attempt: int, span: "SyncSpan | None"
) -> bool:
    view = SyncView(bench.controller, bench.stores)
    writer = SyncWriter(
        bench.controller,
        bench.sender,
        bench.permissions,
        span,
        own_writes=bench.own_writes.of(item.key),
        on_written=_linked(bench.echoes, span),
        on_write=bench.on_write,
        uid_read=view.uid_read,
        tell_users=_told(bench),
        is_unasked=partial(bench.is_unasked, item.key),
    )
    started = time.monotonic()
    end = _End("cancelled")
    running = limits.begin(item.key, writer)
    try:
        end = await _end_of(bench, item, running, view, span)
    finally:
        limits.end(running)
        writer.close("its sync has ended")
        record = SyncRecord(
            bench.controller,
            item.key,
            end.outcome,
            attempt,
            item.queued_seconds,
            time.monotonic() - started,
            item.causes,
            item.merged,
            tuple(writer.records),
            view.reads,
            end.error,
            end.again_seconds,
            writer.missed is not None,
        )
        if writer.missed is not None:
            _report_missed(bench, item.key, writer.missed)
        if span is not None:
            span.finish(
                record.outcome,
                reads=record.reads,
                error=record.error,
                retry_after_seconds=record.retry_after_seconds,
            )
        bench.on_sync(record)
    return not (running.stuck or running.cancelled)


async def _end_of(
    bench: WorkerContext, item: Item, running: Running, view: View, span: "SyncSpan | None"
) -> _End:
    """Call the plugin's sync and settle how it ends; raises what ends the worker too."""
    try:
        outcome = await bench.sync(item.key, view, running.writer, bench.settings)
    except BaseException as error:
        running.over()
        if _ends_worker(error, running):
            raise
        pairs = {"controller": bench.controller, "key": str(item.key)}
        log.debug("sync raised", exc_info=True, extra={"kv": pairs})
        return _retry(bench, item, error, span, late=running.late)
    running.over()
    if running.late:
        # It answered its cancellation with a result, but was cut somewhere on the way to it.
        return _retry(bench, item, TimeoutError(), span, late=True)
    return _handle_result(bench, item, outcome, span)


def _ends_worker(error: BaseException, running: Running) -> bool:
    """
    Whether this is the end of the worker and not a failure of the plugin.

    `CancelledError` also comes out of a sync that awaits a task of its own which was cancelled:
    then nobody has cancelled the sync.
    """
    if isinstance(error, asyncio.CancelledError):
        return running.cancelled
    return isinstance(error, (KeyboardInterrupt, GeneratorExit))


def _report_missed(bench: WorkerContext, key: Key, write: Write) -> None:
    pairs = {
        "controller": bench.controller,
        "key": str(key),
        "write": f"{write.verb} {write.kind} '{write.key}'",
        "remedy": "report it to the author of the controller",
    }
    log.warning("wake-up missed, found by the slow sweep", extra={"kv": pairs})


def _linked(
    echoes: WriteLinks | None, span: "SyncSpan | None"
) -> Callable[[Write, Receipt], None] | None:
    """Give what lets traces find the sync behind an echo."""
    if echoes is None or span is None:
        return None
    return lambda write, receipt: echoes.remember(write, receipt, span.context)


def _told(bench: WorkerContext) -> TellUsers | None:
    """Give what records an Event about an object that a store of the controller holds."""
    recorder = bench.events
    if recorder is None:
        return None

    def tell(
        kind: Kind, key: Key, reason: str, message: str, warning: bool, component: str
    ) -> None:
        stores = (store for (its, _), store in bench.stores.items() if its == kind)
        found = next((entry for store in stores if (entry := store.entry(key))), None)
        if found is not None:
            recorder.record(
                kind,
                key,
                uid=found.uid,
                version=found.resource_version,
                reason=reason,
                message=message,
                warning=warning,
                component=component,
            )

    return tell


def _handle_result(
    bench: WorkerContext, item: Item, outcome: Outcome, span: "SyncSpan | None"
) -> _End:
    bench.queue.forget(item.key)
    match outcome:
        case Done():
            return _End("done")
        case Later(after):
            seconds = after.total_seconds()
            bench.queue.later(item.key, _again("timer", span), after=seconds, lane=item.lane)
            return _End("later", seconds)


def _retry(
    bench: WorkerContext, item: Item, error: BaseException, span: "SyncSpan | None", *, late: bool
) -> _End:
    text = str(error) if isinstance(error, HostError) else f"{type(error).__name__}: {error}"
    if late:
        text = f"no end after {SYNC_SECONDS:.0f} s"
    seconds = bench.queue.retry(item.key, _again("retry", span), lane=item.lane)
    pairs = {
        "controller": bench.controller,
        "key": str(item.key),
        "error": text,
        "retry_in": f"{seconds:.3g}s",
    }
    bench.failures.say("late" if late else sort_of_error(error), pairs)
    return _End("timeout" if late else "error", seconds, text)


def _again(reason: str, span: "SyncSpan | None") -> Cause:
    return Cause(reason, time.monotonic(), link=span.context if span is not None else None)
