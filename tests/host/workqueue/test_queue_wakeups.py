"""No key is ever left lying while a worker waits, whoever is cancelled when."""

import asyncio
from contextlib import suppress

import pytest
from host.workqueue.queue_steps import A, settle, why

from kcm_host.workqueue.queue import WorkQueue

pytestmark = pytest.mark.virtual_time


async def test_a_worker_cancelled_after_its_wake_up_passes_it_on(queue: WorkQueue) -> None:
    """A key wakes a worker that is cancelled in the same turn: the next worker gets the key."""
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await settle()
    queue.add(A, why())
    first.cancel()
    assert (await second).key == A
    assert first.cancelled()


async def test_without_another_worker_the_key_stays(queue: WorkQueue) -> None:
    """When the only worker is cancelled in the turn of its wake-up, the key waits for the next."""
    worker = asyncio.create_task(queue.get())
    await settle()
    queue.add(A, why())
    worker.cancel()
    with suppress(asyncio.CancelledError):
        await worker
    assert len(queue) == 1
    assert (await queue.get()).key == A
