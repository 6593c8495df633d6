"""Keys are debounced, so that a burst of changes costs one sync."""

import asyncio

import pytest
from host.workqueue.queue_steps import A, B, drain_keys, why

from kcm_host.workqueue.queue import WorkQueue

pytestmark = pytest.mark.virtual_time


async def test_one_change_is_debounced_once(queue: WorkQueue) -> None:
    """A key that changes once is handed out after the debounce interval."""
    queue.debounce(A, why(), seconds=0.1)
    assert await drain_keys(queue, seconds=10) == [(0.1, A)]


async def test_a_burst_is_one_sync_after_its_last_change(queue: WorkQueue) -> None:
    """Changes within the interval defer it: three changes in 0.16 s are one sync at 0.26 s."""
    for _ in range(3):
        queue.debounce(A, why(), seconds=0.1)
        await asyncio.sleep(0.08)
    assert await drain_keys(queue, seconds=10) == [(0.02, A)]


async def test_endless_changes_are_synced_at_the_limit(queue: WorkQueue) -> None:
    """A key is deferred to five intervals after its first change at most."""

    async def change() -> None:
        for _ in range(100):
            queue.debounce(A, why(), seconds=0.1)
            await asyncio.sleep(0.05)

    changes = asyncio.create_task(change())
    times = [time for time, _ in await drain_keys(queue, seconds=20)]
    await changes
    assert times[0] == 0.5
    assert len(times) <= 11


async def test_keys_are_debounced_separately(queue: WorkQueue) -> None:
    """A change of one key does not defer another one."""
    queue.debounce(A, why(), seconds=0.1)
    queue.debounce(B, why(), seconds=0.1)
    await asyncio.sleep(0.05)
    queue.debounce(A, why(), seconds=0.1)
    assert await drain_keys(queue, seconds=10) == [(0.05, B), (0.1, A)]


async def test_changes_do_not_defer_a_retry(queue: WorkQueue) -> None:
    """A delayed add keeps its time, however often the key changes meanwhile (IQ-85)."""
    queue.add(A, why(), after=0.15)
    for _ in range(3):
        queue.debounce(A, why(), seconds=0.1)
        await asyncio.sleep(0.04)
    assert await drain_keys(queue, seconds=10) == [(0.03, A)]


async def test_a_change_comes_before_a_later_retry(queue: WorkQueue) -> None:
    """A change of a key that waits for its back-off is synced after the interval, once (IQ-85)."""
    queue.add(A, why(), after=100)
    queue.debounce(A, why(), seconds=0.1)
    assert await drain_keys(queue, seconds=1000) == [(0.1, A)]


async def test_debounced_keys_keep_their_causes(queue: WorkQueue) -> None:
    """All causes of a burst reach its one sync, 16 kept and all counted."""
    for number in range(20):
        queue.debounce(A, why(f"change {number}"), seconds=0.1)
    item = await queue.get()
    assert (len(item.causes), item.merged) == (16, 20)


async def test_an_add_limits_a_debounce(queue: WorkQueue) -> None:
    """Whatever changes meanwhile, the key is synced when an add of it is due (IQ-85)."""
    begun = asyncio.get_running_loop().time()
    queue.debounce(A, why(), seconds=1)
    queue.add(A, why(), after=2)
    for _ in range(2):
        await asyncio.sleep(0.9)
        assert not len(queue)
        queue.debounce(A, why(), seconds=1)
    await queue.get()
    assert asyncio.get_running_loop().time() - begun == pytest.approx(2)
