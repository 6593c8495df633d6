"""The workers of one controller without watches, and a sender that records writes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from view_stores import stores_of

from kcm_host.api.kinds import Key, Kind
from kcm_host.api.sync import Cause, Outcome, SyncRecord, WriteRecord
from kcm_host.api.watch import View
from kcm_host.api.writes import Permission, Write, Writer, WriteResponse
from kcm_host.informer.store import Store
from kcm_host.observe.tracing import NoTracing, Tracing, WriteLinks
from kcm_host.reconcile.read_your_writes import ReadYourWrites
from kcm_host.reconcile.sender import LiveSender, Sender
from kcm_host.reconcile.worker import RunningSync, SyncFunction, WorkerContext, failed_sync_log
from kcm_host.reconcile.worker_group import WorkerGroup
from kcm_host.workqueue.queue import WorkQueue

NODE = Kind(group="", version="v1", name="Node", resource="nodes", namespaced=False)
CONFIG_MAP = Kind(group="", version="v1", name="ConfigMap", resource="configmaps")
A, B = Key("a"), Key("b")
MakeSender = Callable[..., LiveSender]
CAUSE = Cause(reason="updated", received=0.0, kind="nodes", object="a", resource_version="7")


class RecordingSender:
    """A `Sender` that records each write, and responds or raises as the test says."""

    def __init__(
        self,
        respond: Callable[[Write], WriteResponse] = lambda write: WriteResponse(
            resource_version="8"
        ),
    ) -> None:
        self.writes: list[Write] = []
        self._respond = respond

    async def send(self, write: Write) -> WriteResponse:
        """Record a write and respond."""
        self.writes.append(write)
        return self._respond(write)


def failing(error: Exception) -> Callable[[Write], WriteResponse]:
    """Return a response that is an error."""

    def respond(write: Write) -> WriteResponse:
        raise error

    return respond


class Syncs:
    """Every sync that ended, with the loop's time when it did."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()
        self.records: list[SyncRecord] = []
        self.times: list[float] = []

    def __call__(self, record: SyncRecord) -> None:
        self.records.append(record)
        self.times.append(round(self._loop.time() - self._started, 6))


class Rig:
    """The queue and the workers of one controller, without watches and requests."""

    def __init__(self) -> None:
        self.queue = WorkQueue(asyncio.get_running_loop())
        self.syncs = Syncs()
        self.sender: Sender = RecordingSender()
        self.stores: Mapping[tuple[Kind, type[Any]], Store[Any]] = {}
        self.tracing: Tracing = NoTracing()
        self.write_links = WriteLinks()
        #: A module of the plugin.
        self.module = ""
        self.stuck: set[RunningSync] = set()
        #: The record of each write.
        self.write_records: list[WriteRecord] = []
        self.permissions = frozenset({Permission(kind=NODE, verb="patch")})

    def on_write(self, controller: str, record: WriteRecord) -> None:
        """Record a write that was sent."""
        self.write_records.append(record)

    def worker_context(self, sync: SyncFunction) -> WorkerContext:
        """Return the context of workers that run this sync."""
        stores = stores_of("ttl", self.stores)
        return WorkerContext(
            controller="ttl",
            sync=sync,
            module=self.module,
            queue=self.queue,
            stores=stores,
            sender=self.sender,
            permissions=self.permissions,
            on_sync=self.syncs,
            on_write=self.on_write,
            is_resync_only=self.queue.is_resync_only,
            read_your_writes=ReadYourWrites(stores),
            failed_syncs=failed_sync_log(),
            tracing=self.tracing,
            write_links=self.write_links,
        )

    @asynccontextmanager
    async def working(self, sync: SyncFunction, *, workers: int = 1) -> AsyncIterator[WorkerGroup]:
        """Run workers until the block ends, then cancel them."""
        group = WorkerGroup(self.worker_context(sync), count=workers, stuck=self.stuck)
        try:
            yield group
        finally:
            await group.cancel()

    async def run(
        self, sync: SyncFunction, *, seconds: float, workers: int = 1
    ) -> list[SyncRecord]:
        """Run workers for so long; return the records of the syncs that ended."""
        async with self.working(sync, workers=workers):
            await asyncio.sleep(seconds)
            return list(self.syncs.records)

    async def sync_a(self, sync: SyncFunction, *, seconds: float) -> list[SyncRecord]:
        """Queue key `a` and run a worker for so long; return the records of the syncs."""
        self.queue.add(A, CAUSE)
        return await self.run(sync, seconds=seconds)


def scripted(*steps: Outcome | BaseException) -> SyncFunction:
    """Return a sync that ends as the steps say, one after the other, whatever the key."""
    left = list(steps)

    async def sync(key: Key, view: View, writer: Writer) -> Outcome:
        step = left.pop(0)
        if isinstance(step, BaseException):
            raise step
        return step

    return sync
