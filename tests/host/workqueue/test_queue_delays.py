"""Delayed adds come when they are due: the earliest counts, and they are independent of others."""

import asyncio

import pytest
from host.workqueue.queue_steps import A, B, drain_keys, why

from kcm_host.workqueue.queue import WorkQueue

pytestmark = pytest.mark.virtual_time


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
