"""A bench for the workers of one controller, and a sender that keeps a notebook."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from kcm_host.api.kinds import Key, Kind
from kcm_host.api.outcomes import Outcome
from kcm_host.api.records import Cause, SyncRecord, WriteRecord
from kcm_host.api.views import View
from kcm_host.api.writes import Permission, Receipt, Write, Writer
from kcm_host.informer.store import Store
from kcm_host.reconcile.links import WriteLinks
from kcm_host.reconcile.read_your_writes import ReadYourWrites
from kcm_host.reconcile.sender import Sender
from kcm_host.reconcile.time_limit import Running
from kcm_host.reconcile.worker import Sync, WorkerContext, failed_syncs
from kcm_host.reconcile.worker_group import WorkerGroup
from kcm_host.workqueue.queue import WorkQueue

NODE = Kind("", "v1", "Node", "nodes", namespaced=False)
CLAIM = Kind("", "v1", "ConfigMap", "configmaps")
A, B = Key("a"), Key("b")
CAUSE = Cause("updated", 0.0, "nodes", "a", "7")


class Notebook:
    """A `Sender` that notes each write, and answers it or raises what the test wants."""

    def __init__(self, answer: Callable[[Write], Receipt] = lambda write: Receipt("8")) -> None:
        self.writes: list[Write] = []
        self._answer = answer

    async def send(self, write: Write) -> Receipt:
        """Note a write and answer."""
        self.writes.append(write)
        return self._answer(write)


def failing(error: Exception) -> Callable[[Write], Receipt]:
    """Give an answer that is an error."""

    def answer(write: Write) -> Receipt:
        raise error

    return answer


class Syncs:
    """Every sync that ended, with the loop's time when it did."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._begun = self._loop.time()
        self.records: list[SyncRecord] = []
        self.times: list[float] = []

    def __call__(self, record: SyncRecord) -> None:
        self.records.append(record)
        self.times.append(round(self._loop.time() - self._begun, 6))


class Rig:
    """One controller's queue and workers, without watches before and requests behind them."""

    def __init__(self) -> None:
        self.queue = WorkQueue(asyncio.get_running_loop())
        self.syncs = Syncs()
        self.sender: Sender = Notebook()
        self.stores: Mapping[tuple[Kind, type[Any]], Store[Any]] = {}
        self.tracing: Any = None
        self.echoes: WriteLinks | None = None
        self.settings: Any = None
        self.stuck: set[Running] = set()
        #: Each write as it was counted.
        self.counted: list[WriteRecord] = []
        self.permissions = frozenset({Permission(NODE, "patch")})

    def note_write(self, controller: str, record: WriteRecord) -> None:
        """Hear of a write that was sent."""
        self.counted.append(record)

    def bench(self, sync: Sync) -> WorkerContext:
        """Give what workers need to run this sync."""
        return WorkerContext(
            controller="ttl",
            sync=sync,
            settings=self.settings,
            queue=self.queue,
            stores=self.stores,
            sender=self.sender,
            permissions=self.permissions,
            on_sync=self.syncs,
            on_write=self.note_write,
            is_unasked=self.queue.is_unasked,
            own_writes=ReadYourWrites(self.stores),
            failures=failed_syncs(),
            tracing=self.tracing,
            echoes=self.echoes,
        )

    @asynccontextmanager
    async def working(self, sync: Sync, *, workers: int = 1) -> AsyncIterator[WorkerGroup]:
        """Run workers until the block ends, then cancel them."""
        group = WorkerGroup(self.bench(sync), count=workers, stuck=self.stuck)
        try:
            yield group
        finally:
            await group.cancel()

    async def run(self, sync: Sync, *, seconds: float, workers: int = 1) -> list[SyncRecord]:
        """Let workers run for so long; give what ended in that time."""
        async with self.working(sync, workers=workers):
            await asyncio.sleep(seconds)
            return list(self.syncs.records)


def scripted(*steps: Outcome | BaseException) -> Sync:
    """Give a sync that ends as the steps say, one after the other, whatever the key."""
    left = list(steps)

    async def sync(key: Key, view: View, writer: Writer, settings: Any) -> Outcome:
        step = left.pop(0)
        if isinstance(step, BaseException):
            raise step
        return step

    return sync
