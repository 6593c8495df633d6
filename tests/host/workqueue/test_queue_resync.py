"""Keys that the slow sweep queues (F-52)."""

import asyncio

import pytest
from host.workqueue.queue_steps import A, B, C, settle, why

from kcm_host.api.wakes import Lane
from kcm_host.workqueue.queue import WorkQueue

pytestmark = pytest.mark.virtual_time

SWEPT = why(reason="resync")


async def test_swept_keys_come_last(queue: WorkQueue) -> None:
    """Behind keys that were asked for later (F-52)."""
    queue.add_resync(A, SWEPT)
    queue.add(B, why())
    assert (await queue.get()).key == B
    assert (await queue.get()).key == A


async def test_a_queued_or_running_key_is_not_swept(queue: WorkQueue) -> None:
    """It is synced anyway, and no further sync follows (F-52)."""
    queue.add(A, why("1"))
    queue.add_resync(A, SWEPT)
    item = await queue.get()
    assert [cause.reason for cause in item.causes] == ["updated"]
    queue.add_resync(A, SWEPT)
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
        queue.add_resync(B, SWEPT)
        queue.add_resync(A, SWEPT)
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


async def test_a_key_that_waits_is_swept_but_not_unasked(queue: WorkQueue) -> None:
    """Nor is one that has failed (F-52)."""
    queue.add(A, why(), after=60.0)
    queue.add_rate_limited(B, why(reason="retry"))
    queue.add_resync(A, SWEPT)
    queue.add_resync(B, SWEPT)
    assert len(queue) == 2
    assert not queue.is_resync_only(A)
    assert not queue.is_resync_only(B)


async def test_a_key_that_fails_is_not_taken_as_unasked(queue: WorkQueue) -> None:
    """Its failures count until it succeeds, also when no retry of it waits any more (F-52)."""
    queue.add_rate_limited(A, why(reason="retry"))
    await queue.get()
    queue.done(A)
    queue.add_resync(A, SWEPT)
    assert not queue.is_resync_only(A)
    item = await queue.get()
    assert (item.causes, item.merged) == ((SWEPT,), 1)


async def test_the_sweep_waits_until_its_keys_are_taken(queue: WorkQueue) -> None:
    """All of them, in whatever lane they are by then; a closed queue has none (F-52)."""
    for key in (A, B, C):
        queue.add_resync(key, SWEPT)
    queue.add(B, why(), priority=Lane.URGENT)
    waiting = asyncio.create_task(queue.wait_resync_taken())
    for _ in range(3):
        await settle()
        assert not waiting.done()
        await queue.get()
    await settle()
    assert waiting.done()
