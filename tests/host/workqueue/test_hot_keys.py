"""A key that is synced without an end waits between its syncs, and holds up nothing else (F-62)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from host.workqueue.queue_steps import A, B, why

from kcm_host.api.kinds import Key
from kcm_host.api.watch import Priority
from kcm_host.workqueue.queue import Item, QueueShutDown, WorkQueue
from kcm_host.workqueue.rate_limiter import HOT_SYNCS, MAX_COUNTED, HotKeys

pytestmark = pytest.mark.virtual_time

Sync = Callable[[Item], Awaitable[None]]


class Times:
    """When the syncs of each key began, from the start of the test."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()
        self.of: dict[Key, list[float]] = {}
        #: The keys that were said to have become hot.
        self.hot: list[Key] = []

    def note(self, item: Item) -> None:
        """Record that a sync begins."""
        self.of.setdefault(item.key, []).append(round(self._loop.time() - self._started, 6))
        if item.is_newly_hot:
            self.hot.append(item.key)


@asynccontextmanager
async def working(queue: WorkQueue, sync: Sync) -> AsyncIterator[Times]:
    """Sync keys one after the other until the block ends."""
    times = Times()

    async def work() -> None:
        with suppress(QueueShutDown):
            while True:
                item = await queue.get()
                times.note(item)
                await sync(item)
                queue.done(item.key)

    worker = asyncio.create_task(work())
    try:
        yield times
    finally:
        queue.shut_down()
        await worker


def again(queue: WorkQueue, key: Key) -> Sync:
    """Return a sync that writes what it watches: the event arrives while it runs."""

    async def sync(item: Item) -> None:
        if item.key == key:
            queue.add(key, why())

    return sync


def every(queue: WorkQueue, seconds: float) -> Sync:
    """Return a sync whose key is queued again after so long."""

    async def sync(item: Item) -> None:
        queue.add(item.key, why(), after=seconds)

    return sync


async def test_a_key_without_an_end_waits_between_its_syncs(queue: WorkQueue) -> None:
    """After 250 syncs within 10 s there is a wait of 0.1 s before each further one (F-62)."""
    queue.add(A, why())
    async with working(queue, again(queue, A)) as times:
        await asyncio.sleep(60)
    assert times.of[A][: HOT_SYNCS + 3] == [0.0] * (HOT_SYNCS + 1) + [0.1, 0.2]
    assert len(times.of[A]) == pytest.approx(HOT_SYNCS + 600, abs=2)
    assert times.hot == [A]


async def test_a_hot_key_holds_up_no_other_key(queue: WorkQueue) -> None:
    """One worker syncs other keys while the hot one waits in the queue (F-62)."""
    queue.add(A, why())
    async with working(queue, again(queue, A)) as times:
        for number in range(100):
            await asyncio.sleep(0.033)
            queue.add(Key(f"k{number}"), why())
        await asyncio.sleep(0.033)
    assert [times.of[Key(f"k{number}")] for number in range(100)] == [
        [round(0.033 * (number + 1), 6)] for number in range(100)
    ]


@pytest.mark.parametrize("seconds", [0.05, 0.1, 1.0])
async def test_a_busy_key_is_left_alone(queue: WorkQueue, seconds: float) -> None:
    """A quota whose changes are coalesced to one sync in 50 ms is not delayed (F-62)."""
    queue.add(A, why())
    async with working(queue, every(queue, seconds)) as times:
        await asyncio.sleep(60)
    assert times.hot == []
    assert len(times.of[A]) == pytest.approx(60 / seconds, abs=2)


async def test_retries_are_left_alone(queue: WorkQueue) -> None:
    """A key that fails each time has a back-off, and never becomes hot (F-62)."""

    async def fail(item: Item) -> None:
        queue.add_rate_limited(item.key, why())

    queue.add(A, why())
    async with working(queue, fail) as times:
        await asyncio.sleep(600)
    assert times.hot == []


async def test_a_key_that_has_calmed_down_does_not_wait(queue: WorkQueue) -> None:
    """When it was synced rarely for a while, its next changes are synced at once (F-62)."""
    is_busy = True

    async def sync(item: Item) -> None:
        if is_busy:
            queue.add(A, why(), after=0.01)

    queue.add(A, why())
    async with working(queue, sync) as times:
        await asyncio.sleep(15)
        assert times.hot == [A]
        is_busy = False
        for _ in range(25):
            await asyncio.sleep(1)
            queue.add(A, why())
            queue.add(B, why())
        await asyncio.sleep(0.001)
        queue.add(A, why())
        await asyncio.sleep(0.001)
    assert times.of[A][-2:] == [40.0, 40.001]


async def test_a_delayed_add_of_a_hot_key_stays(queue: WorkQueue) -> None:
    """A sync for a later time is not lost in the syncs before it (IQ-86)."""
    left = HOT_SYNCS + 20

    async def sync(item: Item) -> None:
        nonlocal left
        left -= 1
        if left > 0:
            queue.add(A, why())

    queue.add(A, why())
    queue.add(A, why(), after=300)
    async with working(queue, sync) as times:
        await asyncio.sleep(400)
    assert times.of[A][-1] == 300.0


async def test_a_raised_priority_does_not_end_the_wait(queue: WorkQueue) -> None:
    """A hot key that is queued again with a higher priority waits the same time (F-62)."""
    for _ in range(HOT_SYNCS + 1):
        queue.add(A, why())
        await queue.get()
        queue.done(A)
    queue.add(A, why(), priority=Priority.IDLE)
    queue.add(A, why(), priority=Priority.URGENT)
    queue.add(B, why())
    assert (await queue.get()).key == B
    assert ((await queue.get()).key, asyncio.get_running_loop().time()) == (A, 1000.1)


async def test_a_resync_takes_a_hot_key_too(queue: WorkQueue) -> None:
    """A resync that meets a hot key ends (F-62)."""
    queue.add(A, why())
    async with working(queue, again(queue, A)):
        await asyncio.sleep(1)
        for _ in range(20):
            queue.add_resync(A, why())
            queue.add_resync(B, why())
            await queue.wait_resync_taken()


def test_counts_do_not_grow_with_the_keys() -> None:
    """However many keys are synced, a thousand are counted, and none of them becomes hot (F-62)."""
    hot_keys = HotKeys()
    for number in range(100_000):
        assert not hot_keys.count(Key(f"k{number}"), 1.0)
    assert len(hot_keys) <= MAX_COUNTED


def test_a_hot_key_is_found_among_many() -> None:
    """A key with 1 % of all syncs becomes hot, though ten thousand others are synced (F-62)."""
    hot_keys = HotKeys()
    found = []
    for number in range(50_000):
        hot_keys.count(Key(f"k{number % 10_000}"), 1.0)
        if number % 100 == 0:
            found.append(hot_keys.count(A, 1.0))
    assert found.count(True) == 1
    assert list(hot_keys.due) == [A]
