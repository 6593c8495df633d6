"""Timers: keys that are enqueued because time has passed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import timedelta

import pytest
from virtual_time import VirtualTimeLoop

from kcm_host.api import Enqueue, Key, Timer, View
from kcm_host.informer.cache_view import CacheView, Stores
from kcm_host.runtime.event_handlers import EventDispatcher, RestartReason
from kcm_host.runtime.periodic import run_timer
from kcm_host.workqueue.queue import WorkQueue

pytestmark = pytest.mark.virtual_time

RECOUNT = Key("recount")


class Calls:
    """A timer's function that records when it was called, in seconds since the start."""

    def __init__(self, first: Callable[[], None] = lambda: None) -> None:
        self._loop = asyncio.get_running_loop()
        self._begun = self._loop.time()
        self._first = first
        self.times: list[float] = []

    def __call__(self, view: View) -> Iterable[Enqueue]:
        """Record the time; the first call also calls `first`."""
        self.times.append(round(self._loop.time() - self._begun, 3))
        if len(self.times) == 1:
            self._first()
        return [RECOUNT]


@pytest.fixture
async def run(
    queue: WorkQueue, restarts: list[RestartReason]
) -> AsyncIterator[Callable[[Calls, float], None]]:
    """Run a timer of so many seconds; it ends with the test."""
    dispatcher = EventDispatcher(queue, CacheView("acme", Stores()), restarts.append)
    tasks = []

    def start(calls: Calls, seconds: float) -> None:
        timer = Timer(every=timedelta(seconds=seconds), keys=calls)
        tasks.append(asyncio.create_task(run_timer(timer, dispatcher)))

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


async def test_missed_calls_become_one(run: Run) -> None:
    """A process suspended over several intervals calls once, then at the times as before."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)

    def suspend() -> None:
        loop._jumping.now += 35

    calls, other = Calls(suspend), Calls()
    run(calls, 10)
    run(other, 10)
    await asyncio.sleep(65)
    assert calls.times == [10, 50, 60]
    assert other.times == [45, 50, 60]


async def test_a_failing_timer_requests_a_restart(run: Run, restarts: list[RestartReason]) -> None:
    """The reason names the exception; the timer is not called again."""

    def broken() -> None:
        raise ValueError("no count")

    calls = Calls(broken)
    run(calls, 10)
    await asyncio.sleep(60)
    assert [reason.text for reason in restarts] == [
        "'keys' of a timer (every 0:00:10) raised ValueError: no count"
    ]
    assert calls.times == [10]
