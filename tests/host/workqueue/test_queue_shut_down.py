"""A closed queue hands out nothing more: what is queued is dropped, running syncs end in peace."""

import asyncio

import pytest
from host.workqueue.queue_steps import A, B, C, settle, why

from kcm_host.workqueue.queue import QueueShutDown, WorkQueue

pytestmark = pytest.mark.virtual_time


async def test_queued_and_waiting_keys_are_dropped(queue: WorkQueue) -> None:
    """
    With two keys queued and one waiting, `get` says closed at once, also when that one is due.

    The reference still hands out the two (IQ-75, IQ-T20): its syncs then fail on a cancelled
    context. Here a stop begins no sync, which is the declared difference. A second close changes
    nothing.
    """
    queue.add(A, why())
    queue.add(B, why())
    queue.add(C, why(), after=1)
    queue.shut_down()
    queue.shut_down()
    assert len(queue) == 0
    for _ in range(2):
        with pytest.raises(QueueShutDown):
            await queue.get()
        await asyncio.sleep(5)
    assert (queue.state().depth, queue.state().waiting) == (0, 0)


async def test_every_waiting_worker_ends(queue: WorkQueue) -> None:
    """All workers get `QueueShutDown`, also one that was just notified of a key (IQ-75)."""
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await settle()
    queue.add(A, why())
    queue.shut_down()
    ends = await asyncio.gather(*workers, return_exceptions=True)
    assert [type(end) for end in ends] == [QueueShutDown] * 3


async def test_adds_of_every_sort_are_ignored_afterwards(queue: WorkQueue) -> None:
    """Immediate, delayed and debounced adds, retries and timers change nothing (IQ-75, IQ-85)."""
    queue.shut_down()
    queue.add(A, why())
    queue.add(A, why(), after=1)
    queue.add_after(A, why(), after=1)
    queue.add_rate_limited(A, why())
    queue.debounce(A, why(), seconds=0.1)
    await asyncio.sleep(1000)
    state = queue.state()
    assert (len(queue), state.depth, state.waiting, state.adds) == (0, 0, 0, 0)


async def test_a_running_sync_ends_as_always(queue: WorkQueue) -> None:
    """`done` of a key that a worker had at the close is accepted, and the key is not queued."""
    queue.add(A, why())
    await queue.get()
    queue.add(A, why())
    queue.shut_down()
    queue.done(A)
    assert len(queue) == 0
    assert queue.state().processing == 0
