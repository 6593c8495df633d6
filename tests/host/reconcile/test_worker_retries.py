"""Failures are counted for each key and forgotten with its success."""

import asyncio
from datetime import timedelta

import pytest
from host.reconcile.worker_rig import CAUSE, NODE, A, B, RecordingSender, Rig, scripted
from logged import pairs_of

from kcm_host.api.errors import ApiError
from kcm_host.api.kinds import Key
from kcm_host.api.sync import Done, Later, Outcome
from kcm_host.api.watch import Priority, View
from kcm_host.api.writes import Write, Writer, WriteResponse
from kcm_host.workqueue.rate_limiter import WriteRateLimiter

pytestmark = pytest.mark.virtual_time

ERROR = ApiError("patch /api/v1/nodes/a: 500", status=500)


async def test_two_failures_wait_5_and_10_ms(rig: Rig) -> None:
    """A patch is answered 500 twice, then 200: retried after 5 and 10 ms, forgotten (TTL-T19)."""
    left = [ERROR, ERROR]

    def answer(write: Write) -> WriteResponse:
        if left:
            raise left.pop()
        return WriteResponse(resource_version="8")

    async def sync(key: Key, view: View, writer: Writer) -> Outcome:
        await writer.patch(NODE, key, {"metadata": {}})
        return Done()

    notebook = RecordingSender(answer)
    rig.sender = notebook
    records = await rig.sync_a(sync, seconds=100)
    assert [record.outcome for record in records] == ["error", "error", "done"]
    assert [record.retry_after_seconds for record in records] == [0.005, 0.010, None]
    assert rig.syncs.times == [0, 0.005, 0.015]
    assert [record.attempt for record in records] == [1, 2, 3]
    assert len(notebook.writes) == 3
    assert rig.queue.failures(A) == 0


async def test_after_a_success_the_waits_begin_anew(rig: Rig) -> None:
    """Three failures wait 5, 10 and 20 ms; a failure after the success 5 ms again (CRA-T20)."""
    sync = scripted(ERROR, ERROR, ERROR, Done(), ERROR, Done())
    for _ in range(2):
        await rig.sync_a(sync, seconds=10)
    waits = [record.retry_after_seconds for record in rig.syncs.records]
    assert waits == [0.005, 0.010, 0.020, None, 0.005, None]
    assert rig.syncs.times == pytest.approx([0, 0.005, 0.015, 0.035, 10, 10.005])


async def test_later_forgets_failures_too(rig: Rig) -> None:
    """A sync that asks for another time has not failed: a failure after it waits 5 ms (SC-103)."""
    sync = scripted(ERROR, ERROR, Later(timedelta(seconds=1)), ERROR, Done())
    records = await rig.sync_a(sync, seconds=100)
    assert [record.attempt for record in records] == [1, 2, 3, 1, 2]
    assert records[3].retry_after_seconds == 0.005


async def test_a_change_brings_a_failing_key_forward(rig: Rig) -> None:
    """A change is synced at once; the wait that is under way still ends as it would (IQ-86)."""
    for _ in range(10):
        rig.queue.add_rate_limited(A, CAUSE)
        rig.queue.forget(B)
    records = await rig.sync_a(scripted(ERROR, Done(), Done()), seconds=100)
    assert records[0].attempt == 11
    assert rig.syncs.times[:2] == [0, 0.005]


@pytest.mark.parametrize("step", [ValueError("no"), Later(timedelta(milliseconds=5))])
@pytest.mark.parametrize(
    ("lane", "order"),
    [(Priority.IDLE, "acba"), (Priority.NORMAL, "acab"), (Priority.URGENT, "acab")],
)
async def test_a_key_comes_again_in_its_lane(
    rig: Rig, step: Outcome | Exception, lane: Priority, order: str
) -> None:
    """A failed or delayed key is neither promoted nor demoted (F-17)."""
    steps = iter([step])

    async def sync(key: Key, view: View, writer: Writer) -> Outcome:
        if key.name == "c":
            await asyncio.sleep(1)
        step = next(steps, Done())
        if isinstance(step, Exception):
            raise step
        return step

    rig.queue.add(A, CAUSE, priority=lane)
    rig.queue.add(Key("c"), CAUSE, priority=lane)
    async with rig.working(sync):
        await asyncio.sleep(0.5)
        # While c is synced, a is due again and waits in the queue; then b comes.
        rig.queue.add(B, CAUSE)
        await asyncio.sleep(1)
    assert "".join(record.key.name for record in rig.syncs.records) == order


async def test_a_low_qps_never_ends_in_no_writes(rig: Rig) -> None:
    """Fifty workers at one write every 2 s, each cut after a minute: 30 writes a minute (F-11)."""
    loop = asyncio.get_running_loop()
    limiter, begun, writes = WriteRateLimiter(0.5, 1, loop.time), loop.time(), []

    async def sync(key: Key, view: View, writer: Writer) -> Outcome:
        await limiter.wait()
        writes.append(loop.time() - begun)
        return Later(timedelta(microseconds=1))

    for number in range(50):
        rig.queue.add(Key(f"k{number}"), CAUSE)
    await rig.run(sync, seconds=600, workers=50)
    assert [sum(60 * n <= at < 60 * (n + 1) for at in writes) for n in range(10)] == [30] * 10


async def test_the_same_failure_of_many_keys_is_one_line(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """Of 400 nodes that may not be patched the log has three lines in a minute (F-82)."""

    def answer(write: Write) -> WriteResponse:
        raise ApiError(f"patch /api/v1/nodes/{write.key}: 403", status=403, reason="Forbidden")

    async def sync(key: Key, view: View, writer: Writer) -> Outcome:
        await writer.patch(NODE, key, {})
        return Done()

    rig.sender = RecordingSender(answer)
    for number in range(400):
        rig.queue.add(Key(f"n{number}"), CAUSE)
    async with rig.working(sync, workers=5):
        await asyncio.sleep(60)
        lines = [record for record in caplog.records if record.levelname == "WARNING"]
    assert [line.message for line in lines] == ["sync failed"] + ["sync failed, again"] * 2
    assert int(pairs_of(lines[1])["times"]) >= 399
