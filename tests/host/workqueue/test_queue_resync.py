"""Keys that the periodic resync queues (F-52)."""

import asyncio

import pytest
from host.workqueue.queue_steps import A, B, C, settle, why

from kcm_host.api.watch import Priority
from kcm_host.workqueue.queue import WorkQueue

pytestmark = pytest.mark.virtual_time

RESYNC = why(reason="resync")


async def test_keys_of_the_resync_come_last(queue: WorkQueue) -> None:
    """After keys that were added later (F-52)."""
    queue.add_resync(A, RESYNC)
    queue.add(B, why())
    assert (await queue.get()).key == B
    assert (await queue.get()).key == A


async def test_the_resync_does_not_queue_a_queued_or_running_key(queue: WorkQueue) -> None:
    """It is synced anyway, and no further sync follows (F-52)."""
    queue.add(A, why("1"))
    queue.add_resync(A, RESYNC)
    item = await queue.get()
    assert [cause.reason for cause in item.causes] == ["updated"]
    queue.add_resync(A, RESYNC)
    queue.done(A)
    assert len(queue) == 0
    assert not queue.is_resync_only(A)


async def test_a_key_is_resync_only_until_another_request(queue: WorkQueue) -> None:
    """By whatever way, and at the latest when its sync has ended (F-52)."""
    for ask in (
        lambda: queue.add(A, why()),
        lambda: queue.add(A, why(), after=60.0),
        lambda: queue.debounce(A, why(), seconds=60.0),
        lambda: queue.add_rate_limited(A, why(reason="retry")),
        lambda: queue.add_after(A, why(reason="timer"), after=60.0),
    ):
        queue.add_resync(B, RESYNC)
        queue.add_resync(A, RESYNC)
        assert queue.is_resync_only(A)
        ask()
        assert not queue.is_resync_only(A)
        assert queue.is_resync_only(B)
        while len(queue):
            item = await queue.get()
            queue.done(item.key)
        assert not queue.is_resync_only(B)
        await asyncio.sleep(120)
        while len(queue):
            queue.done((await queue.get()).key)
        queue.forget(A)


async def test_the_resync_queues_a_delayed_key(queue: WorkQueue) -> None:
    """Nor is one that has failed (F-52)."""
    queue.add(A, why(), after=60.0)
    queue.add_rate_limited(B, why(reason="retry"))
    queue.add_resync(A, RESYNC)
    queue.add_resync(B, RESYNC)
    assert len(queue) == 2
    assert not queue.is_resync_only(A)
    assert not queue.is_resync_only(B)


async def test_a_failing_key_is_not_resync_only(queue: WorkQueue) -> None:
    """Its failures count until it succeeds, also when no retry of it waits any more (F-52)."""
    queue.add_rate_limited(A, why(reason="retry"))
    await queue.get()
    queue.done(A)
    queue.add_resync(A, RESYNC)
    assert not queue.is_resync_only(A)
    item = await queue.get()
    assert (item.causes, item.merged) == ((RESYNC,), 1)


async def test_the_resync_waits_until_its_keys_are_taken(queue: WorkQueue) -> None:
    """All of them, whatever their priority is by then (F-52)."""
    for key in (A, B, C):
        queue.add_resync(key, RESYNC)
    queue.add(B, why(), priority=Priority.URGENT)
    waiting = asyncio.create_task(queue.wait_resync_taken())
    for _ in range(3):
        await settle()
        assert not waiting.done()
        await queue.get()
    await settle()
    assert waiting.done()
