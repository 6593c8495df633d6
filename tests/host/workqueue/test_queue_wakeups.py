"""No key is ever left lying while a worker waits, whoever is cancelled when."""

import asyncio
from contextlib import suppress
from random import Random

import pytest
from host.workqueue.naive_queue import NaiveQueue
from host.workqueue.queue_steps import A, B, settle, why
from hypothesis import given
from hypothesis import strategies as st
from virtual_time import run_in_virtual_time

from kcm_host.api.kinds import Key
from kcm_host.workqueue.queue import Item, WorkQueue

pytestmark = pytest.mark.virtual_time

#: Exact as binary fractions, so that sums of them are exact times.
DELAYS = (0.25, 0.5, 1.0, 4.0)
TURNS = 25


async def test_a_worker_cancelled_after_its_wake_up_passes_it_on(queue: WorkQueue) -> None:
    """A key wakes a worker that is cancelled in the same turn: the next worker gets the key."""
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await settle()
    queue.add(A, why())
    first.cancel()
    assert (await second).key == A
    assert first.cancelled()


async def test_a_cancelled_worker_is_not_woken(queue: WorkQueue) -> None:
    """A worker that was cancelled before the key came does not keep it from the next."""
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await settle()
    first.cancel()
    queue.add(A, why())
    assert (await second).key == A


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


async def test_two_keys_wake_two_although_one_is_cancelled(queue: WorkQueue) -> None:
    """Of three workers two are woken and one of these is cancelled: the third takes its key."""
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await settle()
    queue.add(A, why())
    queue.add(B, why())
    workers[0].cancel()
    items = await asyncio.gather(*workers[1:])
    assert {item.key for item in items} == {A, B}


class Trial:
    """One random run: the same steps on the queue and on the naive one."""

    def __init__(self, dice: Random) -> None:
        self.naive = NaiveQueue()
        self.dice = dice
        self.keys = [Key(f"k{number}") for number in range(self.dice.randint(1, 6))]
        self.getters: list[asyncio.Task[Item]] = []
        self.handed: list[tuple[Key, int]] = []
        self.loop = asyncio.get_running_loop()
        self.queue = WorkQueue(self.loop)

    async def turn(self) -> None:
        """Do a few steps at one moment, cancel some getters, then let everybody run."""
        for _ in range(self.dice.randint(1, 4)):
            self.dice.choices((self.add, self.delay, self.get, self.finish), (4, 2, 3, 3))[0]()
        for getter in self.dice.sample(self.getters, k=len(self.getters) // 3):
            getter.cancel()
            self.getters.remove(getter)
            self.naive.getters -= 1
        await settle()
        self.naive.hand_out()
        if self.dice.random() < 0.4:
            await asyncio.sleep(self.dice.choice(DELAYS))
            await settle()
            self.naive.advance(self.loop.time())
        self.compare()

    def add(self) -> None:
        key = self.dice.choice(self.keys)
        self.queue.add(key, why())
        self.naive.add(key)

    def delay(self) -> None:
        key, after = self.dice.choice(self.keys), self.dice.choice(DELAYS)
        self.queue.add(key, why(), after=after)
        self.naive.add_after(key, self.loop.time() + after)

    def get(self) -> None:
        task = asyncio.create_task(self.queue.get())
        task.add_done_callback(self._note)
        self.getters.append(task)
        self.naive.getters += 1

    def finish(self) -> None:
        if self.naive.processing:
            key = self.dice.choice(self.naive.processing)
            self.queue.done(key)
            self.naive.done(key)

    def compare(self) -> None:
        """Check that both did the same, and that nobody waits before a key."""
        assert self.handed == self.naive.handed
        assert len(self.queue) == len(self.naive.order)
        assert not (self.getters and len(self.queue)), "a key is there and a worker waits"
        state = self.queue.state()
        assert state.depth == len(self.naive.dirty)
        assert state.waiting == len(self.naive.waiting)
        assert state.processing == len(self.naive.processing) == len(set(self.naive.processing))

    def _note(self, task: asyncio.Task[Item]) -> None:
        if not task.cancelled() and task.exception() is None:
            self.getters.remove(task)
            self.handed.append((task.result().key, task.result().merged))


@given(dice=st.randoms(use_true_random=False))
def test_any_sequence_of_steps_follows_the_rules(dice: Random) -> None:
    """Random adds, delays, gets, dones and cancels end as in a naive model (IQ-70 to IQ-74, 85)."""

    async def run() -> None:
        trial = Trial(dice)
        for _ in range(TURNS):
            await trial.turn()
        trial.queue.shut_down()
        await settle()
        assert not [getter for getter in trial.getters if not getter.done()]

    run_in_virtual_time(run())
