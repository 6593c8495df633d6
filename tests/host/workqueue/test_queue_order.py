"""Keys come out in the order of their first change, once each, and never to two workers."""

import asyncio

import pytest
from host.workqueue.queue_steps import A, B, C, drain_keys, settle, why

from kcm_host.api.kinds import Key
from kcm_host.workqueue.queue import WorkQueue

pytestmark = pytest.mark.virtual_time


async def test_first_added_is_first_served(queue: WorkQueue) -> None:
    """Keys are handed out in the order in which they were added (IQ-71, IQ-73)."""
    for key in (B, A, C):
        queue.add(key, why())
    assert [(await queue.get()).key for _ in range(3)] == [B, A, C]


async def test_adds_before_a_worker_comes_are_one_sync(queue: WorkQueue) -> None:
    """A key added five times is handed out once, at its first place (IQ-70, IQ-T14)."""
    for key in (A, B, A, A, A, A):
        queue.add(key, why())
    assert len(queue) == 2
    assert await drain_keys(queue, seconds=1) == [(0, A), (0, B)]


async def test_three_keys_of_fifty_events_each_are_three_syncs(queue: WorkQueue) -> None:
    """A hundred and fifty events about three roles before any worker runs: three (CRA-T19)."""
    for number in range(150):
        queue.add((A, B, C)[number % 3], why(str(number)))
    assert [key for _, key in await drain_keys(queue, seconds=1)] == [A, B, C]


async def test_a_key_that_a_worker_has_goes_to_no_other(queue: WorkQueue) -> None:
    """While one worker has the key, a second one waits although the key changed (CRA-T27)."""
    queue.add(A, why())
    await queue.get()
    second = asyncio.create_task(queue.get())
    queue.add(A, why())
    await asyncio.sleep(1000)
    assert not second.done()
    assert len(queue) == 0
    queue.done(A)
    assert (await second).key == A


async def test_changes_during_a_sync_are_exactly_one_more(queue: WorkQueue) -> None:
    """Added twice while a worker has it: once more afterwards (IQ-72, IQ-T15, CRA-73)."""
    queue.add(A, why())
    await queue.get()
    queue.add(A, why())
    queue.add(A, why())
    queue.done(A)
    assert await drain_keys(queue, seconds=1000) == [(0, A)]


async def test_a_changed_key_queues_up_behind_the_others(queue: WorkQueue) -> None:
    """A key that changed during its sync joins the end of the list when it is done (IQ-72)."""
    queue.add(A, why())
    await queue.get()
    queue.add(A, why())
    queue.add(B, why())
    queue.done(A)
    assert [key for _, key in await drain_keys(queue, seconds=1)] == [B, A]


async def test_a_sync_without_changes_is_the_last(queue: WorkQueue) -> None:
    """After `done` of a key that did not change, nothing is queued (IQ-72)."""
    queue.add(A, why())
    queue.done((await queue.get()).key)
    assert await drain_keys(queue, seconds=1000) == []


async def test_length_counts_what_can_be_taken(queue: WorkQueue) -> None:
    """Keys in the hands of workers, changed meanwhile or waiting, are not counted (IQ-74)."""
    queue.add(A, why())
    queue.add(B, why())
    await queue.get()
    queue.add(A, why())
    queue.add(C, why(), after=5)
    assert len(queue) == 1


async def test_each_add_wakes_one_waiting_worker(queue: WorkQueue) -> None:
    """Three workers wait; two keys wake the two that waited longest (IQ-70)."""
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await settle()
    queue.add(A, why())
    queue.add(B, why())
    await settle()
    assert [worker.done() for worker in workers] == [True, True, False]
    assert [workers[0].result().key, workers[1].result().key] == [A, B]
    queue.shut_down()
    await asyncio.wait(workers)
    workers[2].exception()


async def test_keys_are_equal_by_name_namespace_and_kind(queue: WorkQueue) -> None:
    """Keys that differ in any of the three parts are separate pieces of work (IQ-55)."""
    keys = [Key("a"), Key("a", "x"), Key("a", "x", "role"), Key("a", kind="role")]
    for key in (*keys, *keys):
        queue.add(key, why())
    assert [key for _, key in await drain_keys(queue, seconds=1)] == keys


async def test_done_without_get_is_an_error(queue: WorkQueue) -> None:
    """`done` belongs to exactly one `get`; a second one is told, not swallowed (IQ-72)."""
    queue.add(A, why())
    await queue.get()
    queue.done(A)
    with pytest.raises(KeyError):
        queue.done(A)
