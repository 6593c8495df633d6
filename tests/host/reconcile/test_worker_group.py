"""The workers of a group: no key is processed by two of them, and no worker blocks another."""

import asyncio
import random
from itertools import pairwise

import pytest
from host.reconcile.worker_rig import CAUSE, NODE, A, B, Rig

from kcm_host.api.errors import Unreachable, WriterClosed
from kcm_host.api.kinds import Key
from kcm_host.api.sync import Done, Outcome
from kcm_host.api.watch import View
from kcm_host.api.writes import Write, Writer, WriteResponse

pytestmark = pytest.mark.virtual_time


class Gates:
    """A sync that stays in until the test lets its key out."""

    def __init__(self) -> None:
        self.inside: list[Key] = []
        self.most_at_once: dict[Key, int] = {}
        self.opened = asyncio.Event()

    async def sync(self, key: Key, view: View, writer: Writer) -> Outcome:
        """Wait at the gate if this is the blocking key."""
        self.inside.append(key)
        at_once = self.inside.count(key)
        self.most_at_once[key] = max(at_once, self.most_at_once.get(key, 0))
        try:
            if key == A:
                await self.opened.wait()
        finally:
            self.inside.remove(key)
        return Done()


@pytest.fixture
async def gates() -> Gates:
    """A gate that is shut for key `a`."""
    return Gates()


async def test_a_slow_key_holds_no_other_up(rig: Rig, gates: Gates) -> None:
    """With two workers, nine keys are done while one is still waiting for its request."""
    rig.queue.add(A, CAUSE)
    for number in range(9):
        rig.queue.add(Key(f"k{number}"), CAUSE)
    async with rig.working(gates.sync, workers=2):
        await asyncio.sleep(1)
        assert {record.key.name for record in rig.syncs.records} == {f"k{n}" for n in range(9)}
        assert rig.queue.state().processing == 1
        gates.opened.set()


async def test_a_change_during_a_sync_is_one_more_after_it(rig: Rig, gates: Gates) -> None:
    """Two workers, the key changes three times during its sync: once more, never both (CRA-T27)."""
    rig.queue.add(A, CAUSE)
    async with rig.working(gates.sync, workers=2):
        for _ in range(3):
            await asyncio.sleep(1)
            rig.queue.add(A, CAUSE)
        assert rig.syncs.records == []
        gates.opened.set()
        await asyncio.sleep(100)
    assert [(record.key, record.merged) for record in rig.syncs.records] == [(A, 1), (A, 3)]
    assert gates.most_at_once == {A: 1}


class MixedSyncs:
    """Syncs that write nothing, write with a response, or fail at once, chosen at random."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    async def sync(self, key: Key, view: View, writer: Writer) -> Outcome:
        """Write or not."""
        if self._random.random() < 2 / 3:
            await writer.patch(NODE, key, {})
        return Done()

    async def send(self, write: Write) -> WriteResponse:
        """Respond in the next turn of the loop, as a server at the earliest, or fail in this."""
        if self._random.random() < 1 / 2:
            raise Unreachable("no credentials")
        await asyncio.sleep(0)
        return WriteResponse(resource_version="8")


@pytest.mark.parametrize("seed", range(5))
async def test_syncs_that_never_wait_leave_room_for_others(rig: Rig, seed: int) -> None:
    """A thousand keys, most of which wait for nothing, leave turns of the loop to other tasks."""
    mixed = MixedSyncs(seed)
    rig.sender = mixed
    for number in range(1000):
        rig.queue.add(Key(f"k{number}"), CAUSE)
    seen = []

    async def neighbour() -> None:
        while len(rig.syncs.records) < 1000:
            seen.append(len(rig.syncs.records))
            await asyncio.sleep(0)

    async with rig.working(mixed.sync, workers=5):
        await neighbour()
    steps = [after - before for before, after in pairwise(seen)]
    # A sync that has waited may end in the turn in which the next one of its worker fails.
    assert max(steps) <= 10


async def test_a_stop_lets_running_syncs_end_and_begins_no_other(rig: Rig, gates: Gates) -> None:
    """When the queue closes, the worker finishes its key, leaves the rest, and ends (H-61)."""
    rig.queue.add(A, CAUSE)
    rig.queue.add(B, CAUSE)
    async with rig.working(gates.sync) as workers:
        await asyncio.sleep(1)
        rig.queue.shut_down()
        await asyncio.sleep(1)
        (worker,) = workers.tasks
        gates.opened.set()
        await workers.drain()
        assert worker.exception() is None
    assert [(record.key, record.outcome) for record in rig.syncs.records] == [(A, "done")]


async def test_a_write_is_counted_when_it_was_sent(rig: Rig) -> None:
    """Not when its sync ends, which may be a minute later, or never (F-16)."""

    async def sync(key: Key, view: View, writer: Writer) -> Outcome:
        await writer.patch(NODE, key, {})
        await asyncio.sleep(30)
        return Done()

    rig.queue.add(A, CAUSE)
    async with rig.working(sync):
        await asyncio.sleep(1)
        assert [(write.verb, write.status) for write in rig.write_records] == [("patch", 200)]
        assert rig.syncs.records == []
        await asyncio.sleep(30)
        (record,) = rig.syncs.records
    assert list(record.writes) == rig.write_records


async def test_a_writer_ends_with_its_sync(rig: Rig) -> None:
    """What a plugin keeps of it, or a task of its own goes on with, sends nothing more (F-30)."""
    kept: list[Writer] = []

    async def sync(key: Key, view: View, writer: Writer) -> Outcome:
        kept.append(writer)
        await writer.patch(NODE, key, {})
        return Done()

    await rig.sync_a(sync, seconds=1)
    (writer,) = kept
    requests = [
        writer.patch(NODE, A, {}),
        writer.apply(NODE, A, {}, field_manager="m"),
        writer.create(NODE, {"metadata": {"name": "a"}}),
        writer.update(NODE, {"metadata": {"name": "a", "resourceVersion": "1"}}),
        writer.delete(NODE, A),
        writer.read(NODE, A),
    ]
    for request in requests:
        with pytest.raises(WriterClosed, match="its sync has ended"):
            await request
    with pytest.raises(WriterClosed):
        writer.event(NODE, A, reason="Late", message="too late")
    assert len(rig.write_records) == 1
