"""Failed keys come again with growing waits, and not too many at a time."""

import asyncio

import pytest
from host.workqueue.queue_steps import A, B, drain_keys, why

from kcm_host.api.kinds import Key
from kcm_host.workqueue.queue import WorkQueue

pytestmark = pytest.mark.virtual_time


async def test_waits_double_until_the_key_succeeds(queue: WorkQueue) -> None:
    """Four failures wait 5, 10, 20 and 40 ms; after a success it is 5 ms again (IQ-T18)."""
    waits = []
    for _ in range(4):
        waits.append(queue.add_rate_limited(A, why(reason="retry")))
        assert await drain_keys(queue, seconds=1) == [(waits[-1], A)]
    assert queue.failures(A) == 4
    queue.forget(A)
    assert queue.failures(A) == 0
    waits.append(queue.add_rate_limited(A, why(reason="retry")))
    assert waits == [0.005, 0.010, 0.020, 0.040, 0.005]


async def test_many_failures_at_once_share_ten_a_second(queue: WorkQueue) -> None:
    """Of 200 keys failing 100 wait 5 ms, the 101st 0.1 s, the 200th 10 s (IQ-T19, IQ-80)."""
    keys = [Key(f"k{number}") for number in range(200)]
    waits = [queue.add_rate_limited(key, why()) for key in keys]
    assert waits[:100] == [0.005] * 100
    assert waits[100:] == pytest.approx([number / 10 for number in range(1, 101)])
    times = {key: seconds for seconds, key in await drain_keys(queue, seconds=20)}
    assert [times[key] for key in keys] == pytest.approx(waits)


async def test_adds_take_nothing_from_the_retries(queue: WorkQueue) -> None:
    """A thousand adds, some of them delayed, leave the first retry its 5 ms (IQ-80)."""
    for number in range(1000):
        queue.add(Key(f"k{number}"), why(), after=number % 2)
        queue.add_after(Key(f"k{number}"), why(), after=number % 2)
    assert queue.add_rate_limited(A, why()) == 0.005


async def test_queues_fail_separately(queue: WorkQueue) -> None:
    """Each queue has a limiter of its own: failures in one cost another nothing (IQ-79)."""
    other = WorkQueue(asyncio.get_running_loop())
    for number in range(200):
        queue.add_rate_limited(Key(f"k{number}"), why())
    assert other.add_rate_limited(A, why()) == 0.005


async def test_a_retry_comes_no_later_than_what_is_waiting(queue: WorkQueue) -> None:
    """A retry is a delayed add: an earlier one that is already waiting wins (IQ-85, IQ-87)."""
    queue.add(A, why(), after=0.002)
    assert queue.add_rate_limited(A, why()) == 0.005
    assert await drain_keys(queue, seconds=1000) == [(0.002, A)]


async def test_retries_and_timers_are_counted(queue: WorkQueue) -> None:
    """`retries` counts failures and asked-for repeats, immediate ones too, and no adds (IQ-89)."""
    queue.add_rate_limited(A, why())
    queue.add_after(A, why(), after=10)
    queue.add_after(B, why(), after=0)
    queue.add(B, why(), after=10)
    assert queue.state().retries == 3
