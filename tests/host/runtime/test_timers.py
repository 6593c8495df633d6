"""Timers: keys that are wanted because time has passed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import timedelta

import pytest
from virtual_time import VirtualTimeLoop

from kcm_host.api import Key, Timer, View, Wanted
from kcm_host.informer.cache_view import StoreView
from kcm_host.runtime.event_handlers import EventDispatcher
from kcm_host.runtime.timers import run_timer
from kcm_host.workqueue.queue import WorkQueue

pytestmark = pytest.mark.virtual_time

RECOUNT = Key("recount")


class Calls:
    """A timer's function that notes when it was called, in seconds since the start."""

    def __init__(self, first: Callable[[], None] = lambda: None) -> None:
        self._loop = asyncio.get_running_loop()
        self._begun = self._loop.time()
        self._first = first
        self.times: list[float] = []

    def __call__(self, view: View) -> Iterable[Wanted]:
        """Note the time; the first call does something else as well."""
        self.times.append(round(self._loop.time() - self._begun, 3))
        if len(self.times) == 1:
            self._first()
        return [RECOUNT]


@pytest.fixture
async def queue() -> WorkQueue:
    """Give an empty queue."""
    return WorkQueue(asyncio.get_running_loop())


@pytest.fixture
async def functions(queue: WorkQueue) -> EventDispatcher:
    """Give the functions of a start that follows nothing."""
    return EventDispatcher(queue, StoreView("acme", {}))


@pytest.fixture
async def run(functions: EventDispatcher) -> AsyncIterator[Callable[[Calls, float], None]]:
    """Run a timer of so many seconds; it ends with the test."""
    tasks = []

    def start(calls: Calls, seconds: float) -> None:
        timer = Timer(every=timedelta(seconds=seconds), keys=calls)
        tasks.append(asyncio.create_task(run_timer(timer, functions)))

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


Run = Callable[[Calls, float], None]


async def test_a_timer_fires_again_and_again(run: Run, queue: WorkQueue) -> None:
    """First when its interval has passed since the start, then at every further one."""
    calls = Calls()
    run(calls, 30)
    await asyncio.sleep(29)
    assert calls.times == []
    await asyncio.sleep(62)
    assert calls.times == [30, 60, 90]
    item = await queue.get()
    assert item.key == RECOUNT
    assert [cause.reason for cause in item.causes] == ["timer"] * 3


async def test_timers_run_apart(run: Run) -> None:
    """Each has its own interval."""
    often, seldom = Calls(), Calls()
    run(often, 2)
    run(seldom, 5)
    await asyncio.sleep(10.5)
    assert often.times == [2, 4, 6, 8, 10]
    assert seldom.times == [5, 10]


async def test_what_was_missed_is_made_up_for_by_one(run: Run) -> None:
    """A process held up over several intervals calls once, then goes on in the old rhythm."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)

    def held_up() -> None:
        loop._jumping.now += 35

    calls, other = Calls(held_up), Calls()
    run(calls, 10)
    run(other, 10)
    await asyncio.sleep(65)
    assert calls.times == [10, 50, 60]
    assert other.times == [45, 50, 60]


async def test_a_failing_timer_ends_the_start(run: Run, functions: EventDispatcher) -> None:
    """What it raises is the start's failure; it is not called again."""

    def broken() -> None:
        raise ValueError("no count")

    calls = Calls(broken)
    run(calls, 10)
    with pytest.raises(ValueError, match="no count"):
        await functions.failure
    assert functions.culprit == "a timer"
    await asyncio.sleep(60)
    assert calls.times == [10]
