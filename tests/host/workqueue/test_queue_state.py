"""What the queue says about itself, for people and metrics."""

import asyncio
import time
from collections.abc import Callable
from random import Random

import pytest
from host.workqueue.queue_steps import A, B, C, why

from kcm_host.api.kinds import Key
from kcm_host.observe.states import FailingKey, QueueState
from kcm_host.workqueue.queue import WorkQueue
from kcm_host.workqueue.rate_limiter import MAX_ERROR_LENGTH, MAX_ERRORS, RetryRateLimiter

pytestmark = pytest.mark.virtual_time


async def test_the_state_of_an_empty_queue(queue: WorkQueue) -> None:
    """Every figure of a new queue is zero."""
    assert queue.state() == QueueState(0, 0, 0, 0, 0, 0.0, 0.0, {})


async def test_queued_waiting_and_processing_keys_are_counted(queue: WorkQueue) -> None:
    """A key in a worker's hands that changed counts as processing and as depth (queue metrics)."""
    for key in (A, B):
        queue.add(key, why())
    await queue.get()
    queue.add(A, why())
    queue.add(C, why(), after=10)
    queue.add(B, why(), after=10)
    state = queue.state()
    assert (state.depth, state.waiting, state.processing) == (2, 2, 1)


async def test_adds_count_keys_that_become_dirty(queue: WorkQueue) -> None:
    """Merged adds count once, delayed ones when they are due (`adds_total` of the metrics)."""
    for key in (A, A, B):
        queue.add(key, why())
    queue.add(C, why(), after=1)
    assert queue.state().adds == 2
    await asyncio.sleep(1)
    assert queue.state().adds == 3


async def test_the_ages_of_running_syncs(queue: WorkQueue) -> None:
    """The sum of the ages, and the oldest, fall as keys are done (unfinished work metrics)."""
    for key in (A, B):
        queue.add(key, why())
    await queue.get()
    await asyncio.sleep(2)
    await queue.get()
    await asyncio.sleep(3)
    assert (queue.state().unfinished_seconds, queue.state().longest_seconds) == (8, 5)
    queue.done(A)
    assert (queue.state().unfinished_seconds, queue.state().longest_seconds) == (3, 3)
    queue.done(B)
    assert (queue.state().unfinished_seconds, queue.state().longest_seconds) == (0, 0)


async def test_failing_keys_are_named_with_their_failures(queue: WorkQueue) -> None:
    """Keys are named as people write them, with their last error, until they succeed (F-68)."""
    key = Key("claim", "team", "resourceclaim")
    queue.add_rate_limited(key, why(), error="first")
    queue.add_rate_limited(key, why(), error="second")
    queue.add_rate_limited(A, why(), error="x" * 500)
    assert queue.state().failing == {
        "resourceclaim:team/claim": FailingKey(2, "second"),
        "a": FailingKey(1, "x" * MAX_ERROR_LENGTH),
    }
    queue.forget(key)
    assert queue.state().failing.keys() == {"a"}


async def test_errors_of_failing_keys_are_bounded(queue: WorkQueue) -> None:
    """Of very many failing keys the first thousand keep their last error (F-68)."""
    for number in range(MAX_ERRORS + 10):
        queue.add_rate_limited(Key(f"k{number}"), why(), error="no")
    queue.add_rate_limited(Key("k0"), why(), error="again")
    late = Key(f"k{MAX_ERRORS}")
    queue.add_rate_limited(late, why(), error="no")
    failing = queue.state().failing
    assert failing["k0"] == FailingKey(2, "again")
    assert failing[str(late)] == FailingKey(2, "")
    assert len(queue._rate_limiter._errors) == MAX_ERRORS


async def test_at_most_ten_failing_keys_are_named(queue: WorkQueue) -> None:
    """Of thirty failing keys the ten with the most failures are named."""
    for number in range(30):
        for _ in range(2 if number % 3 == 0 else 1):
            queue.add_rate_limited(Key(f"k{number}"), why())
    failing = queue.state().failing
    assert set(failing) == {f"k{number}" for number in range(0, 30, 3)}
    assert {one.failures for one in failing.values()} == {2}


def test_the_most_failing_keys_are_found_without_a_sort() -> None:
    """The state is asked for at every scrape: with many failing keys it costs one walk (F-42)."""
    limiter = RetryRateLimiter(lambda: 0.0)
    keys = [Key(f"k{number}") for number in range(20_000)]
    failures = Random(1).choices(range(1, 9), k=len(keys))
    for key, times in zip(keys, failures, strict=True):
        for _ in range(times):
            limiter.next_delay(key)
    expected = sorted(failures, reverse=True)[:10]
    assert [one.failures for one in limiter.most_failing(10).values()] == expected
    sort = min(_cpu_seconds(lambda: sorted(keys, key=limiter.failures)) for _ in range(5))
    assert min(_cpu_seconds(lambda: limiter.most_failing(10)) for _ in range(5)) < sort / 2


def _cpu_seconds(work: Callable[[], object]) -> float:
    started = time.thread_time()
    work()
    return time.thread_time() - started
