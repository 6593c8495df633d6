"""One run of a controller: a plugin instance, its event handlers, its queue and its workers."""

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from kcm_host.api.records import SyncRecord
from kcm_host.api.writes import EVENT, Permission
from kcm_host.client.auth.errors import ConnectionProblem
from kcm_host.client.discovery import CachedDiscoveryClient
from kcm_host.client.rest import Client, user_agent
from kcm_host.informer.cache_view import StoreView
from kcm_host.informer.informer_factory import InformerFactory
from kcm_host.informer.store import Store
from kcm_host.plugins.plugin import Instance, Plugin
from kcm_host.reconcile.event_recorder import EventRecorder
from kcm_host.reconcile.links import WriteLinks
from kcm_host.reconcile.read_your_writes import ReadYourWrites
from kcm_host.reconcile.refused_writes import RefusedWrites
from kcm_host.reconcile.sender import LiveSender
from kcm_host.reconcile.time_limit import Running
from kcm_host.reconcile.worker import WorkerContext, failed_syncs
from kcm_host.reconcile.worker_group import WorkerGroup
from kcm_host.reconcile.writer import OnWrite
from kcm_host.runtime.discovery_poller import RecordedDiscovery, difference
from kcm_host.runtime.dynamic_watches import HOOK, DynamicWatches
from kcm_host.runtime.event_handlers import ActiveWatch, EventDispatcher, Mark, WatchSet
from kcm_host.runtime.resync import Resync
from kcm_host.runtime.timers import run_timer
from kcm_host.workqueue.queue import WorkQueue

if TYPE_CHECKING:
    from kcm_host.observe.tracing import Tracing

log = logging.getLogger(__name__)


#: How long after a failure the credentials of a controller are asked for again.
PROVE_AGAIN_SECONDS = 10.0
TELL_USERS = Permission(EVENT, "create")


class ControllerConfig(msgspec.Struct, frozen=True):
    """What the configuration says about one controller."""

    plugin: Plugin
    settings: Any
    workers: int
    qps: float | None = None
    burst: int | None = None
    resync_period: timedelta = timedelta(hours=10)


class SharedDependencies(msgspec.Struct, frozen=True):
    """What the host offers to every controller."""

    client: Client
    #: By the name of a controller that writes under an identity of its own.
    own_clients: Mapping[str, Client]
    streams: InformerFactory
    discoverer: CachedDiscoveryClient
    on_sync: Callable[[SyncRecord], None]
    on_write: OnWrite
    tracing: "Tracing | None" = None


class Start:
    """
    One start of a controller: a fresh plugin instance, its queue, and its place in the streams.

    An exception in one of the plugin's watch functions ends it: a change has been lost to the
    plugin's memory, so only a new instance from a new list can be trusted.
    """

    def __init__(self, setup: ControllerConfig, services: SharedDependencies) -> None:
        loop = asyncio.get_running_loop()
        self.name = setup.plugin.name
        self.queue = WorkQueue(loop)
        #: What it may not write, against what it declares.
        self.refusals = RefusedWrites(loop.time)
        self.instance: Instance = setup.plugin.new()
        self._setup = setup
        self._services = services
        self._stores: dict[Mark, Store[Any]] = {}
        #: What this controller follows, for its watch functions and its status.
        self.view = StoreView(self.name, self._stores)
        self.functions = EventDispatcher(self.queue, self.view)
        self.following = self._following()
        #: The watches nobody waits for.
        self.aside = self._following()
        self.more = self._more_watches()
        self.discovery = RecordedDiscovery(services.discoverer)
        self._watches = self.instance.watches(setup.settings, self.discovery)
        self._permissions = self.instance.writes(setup.settings)
        self.sender = LiveSender(
            services.own_clients.get(self.name, services.client),
            agent=user_agent(self.name),
            qps=setup.qps,
            burst=setup.burst,
            heard=self.refusals.heard,
        )
        self.timers = self.instance.timers(setup.settings)
        self.sweep = Resync(
            self.queue,
            self.functions,
            followed=self._followed,
            timers=self.timers,
            period=setup.resync_period,
            random=random.random,
        )
        self._awaited = sum(watch.awaited for watch in self._watches)
        self._synced = asyncio.Event()
        if not self._awaited:
            self._synced.set()
        for watch in self._watches:
            if watch.awaited:
                self.following.begin(watch, self._one_synced)
            else:
                self.aside.begin(watch)

    async def prove_identity(self) -> None:
        """Return once the controller's own credentials, if it is to have any, are there."""
        client = self._services.own_clients.get(self.name)
        while client is not None:
            try:
                await client.connection.credentials.current()
            except ConnectionProblem as problem:
                if self.refusals.no_identity(str(problem)):
                    pairs = {"controller": self.name, "problem": str(problem)}
                    log.error("controller has no credentials", extra={"kv": pairs})  # noqa: TRY400 - the reason is told
            else:
                self.refusals.no_identity("")
                return
            await asyncio.sleep(PROVE_AGAIN_SECONDS)

    @property
    def failure(self) -> asyncio.Future[None]:
        """Fails when the plugin's memory can no longer be trusted; is never done otherwise."""
        return self.functions.failure

    @property
    def idle(self) -> bool:
        """Whether it follows nothing, and will not before the server serves something else."""
        return not self._watches and self.more is None

    async def synced(self) -> None:
        """Return when every watch has told its initial objects; raises what `failure` does."""
        synced = asyncio.create_task(self._synced.wait())
        ends: set[asyncio.Future[Any]] = {synced, self.failure}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            synced.cancel()
        if self.failure.done():
            self.failure.result()

    def outdated(self) -> str:
        """
        Say how the watches would be others by what is served now; empty when they would not.

        Raises `BrokenPlugin` when a fresh instance cannot tell.
        """
        if not self.discovery.asked:
            return ""
        fresh = self._setup.plugin.new()
        watches = fresh.watches(self._setup.settings, self._services.discoverer.present)
        return difference(self._watches, watches)

    def bench(self) -> WorkerContext:
        """Give what the workers of this start share."""
        return WorkerContext(
            controller=self.name,
            sync=self.instance.sync,
            settings=self._setup.settings,
            queue=self.queue,
            stores=self._stores,
            sender=self.sender,
            permissions=self._permissions,
            on_sync=self._services.on_sync,
            on_write=self._services.on_write,
            tracing=self._services.tracing,
            is_unasked=self.sweep.is_unasked,
            own_writes=ReadYourWrites(self._stores),
            failures=failed_syncs(),
            echoes=WriteLinks() if self._services.tracing else None,
            events=EventRecorder(self.sender) if TELL_USERS in self._permissions else None,
        )

    async def leave(self) -> None:
        """Follow nothing any more."""
        self.queue.close()
        await self.following.end_all()
        await self.aside.end_all()
        if self.more is not None:
            await self.more.end()
        self.failure.cancel()

    def _one_synced(self) -> None:
        """Count a watch whose initial objects are all told."""
        self._awaited -= 1
        if self._awaited == 0:
            self._synced.set()

    def _followed(self) -> list[ActiveWatch]:
        """Give every watch with its store, those that come and go included."""
        more = self.more.followed() if self.more is not None else []
        return [*self.following.followed(), *self.aside.followed(), *more]

    def _following(self) -> WatchSet:
        return WatchSet(self.name, self._services.streams, self.functions, self._stores)

    def _more_watches(self) -> DynamicWatches | None:
        if not self.instance.has(HOOK):
            return None
        return DynamicWatches(
            self.instance,
            self._setup.settings,
            discovery=RecordedDiscovery(self._services.discoverer),
            functions=self.functions,
            following=self._following(),
        )


class RunTasks:
    """
    Workers, and beside them timers, watches that come and go, and the sending of Events.

    They begin with it and end with `drain` or `cancel`.
    """

    def __init__(self, start: Start, *, workers: int, stuck: set[Running]) -> None:
        bench = start.bench()
        name = start.name
        self._failure = start.failure
        self._workers = WorkerGroup(bench, count=workers, stuck=stuck)
        asking = [run_timer(timer, start.functions) for timer in start.timers]
        asking += [start.sweep.run(), start.prove_identity()]
        if start.more is not None:
            asking.append(start.more.run())
        self._asking = [asyncio.create_task(one, name=f"{name} asking") for one in asking]
        self._telling: list[asyncio.Task[None]] = []
        if bench.events is not None:
            self._telling.append(asyncio.create_task(bench.events.run(), name=f"{name} events"))

    async def broken(self) -> None:
        """Raise what breaks this start; does not return before."""
        ends = {self._failure, self._workers.failure, *self._asking, *self._telling}
        done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_EXCEPTION)
        for end in done:
            if not end.cancelled():
                end.result()

    async def drain(self) -> None:
        """Wait for running syncs that can end; the queue is closed. Events are sent until then."""
        await _ended(self._asking)
        await self._workers.drain()
        await _ended(self._telling)

    async def cancel(self) -> None:
        """End everything now; syncs that go on though they are cancelled are left behind."""
        await _ended([*self._asking, *self._telling])
        await self._workers.cancel()


async def _ended(tasks: Collection[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
