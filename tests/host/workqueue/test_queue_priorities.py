"""Higher priorities are first, none is starved, and a key has one priority only."""

import pytest
from host.workqueue.queue_steps import A, B, C, drain_keys, settle, why

from kcm_host.api.kinds import Key
from kcm_host.api.watch import Priority
from kcm_host.workqueue.queue import STARVATION_LIMIT, WorkQueue

pytestmark = pytest.mark.virtual_time


async def test_a_lower_priority_is_never_starved(queue: WorkQueue) -> None:
    """After eight urgent keys one normal and one idle key follow."""
    urgent = [Key(f"urgent-{number}") for number in range(2 * STARVATION_LIMIT + 2)]
    for key in urgent:
        queue.add(key, why(), priority=Priority.URGENT)
    queue.add(A, why())
    queue.add(B, why(), priority=Priority.IDLE)
    order = [key for _, key in await drain_keys(queue, seconds=1)]
    assert order[:STARVATION_LIMIT] == urgent[:STARVATION_LIMIT]
    assert order[STARVATION_LIMIT : STARVATION_LIMIT + 2] == [A, B]
    assert order[STARVATION_LIMIT + 2 :] == urgent[STARVATION_LIMIT:]


async def test_each_key_of_a_lower_priority_waits_equally_long(queue: WorkQueue) -> None:
    """Eight keys of higher priorities before each of them, not before the first alone."""
    low = [A, B, C]
    for number in range(4 * STARVATION_LIMIT):
        queue.add(Key(f"urgent-{number}"), why(), priority=Priority.URGENT)
    for key in low:
        queue.add(key, why())
    order = [key for _, key in await drain_keys(queue, seconds=1)]
    assert [order.index(key) for key in low] == [
        STARVATION_LIMIT,
        2 * STARVATION_LIMIT + 1,
        3 * STARVATION_LIMIT + 2,
    ]


async def test_starvation_is_counted_from_the_first_key(queue: WorkQueue) -> None:
    """Keys that were taken while no key waited do not count."""
    for number in range(2 * STARVATION_LIMIT):
        queue.add(Key(f"urgent-{number}"), why(), priority=Priority.URGENT)
    for _ in range(STARVATION_LIMIT):
        queue.done((await queue.get()).key)
    queue.add(A, why())
    order = [key for _, key in await drain_keys(queue, seconds=1)]
    assert order.index(A) == STARVATION_LIMIT


async def test_a_raised_key_waits_at_its_new_priority_alone(queue: WorkQueue) -> None:
    """The stale entry that it leaves behind is no key that is passed over."""
    queue.add(A, why(), priority=Priority.IDLE)
    for key in (A, *(Key(f"urgent-{number}") for number in range(2 * STARVATION_LIMIT))):
        queue.add(key, why(), priority=Priority.URGENT)
    for _ in range(STARVATION_LIMIT):
        queue.done((await queue.get()).key)
    queue.add(B, why(), priority=Priority.IDLE)
    order = [key for _, key in await drain_keys(queue, seconds=1)]
    assert order.index(B) == STARVATION_LIMIT


async def test_a_raised_key_can_be_queued_with_a_low_priority_again(queue: WorkQueue) -> None:
    """Its stale entry does not make it two syncs."""
    queue.add(A, why(), priority=Priority.IDLE)
    queue.add(A, why(), priority=Priority.URGENT)
    assert (await queue.get()).key == A
    queue.add(A, why(), priority=Priority.IDLE)
    await settle()
    assert len(queue) == 0
    queue.done(A)
    assert await drain_keys(queue, seconds=1) == [(0, A)]


async def test_a_delayed_key_keeps_its_priority(queue: WorkQueue) -> None:
    """When it is due it precedes keys of lower priorities."""
    queue.add(A, why(), after=5, priority=Priority.URGENT)
    queue.debounce(B, why(), seconds=5, priority=Priority.IDLE)
    queue.add(C, why(), after=5)
    assert await drain_keys(queue, seconds=10) == [(5, A), (5, C), (5, B)]
