"""A key remembers why it is queued, however its adds were merged."""

import asyncio

import pytest
from host.workqueue.queue_steps import A, versions, why

from kcm_host.workqueue.queue import WorkQueue

pytestmark = pytest.mark.virtual_time


async def test_every_cause_of_a_key_comes_with_it(queue: WorkQueue) -> None:
    """Three adds are one item with three causes, in their order."""
    causes = [why("1", reason="added"), why("2"), why("3", reason="deleted")]
    for cause in causes:
        queue.add(A, cause)
    item = await queue.get()
    assert (item.causes, item.merged) == (tuple(causes), 3)


async def test_sixteen_causes_are_kept_and_all_are_counted(queue: WorkQueue) -> None:
    """Of a hundred causes the first sixteen are told, with the number of all."""
    for number in range(100):
        queue.add(A, why(str(number)))
    item = await queue.get()
    assert versions(item) == [str(number) for number in range(16)]
    assert item.merged == 100


async def test_causes_of_delayed_adds_are_merged(queue: WorkQueue) -> None:
    """Delayed adds lose no cause, whichever of their times counts in the end (IQ-85)."""
    queue.add(A, why("10 s"), after=10)
    queue.add(A, why("1 s"), after=1)
    queue.add(A, why("5 s"), after=5)
    await asyncio.sleep(2)
    item = await queue.get()
    assert (versions(item), item.merged) == (["10 s", "1 s", "5 s"], 3)


async def test_a_delayed_add_joins_a_queued_key(queue: WorkQueue) -> None:
    """When a key is still queued as its delayed add is due, both causes come with it (IQ-86)."""
    queue.add(A, why("delayed"), after=1)
    queue.add(A, why("at once"))
    await asyncio.sleep(1)
    item = await queue.get()
    assert (versions(item), item.merged) == (["at once", "delayed"], 2)


async def test_a_delayed_add_keeps_its_cause_for_itself(queue: WorkQueue) -> None:
    """An immediate add is handed out with its own cause; the delayed one comes with its (IQ-86)."""
    queue.add(A, why("delayed"), after=1)
    queue.add(A, why("at once"))
    now = await queue.get()
    queue.done(A)
    later = await queue.get()
    assert (versions(now), versions(later)) == (["at once"], ["delayed"])


async def test_causes_that_come_during_a_sync_belong_to_the_next(queue: WorkQueue) -> None:
    """What changes while a worker has the key is told with the sync after it (IQ-72)."""
    queue.add(A, why("1"))
    first = await queue.get()
    queue.add(A, why("2"))
    queue.add(A, why("3"))
    queue.done(A)
    second = await queue.get()
    assert (versions(first), versions(second)) == (["1"], ["2", "3"])


async def test_a_retry_and_a_change_are_merged(queue: WorkQueue) -> None:
    """A change that comes while a retry waits, and its own delay, are one item with both causes."""
    queue.add_rate_limited(A, why("failed", reason="retry"))
    queue.add(A, why("changed"), after=0.001)
    item = await queue.get()
    assert [cause.reason for cause in item.causes] == ["retry", "updated"]


async def test_merging_never_keeps_more_than_sixteen(queue: WorkQueue) -> None:
    """Two full lists of causes merge into sixteen, all of them counted."""
    for number in range(20):
        queue.add(A, why(f"delayed {number}"), after=1)
        queue.add(A, why(str(number)))
    await asyncio.sleep(1)
    item = await queue.get()
    assert versions(item) == [str(number) for number in range(16)]
    assert item.merged == 40


async def test_time_in_the_queue_begins_with_the_first_cause(queue: WorkQueue) -> None:
    """`queued_seconds` counts from the first change, merged ones do not restart it."""
    queue.add(A, why("1"))
    await asyncio.sleep(3)
    queue.add(A, why("2"))
    await asyncio.sleep(4)
    assert (await queue.get()).queued_seconds == 7


async def test_time_in_the_queue_begins_when_the_key_is_due(queue: WorkQueue) -> None:
    """`queued_seconds` counts from becoming due, not from the delayed add (queue metrics)."""
    queue.add(A, why(), after=30)
    await asyncio.sleep(32)
    assert (await queue.get()).queued_seconds == 2


async def test_time_in_the_queue_includes_the_sync_before(queue: WorkQueue) -> None:
    """A change during a sync has been waiting since it came, not since that sync's end."""
    queue.add(A, why("1"))
    await queue.get()
    queue.add(A, why("2"))
    await asyncio.sleep(5)
    queue.done(A)
    assert (await queue.get()).queued_seconds == 5
