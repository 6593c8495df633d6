"""One start of a controller: a plugin instance between its watches and its queue."""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from kcm_host.api.discovery import Discovery
from kcm_host.api.errors import PLUGIN_FAILURES, HostError
from kcm_host.api.kinds import Key
from kcm_host.api.records import Cause, SyncRecord
from kcm_host.api.watches import AnyWatch, Change
from kcm_host.loading.plugin import Instance, Plugin
from kcm_host.store.view import StoreView
from kcm_host.supervise.streams import Streams
from kcm_host.sync.echoes import Echoes
from kcm_host.sync.own_writes import OwnWrites
from kcm_host.sync.sender import LiveSender
from kcm_host.sync.worker import Bench
from kcm_host.wire.client import Client, user_agent
from kcm_host.work.queue import WorkQueue

if TYPE_CHECKING:
    from kcm_host.observe.spans import Tracing


class Setup(msgspec.Struct, frozen=True):
    """What the configuration says about one controller."""

    plugin: Plugin
    settings: Any
    workers: int
    qps: float | None = None
    burst: int | None = None


class Services(msgspec.Struct, frozen=True):
    """What the host offers to every controller."""

    client: Client
    streams: Streams
    discovery: Discovery
    on_sync: Callable[[SyncRecord], None]
    tracing: "Tracing | None" = None


class Start:
    """
    One start of a controller: a fresh plugin instance, its queue, and its place in the streams.

    An exception in one of the plugin's watch functions ends it: a change has been lost to the
    plugin's memory, so only a new instance from a new list can be trusted.
    """

    def __init__(self, setup: Setup, services: Services) -> None:
        loop = asyncio.get_running_loop()
        self.name = setup.plugin.name
        self.queue = WorkQueue(loop)
        self.failure: asyncio.Future[None] = loop.create_future()
        #: Done when every watch has told its initial objects; fails with `failure`.
        self.synced: asyncio.Future[None] = loop.create_future()
        self.instance: Instance = setup.plugin.new()
        self._setup = setup
        self._services = services
        self._stores: dict[tuple[Any, type[Any]], Any] = {}
        #: What this controller follows, for its watch functions and its status.
        self.view = StoreView(self.name, self._stores)
        self._followers: list[_Follower] = []
        self._awaited = 0
        self._permissions = self.instance.writes(setup.settings)
        watches = self.instance.watches(setup.settings, services.discovery)
        self._awaited = len(watches)
        for watch in watches:
            self._follow(watch)

    def one_synced(self) -> None:
        """Count a watch whose initial objects are all told."""
        self._awaited -= 1
        if self._awaited == 0 and not self.synced.done():
            self.synced.set_result(None)

    def fail(self, error: BaseException) -> None:
        """End this start: the plugin's memory can no longer be trusted."""
        if not isinstance(error, Exception):
            # As itself it would end the event loop when somebody awaits it.
            error = HostError(f"it raised {type(error).__name__}: {error}")
        for future in (self.failure, self.synced):
            if not future.done():
                future.set_exception(error)
                future.exception()  # seen: whoever awaits it gets it, and nobody need

    def bench(self) -> Bench:
        """Give what the workers of this start share."""
        sender = LiveSender(
            self._services.client,
            agent=user_agent(self.name),
            qps=self._setup.qps,
            burst=self._setup.burst,
        )
        return Bench(
            controller=self.name,
            sync=self.instance.sync,
            settings=self._setup.settings,
            queue=self.queue,
            stores=self._stores,
            sender=sender,
            permissions=self._permissions,
            on_sync=self._services.on_sync,
            tracing=self._services.tracing,
            own_writes=OwnWrites(self._stores),
            echoes=Echoes() if self._services.tracing else None,
        )

    async def leave(self) -> None:
        """Follow nothing any more."""
        self.queue.close()
        for follower in self._followers:
            await self._services.streams.leave(follower)
        for store in self._stores.values():
            store.drop_indexes(self.name)
        self.failure.cancel()
        self.synced.cancel()

    def _follow(self, watch: AnyWatch) -> None:
        follower = _Follower(self, watch)
        self._followers.append(follower)
        store = self._services.streams.follow(self.name, watch, follower)
        self._stores[watch.kind, watch.model] = store
        for index, function in watch.indexes.items():
            store.add_index(self.name, index, function, self.fail)


class _Follower:
    """Turns the changes of one watch into keys, as the plugin says."""

    def __init__(self, start: Start, watch: AnyWatch) -> None:
        self._start = start
        self._watch = watch
        self._rest = watch.rest.total_seconds()

    def changed(self, change: Change[Any]) -> None:
        if (change.same and not self._watch.every_event) or self._start.failure.done():
            return
        try:
            keys = list(self._watch.keys(change, self._start.view))
        except PLUGIN_FAILURES as error:
            self._start.fail(error)
            return
        if keys:
            self._queue(keys, change)

    def synced(self) -> None:
        self._start.one_synced()

    def _queue(self, keys: list[Key], change: Change[Any]) -> None:
        reason = "updated"
        if change.old is None:
            reason = "added"
        elif change.new is None:
            reason = "deleted"
        name, version = str(change.key), change.version
        cause = Cause(reason, time.monotonic(), str(change.kind), name, version)
        queue = self._start.queue
        for key in keys:
            if self._rest and not change.initial:
                queue.rest(key, cause, seconds=self._rest)
            else:
                queue.add(key, cause)
