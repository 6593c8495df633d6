"""Delayed adds come when they are due: the earliest counts, and they are independent of others."""

import asyncio

import pytest
from host.workqueue.queue_steps import A, B, C, drain_keys, why

from kcm_host.workqueue.queue import WorkQueue

pytestmark = pytest.mark.virtual_time


async def test_of_several_delays_the_earliest_counts(queue: WorkQueue) -> None:
    """Delayed by 10 s, 1 s and 5 s: handed out after 1 s, once (IQ-85, IQ-T16)."""
    for after in (10, 1, 5):
        queue.add(A, why(), after=after)
    assert await drain_keys(queue, seconds=1000) == [(1, A)]


async def test_an_immediate_add_leaves_the_delayed_one(queue: WorkQueue) -> None:
    """Delayed by 1 s, then added: handed out now and again after 1 s (IQ-86, IQ-T17)."""
    queue.add(A, why(), after=1)
    queue.add(A, why())
    assert await drain_keys(queue, seconds=1000) == [(0, A), (1, A)]


@pytest.mark.parametrize("after", [0, -1, -1000])
async def test_a_delay_that_is_over_is_none(queue: WorkQueue, after: float) -> None:
    """A delay of nothing or less is an immediate add (IQ-85)."""
    queue.add(A, why(), after=after)
    assert len(queue) == 1


async def test_keys_come_in_the_order_of_their_times(queue: WorkQueue) -> None:
    """Whatever the order of the adds, the keys come at their own times (IQ-88)."""
    for after, key in ((3, A), (1, B), (2, C)):
        queue.add(key, why(), after=after)
    assert await drain_keys(queue, seconds=10) == [(1, B), (2, C), (3, A)]


async def test_keys_due_together_come_in_the_order_of_their_adds(queue: WorkQueue) -> None:
    """Of keys due at one moment the first added is first served (IQ-73, IQ-88)."""
    for key in (C, A, B):
        queue.add(key, why(), after=2)
    assert await drain_keys(queue, seconds=10) == [(2, C), (2, A), (2, B)]


async def test_a_key_due_while_queued_is_one_sync(queue: WorkQueue) -> None:
    """A key that is still queued when its delayed add is due is handed out once (IQ-85, IQ-70)."""
    queue.add(A, why(), after=1)
    queue.add(A, why())
    await asyncio.sleep(2)
    assert await drain_keys(queue, seconds=1000) == [(0, A)]


async def test_a_key_due_during_its_sync_comes_afterwards(queue: WorkQueue) -> None:
    """A delayed add that is due while a worker has the key waits for that worker (IQ-73)."""
    queue.add(A, why())
    queue.add(A, why(), after=1)
    await queue.get()
    await asyncio.sleep(5)
    assert len(queue) == 0
    queue.done(A)
    assert await drain_keys(queue, seconds=1000) == [(0, A)]


async def test_success_leaves_the_delayed_add(queue: WorkQueue) -> None:
    """Forgetting the failures of a key does not cancel its delayed add (IQ-86)."""
    queue.add(A, why(), after=1)
    queue.forget(A)
    assert await drain_keys(queue, seconds=1000) == [(1, A)]


async def test_a_key_can_be_delayed_again_after_it_came(queue: WorkQueue) -> None:
    """What an earlier, replaced delay left behind does not bring a later one forward (IQ-85)."""
    queue.add(A, why(), after=10)
    queue.add(A, why(), after=1)
    assert await drain_keys(queue, seconds=5) == [(1, A)]
    queue.add(A, why(), after=20)
    assert await drain_keys(queue, seconds=1000) == [(20, A)]


async def test_long_and_short_delays_mix(queue: WorkQueue) -> None:
    """A shorter delay that comes later is not held up by a longer one before it (IQ-85)."""
    queue.add(A, why(), after=100_000)
    await asyncio.sleep(10)
    queue.add(B, why(), after=1)
    assert await drain_keys(queue, seconds=200_000) == [(1, B), (99_990, A)]


async def test_time_in_the_queue_begins_when_the_key_is_due(queue: WorkQueue) -> None:
    """`queued_seconds` counts from becoming due, not from the delayed add (queue metrics)."""
    queue.add(A, why(), after=30)
    await asyncio.sleep(32)
    assert (await queue.get()).queued_seconds == 2
