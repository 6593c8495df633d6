"""No sync blocks a worker for ever, whatever it does with its cancellation."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from host.reconcile.worker_rig import CAUSE, NODE, A, B, Rig, scripted
from logged import logged

from kcm_host.api.errors import WriterClosed
from kcm_host.api.kinds import Key
from kcm_host.api.sync import Done, Outcome
from kcm_host.api.watch import View
from kcm_host.api.writes import Writer
from kcm_host.reconcile.worker_group import stuck_problems

pytestmark = pytest.mark.virtual_time


class Deaf:
    """A sync that ignores every cancellation until the test lets it go."""

    def __init__(self, *deaf: Key) -> None:
        self.let_go = asyncio.Event()
        self.ignored = 0
        self.writes: list[str] = []
        self._deaf = deaf

    async def sync(self, key: Key, view: View, writer: Writer) -> Outcome:
        """Wait if the key is a deaf one, then write."""
        while key in self._deaf and not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.ignored += 1
        if key in self._deaf:
            try:
                await writer.patch(NODE, key, {})
            except WriterClosed as error:
                self.writes.append(str(error))
        return Done()


@pytest.fixture
async def deaf() -> Deaf:
    """A sync that is deaf for key `a`."""
    return Deaf(A)


async def test_a_sync_that_ignores_its_cancellation_is_replaced(
    rig: Rig, deaf: Deaf, caplog: pytest.LogCaptureFixture
) -> None:
    """After 63 s it is told by controller and key, and another worker goes on (F-4)."""
    rig.queue.add(A, CAUSE)
    rig.queue.add(B, CAUSE)
    async with rig.working(deaf.sync) as workers:
        await asyncio.sleep(62.9)
        assert (deaf.ignored, rig.syncs.records, rig.stuck) == (1, [], set())
        await asyncio.sleep(0.2)
        assert [record.key for record in rig.syncs.records] == [B]
        assert [running.key for running in rig.stuck] == [A]
        assert len(workers.tasks) == 1
        (line,) = logged(caplog, "sync stuck after its cancellation")
        assert (line["controller"], line["key"]) == ("ttl", "a")
        deaf.let_go.set()


async def test_its_key_is_in_no_other_hands(rig: Rig, deaf: Deaf) -> None:
    """Changed meanwhile, it waits for the sync that is stuck; then it comes, and again (F-4)."""
    rig.queue.add(A, CAUSE)
    async with rig.working(deaf.sync, workers=2) as workers:
        await asyncio.sleep(64)
        rig.queue.add(A, CAUSE)
        await asyncio.sleep(1000)
        assert (rig.queue.state().processing, rig.syncs.records) == (1, [])
        deaf.let_go.set()
        await asyncio.sleep(1)
        assert [record.outcome for record in rig.syncs.records] == ["timeout", "done", "done"]
        assert (len(workers.tasks), rig.stuck, rig.queue.state().processing) == (2, set(), 0)


async def test_it_may_write_no_more(rig: Rig, deaf: Deaf) -> None:
    """Its time is over: what it writes afterwards is refused, with the reason (F-4, F-30)."""
    rig.queue.add(A, CAUSE)
    async with rig.working(deaf.sync):
        await asyncio.sleep(64)
        deaf.let_go.set()
        await asyncio.sleep(0.001)
        (refusal,) = deaf.writes
        assert refusal == (
            "ttl tried to patch 'nodes' with a writer that is closed: its sync was cancelled; "
            "write within kcm_sync, and await it there"
        )


async def test_every_worker_may_be_held(rig: Rig) -> None:
    """Six keys that never end leave five workers for the seventh (F-4)."""
    keys = [Key(f"k{number}") for number in range(6)]
    deaf = Deaf(*keys)
    for key in (*keys, B):
        rig.queue.add(key, CAUSE)
    async with rig.working(deaf.sync, workers=5) as workers:
        await asyncio.sleep(130)
        assert [record.key for record in rig.syncs.records] == [B]
        assert {running.key for running in rig.stuck} == set(keys)
        assert len(workers.tasks) == 5
        (problem,) = stuck_problems(rig.stuck)
        assert problem.startswith("syncs go on though they were cancelled: 6 ('k")
        deaf.let_go.set()
    assert stuck_problems(set()) == []


@pytest.mark.parametrize("how", ["drain", "cancel"])
async def test_nothing_waits_for_it(rig: Rig, deaf: Deaf, how: str) -> None:
    """A stop and a restart go on without a sync that cannot be ended (F-4)."""
    rig.queue.add(A, CAUSE)
    async with rig.working(deaf.sync, workers=2) as workers:
        await asyncio.sleep(64 if how == "drain" else 1)
        rig.queue.shut_down()
        async with asyncio.timeout(3.1):
            await (workers.drain() if how == "drain" else workers.cancel())
        assert [running.key for running in rig.stuck] == [A]
        assert workers.tasks == set()
        deaf.let_go.set()
    await asyncio.sleep(0.001)
    assert rig.stuck == set()


async def swallow_cancellation(key: Key, view: View, writer: Writer) -> Outcome:
    """Wait for what never comes, and be done when that is cancelled."""
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    return Done()


async def test_a_worker_ends_that_was_cancelled_in_vain(rig: Rig) -> None:
    """A sync that swallows the stop's cancellation and returns is the last of its worker (F-4)."""
    begun = []

    async def sync(key: Key, view: View, writer: Writer) -> Outcome:
        begun.append(key)
        return await swallow_cancellation(key, view, writer)

    rig.queue.add(A, CAUSE)
    rig.queue.add(B, CAUSE)
    async with rig.working(sync) as workers:
        await asyncio.sleep(1)
        await workers.cancel()
    assert begun == [A]


async def test_a_result_of_a_cancelled_sync_counts_as_none(rig: Rig) -> None:
    """A sync that answers the end of its time with `Done` was cut: it is a time-out (F-4)."""
    rig.queue.add(A, CAUSE)
    async with rig.working(swallow_cancellation) as workers:
        await asyncio.sleep(130)
        assert len(workers.tasks) == 1
    ends = [(record.outcome, record.error) for record in rig.syncs.records[:2]]
    assert ends == [("timeout", "no end after 60 s")] * 2


async def _await_cancelled_task(key: Key, view: View, writer: Writer) -> Outcome:
    task = asyncio.create_task(asyncio.sleep(1000))
    asyncio.get_running_loop().call_later(1, task.cancel)
    await task
    return Done()


async def test_a_cancelled_task_of_the_plugins_own_is_a_failure(rig: Rig) -> None:
    """Nobody cancelled the sync: `CancelledError` is an error with a retry, not its end (F-3)."""
    rig.queue.add(A, CAUSE)
    async with rig.working(_await_cancelled_task) as workers:
        await asyncio.sleep(1.5)
        (record,) = rig.syncs.records
        assert (record.outcome, record.error) == ("error", "CancelledError: ")
        assert record.retry_after_seconds == 0.005
        assert len(workers.tasks) == 1
        assert not workers.failure.done()


class Odd(BaseException):
    """Neither an `Exception` nor an end of the process."""


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        RecursionError("deep"),
        TimeoutError("mine"),
        SystemExit(3),
        Odd("no"),
        BaseExceptionGroup("two", [Odd("no")]),
    ],
    ids=repr,
)
async def test_whatever_a_sync_raises_is_its_own_failure(rig: Rig, error: BaseException) -> None:
    """Its worker goes on with the next sync, also after what is no `Exception` (F-3, IQ-104)."""
    first, second = await rig.sync_a(scripted(error, Done()), seconds=1)
    assert (first.outcome, second.outcome) == ("error", "done")
    assert first.error.startswith(type(error).__name__)


async def test_a_worker_that_ends_unasked_is_a_failure(rig: Rig) -> None:
    """Whoever ends it, its controller is told: a worker short would go unnoticed (F-3)."""
    async with rig.working(scripted(), workers=3) as workers:
        await asyncio.sleep(1)
        next(iter(workers.tasks)).cancel()
        with pytest.raises(Exception, match="a worker ended: it was cancelled"):
            await workers.failure
    async with rig.working(scripted(GeneratorExit("gone"))) as workers:
        rig.queue.add(A, CAUSE)
        with pytest.raises(Exception, match="a worker ended: GeneratorExit: gone"):
            await workers.failure


async def test_workers_that_are_asked_to_end_are_no_failure(rig: Rig) -> None:
    """Neither the end of the queue nor a stop breaks the controller (F-3)."""
    ends: list[Callable[[Any], Any]] = [lambda group: group.drain(), lambda group: group.cancel()]
    for end in ends:
        async with rig.working(scripted()) as workers:
            await asyncio.sleep(1)
            rig.queue.shut_down()
            await end(workers)
            assert not workers.failure.done() or workers.failure.cancelled()
