"""One run of a controller: a plugin instance with its watches, its queue and its workers."""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from datetime import timedelta
from functools import partial
from itertools import repeat
from typing import Any

import msgspec

from kcm_host.api.hooks import Metric
from kcm_host.api.sync import Cause, SyncRecord
from kcm_host.api.writes import EVENT, Permission
from kcm_host.client.auth.credentials import Credentials
from kcm_host.client.discovery import CachedDiscoveryClient
from kcm_host.client.errors import ConnectionProblem
from kcm_host.client.rest import Client, user_agent_of
from kcm_host.informer.cache_view import CacheView, Stores
from kcm_host.informer.informer_factory import InformerFactory
from kcm_host.observe.tracing import NoTracing, Tracing
from kcm_host.plugins.plugin import Plugin
from kcm_host.reconcile.event_recorder import EventRecorder
from kcm_host.reconcile.read_your_writes import ReadYourWrites
from kcm_host.reconcile.sender import LiveSender, RefusedWrites
from kcm_host.reconcile.worker import RunningSync, WorkerContext, failed_sync_log
from kcm_host.reconcile.worker_group import WorkerGroup
from kcm_host.reconcile.writer import OnWrite
from kcm_host.retries import retry
from kcm_host.runtime.discovery_poller import RecordedDiscovery, difference
from kcm_host.runtime.dynamic_watches import HOOK, DynamicWatches
from kcm_host.runtime.event_handlers import (
    ActiveWatch,
    EventDispatcher,
    RestartReason,
    WatchSet,
)
from kcm_host.runtime.periodic import Resync, run_timer
from kcm_host.workqueue.queue import WorkQueue

log = logging.getLogger(__name__)

CREDENTIALS_RETRY_SECONDS = 10.0
CREATE_EVENTS = Permission(kind=EVENT, verb="create")
#: The source of an exception that no plugin function has raised.
HOST = "the host (please report it)"


class ControllerConfig(msgspec.Struct, frozen=True):
    """The configuration of one controller."""

    plugin: Plugin
    settings: Any
    workers: int
    qps: float | None = None
    burst: int | None = None
    resync_period: timedelta = timedelta(hours=10)
    #: What it may write, as its plugin said when it was loaded.
    permissions: frozenset[Permission] = frozenset()


class SharedDependencies(msgspec.Struct, frozen=True):
    """The dependencies that all controllers of the host share."""

    client: Client
    #: By the name of a controller that writes with a service account of its own.
    own_clients: Mapping[str, Client]
    informers: InformerFactory
    discovery: CachedDiscoveryClient
    on_sync: Callable[[SyncRecord], None]
    on_write: OnWrite
    tracing: Tracing = msgspec.field(default_factory=NoTracing)


class ControllerRun:
    """
    One run of a controller: a new plugin instance, its queue, its event handlers and its tasks.

    It ends with `restart`: after an exception in a watch function the plugin has missed a change,
    so only a new instance that begins with a new list has a state that can be trusted. Tasks
    begin with `start`, when the caches are synced, and end with `drain` or `cancel`.
    """

    def __init__(self, config: ControllerConfig, shared: SharedDependencies) -> None:
        loop = asyncio.get_running_loop()
        self.name = config.plugin.name
        self.queue = WorkQueue(loop)
        #: Writes that were refused for lack of permissions.
        self.refused_writes = RefusedWrites(loop.time)
        self._config = config
        self._shared = shared
        self._restart_reason: asyncio.Future[RestartReason] = loop.create_future()
        # A new instance for each run: after a missed change only a state that begins with a new
        # list can be trusted.
        self._instance = config.plugin.new(config.settings)
        self._stores = Stores()
        self._view = CacheView(self.name, self._stores)
        self._dispatcher = EventDispatcher(
            self.queue, self._view, self.restart, module=config.plugin.module
        )
        self._required = self._watch_set()
        self._optional = self._watch_set()
        self._dynamic = self._dynamic_watches()
        self._discovery = RecordedDiscovery(shared.discovery)
        self._watches = self._instance.watches(self._discovery)
        self._permissions = self._instance.writes()
        self._sender = LiveSender(
            shared.own_clients.get(self.name, shared.client),
            user_agent=user_agent_of(self.name),
            qps=config.qps,
            burst=config.burst,
            on_result=self.refused_writes.record,
        )
        self._timers = self._instance.timers()
        self._resync = Resync(
            self.queue,
            self._dispatcher,
            active_watches=self._active_watches,
            timers=self._timers,
            period=config.resync_period,
            random=random.random,
        )
        self._workers: WorkerGroup | None = None
        #: Tasks that enqueue keys, and those that send what syncs have recorded.
        self._enqueuing: list[asyncio.Task[None]] = []
        self._sending: list[asyncio.Task[None]] = []
        for watch in self._watches:
            watches = self._required if watch.required else self._optional
            watches.add(watch)

    def restart(self, reason: RestartReason) -> None:
        """End this run; the first reason counts, and no watch function is called afterwards."""
        self._dispatcher.closed = True
        if not self._restart_reason.done():
            self._restart_reason.set_result(reason)

    @property
    def is_ending(self) -> bool:
        """Return whether a restart was requested."""
        return self._restart_reason.done()

    async def restart_requested(self) -> RestartReason:
        """Return the reason of the restart once one is requested."""
        # Shielded: the cancellation of one who waits would cancel the future for all.
        return await asyncio.shield(self._restart_reason)

    async def wait_for_cache_sync(self) -> None:
        """Return when all required watches are synced, or a restart is requested."""
        synced = asyncio.create_task(self._required.wait_for_cache_sync())
        try:
            ends: set[asyncio.Future[Any]] = {synced, self._restart_reason}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            synced.cancel()

    def start(self, *, stuck: set[RunningSync]) -> None:
        """Start the workers and the other tasks; see `WorkerGroup` for `stuck`."""
        if self._instance.has("kcm_synced"):
            self._dispatcher.call(
                self._instance.synced,
                cause=lambda: Cause(reason="synced", received=time.monotonic()),
                source="'kcm_synced'",
            )
        # With the sender of the controller: Events count against its rate limit and its pauses.
        events = EventRecorder(self._sender)
        context = self._worker_context(events)
        self._workers = WorkerGroup(context, count=self._config.workers, stuck=stuck)
        self._workers.failure.add_done_callback(self._restart_on_error)
        enqueuing = [run_timer(timer, self._dispatcher) for timer in self._timers]
        enqueuing += [self._resync.run(), self._wait_for_credentials()]
        if self._dynamic is not None:
            enqueuing.append(self._dynamic.run())
        self._enqueuing = [self._task(one, "enqueuing") for one in enqueuing]
        if CREATE_EVENTS in self._permissions:
            self._sending = [self._task(events.run(), "events")]

    async def drain(self) -> None:
        """Drop queued keys, wait for running syncs except stuck ones, then stop sending Events."""
        # First the queue, so that no worker takes a further key; last the Events, which the running
        # syncs may still record.
        self.queue.shut_down()
        await _cancel(self._enqueuing)
        if self._workers is not None:
            await self._workers.drain()
        await _cancel(self._sending)

    async def cancel(self) -> None:
        """Cancel all tasks; syncs that ignore this for 3 s are left behind as stuck."""
        await _cancel([*self._enqueuing, *self._sending])
        if self._workers is not None:
            await self._workers.cancel()

    async def stop(self) -> None:
        """Close the queue and remove all event handlers; to be called after `cancel`."""
        self.queue.shut_down()
        await self._required.remove_all()
        await self._optional.remove_all()
        if self._dynamic is not None:
            await self._dynamic.stop()

    @property
    def is_idle(self) -> bool:
        """Return whether it has no watches, and gets none before the server serves other kinds."""
        return not self._watches and self._dynamic is None

    @property
    def depends_on_discovery(self) -> bool:
        """Return whether its watches depend on what the server serves."""
        return self._discovery.used or self._dynamic is not None or self._has_wrong_kind()

    def discovery_changed(self) -> None:
        """
        Restart if `kcm_watches` would return other watches now, else refresh the dynamic ones.

        Raises `BrokenPlugin` when the hook fails in a new instance.
        """
        changes = self._changed_watches()
        if changes:
            self.restart(RestartReason(f"the server serves other kinds now: it {changes}"))
        elif self._dynamic is not None:
            self._dynamic.refresh()

    def problems(self) -> list[str]:
        """Return why the controller is not ready: wrong kinds, failed informers, refusals."""
        texts = [*self._required.problems(), *self.wrong_kinds(), *self.refused_writes.problems()]
        return list(dict.fromkeys(texts))

    def wrong_kinds(self) -> list[str]:
        """Return what is wrong with the kinds of required watches and permissions."""
        kinds = [watch.kind for watch in self._watches if watch.required]
        kinds += [permission.kind for permission in self._permissions]
        correction = self._shared.discovery.api_resources.correction
        return sorted({text for kind in kinds if (text := correction(kind))})

    def missing_kinds(self) -> list[str]:
        """Return the kinds that `kcm_watches` has asked for and that are not served."""
        return sorted({str(kind) for kind in self._discovery.missing()})

    def watch_problems(self) -> list[str]:
        """Return the problems of watches that no sync waits for."""
        dynamic = self._dynamic.problems() if self._dynamic is not None else []
        return [*self._optional.problems(), *dynamic]

    @property
    def write_pause_seconds(self) -> float:
        """For how long writes are paused, because the server has sent `Retry-After`."""
        return self._sender.pause_seconds

    def metrics(self) -> tuple[Metric, ...]:
        """Return the metrics of the plugin, none without the hook; its exceptions pass."""
        if not self._instance.has("kcm_metrics"):
            return ()
        return self._instance.metrics(self._view)

    def status(self) -> Mapping[str, Any]:
        """Return what `kcm_status` returns; its exceptions pass."""
        return self._instance.status(self._view)

    def _has_wrong_kind(self) -> bool:
        """Return whether a watch or a permission waits for another result of discovery."""
        serves = self._shared.discovery.api_resources.serves
        return not all(serves(watch.kind) for watch in self._watches) or bool(self.wrong_kinds())

    def _changed_watches(self) -> str:
        """Return how `kcm_watches` of a new instance differs; empty when it does not."""
        if not self._discovery.used:
            return ""
        # Another instance is asked, because hooks of the running one may change its state.
        instance = self._config.plugin.new(self._config.settings)
        watches = instance.watches(self._shared.discovery.api_resources)
        return difference(self._watches, watches)

    def _worker_context(self, events: EventRecorder) -> WorkerContext:
        return WorkerContext(
            controller=self.name,
            sync=self._instance.sync,
            module=self._config.plugin.candidate.module,
            queue=self.queue,
            stores=self._stores,
            sender=self._sender,
            permissions=self._permissions,
            on_sync=self._shared.on_sync,
            on_write=self._shared.on_write,
            tracing=self._shared.tracing,
            is_resync_only=self._resync.is_resync_only,
            read_your_writes=ReadYourWrites(self._stores),
            failed_syncs=failed_sync_log(),
            sync_timeout_seconds=self._config.plugin.info.sync_timeout.total_seconds(),
            record_event=events.for_stores(self._stores),
        )

    async def _wait_for_credentials(self) -> None:
        """Return once the controller's own credentials, if it is to have any, are available."""
        client = self._shared.own_clients.get(self.name)
        if client is not None:
            attempt = partial(self._get_credentials, client.connection.credentials)
            await retry(attempt, on=ConnectionProblem, delays=repeat(CREDENTIALS_RETRY_SECONDS))

    async def _get_credentials(self, credentials: Credentials) -> None:
        """Get the credentials once, and record whether there are any."""
        try:
            await credentials.current()
        except ConnectionProblem as problem:
            if self.refused_writes.record_credentials_problem(str(problem)):
                pairs = {"controller": self.name, "problem": str(problem)}
                log.error("controller has no credentials", extra={"kv": pairs})  # noqa: TRY400 - the text of the problem says all
            raise
        self.refused_writes.record_credentials_problem("")

    def _active_watches(self) -> list[ActiveWatch]:
        dynamic = self._dynamic.active() if self._dynamic is not None else []
        return [*self._required.active(), *self._optional.active(), *dynamic]

    def _watch_set(self) -> WatchSet:
        return WatchSet(
            controller=self.name,
            informers=self._shared.informers,
            dispatcher=self._dispatcher,
            stores=self._stores,
        )

    def _dynamic_watches(self) -> DynamicWatches | None:
        if not self._instance.has(HOOK):
            return None
        return DynamicWatches(
            self._instance,
            discovery=RecordedDiscovery(self._shared.discovery),
            dispatcher=self._dispatcher,
            watches=self._watch_set(),
        )

    def _task(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"{self.name} {what}")
        task.add_done_callback(self._restart_on_error)
        return task

    def _restart_on_error(self, ended: asyncio.Future[None]) -> None:
        # Exceptions of the plugin are handled inside: this is an error of the host.
        if not ended.cancelled() and (error := ended.exception()) is not None:
            self.restart(RestartReason.of_error(error, source=HOST))


async def _cancel(tasks: Collection[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
