"""Keys come out in the order of their first change, once each, and never to two workers."""

import asyncio

import pytest
from host.workqueue.queue_steps import A, B, C, drain_keys, why

from kcm_host.api.kinds import Key
from kcm_host.api.watch import Priority
from kcm_host.workqueue.queue import WorkQueue

pytestmark = pytest.mark.virtual_time

Add = tuple[Key, float, Priority]


def add(key: Key, after: float = 0, priority: Priority = Priority.NORMAL) -> Add:
    """Return one add."""
    return key, after, priority


IDLE, URGENT = Priority.IDLE, Priority.URGENT
NAMES = [Key("a"), Key("a", "x"), Key("a", "x", "role"), Key("a", kind="role")]
#: Adds before any worker comes, and the keys that come, with their times.
ADDED: dict[str, tuple[list[Add], list[tuple[float, Key]]]] = {
    "first added, first served (IQ-71, IQ-73)": (
        [add(B), add(A), add(C)],
        [(0, B), (0, A), (0, C)],
    ),
    "once, at the first place (IQ-70, IQ-T14)": ([add(A), add(B), *[add(A)] * 4], [(0, A), (0, B)]),
    "fifty events of each of three roles are three syncs (CRA-T19)": (
        [add(A), add(B), add(C)] * 50,
        [(0, A), (0, B), (0, C)],
    ),
    "keys are name, namespace and kind (IQ-55)": (
        [add(key) for key in NAMES * 2],
        [(0, key) for key in NAMES],
    ),
    "of several delays the earliest (IQ-85, IQ-T16)": (
        [add(A, 10), add(A, 1), add(A, 5)],
        [(1, A)],
    ),
    "now, and again when a delayed add is due (IQ-86, IQ-T17)": (
        [add(A, 1), add(A)],
        [(0, A), (1, A)],
    ),
    "a delay that is over is none (IQ-85)": (
        [add(A, 0), add(B, -1), add(C, -1000)],
        [(0, A), (0, B), (0, C)],
    ),
    "each at its own time (IQ-88)": ([add(A, 3), add(B, 1), add(C, 2)], [(1, B), (2, C), (3, A)]),
    "due together, in the order of their adds (IQ-73, IQ-88)": (
        [add(C, 2), add(A, 2), add(B, 2)],
        [(2, C), (2, A), (2, B)],
    ),
    "urgent ones first, idle ones last (RQ-B52)": (
        [add(A, 0, IDLE), add(B), add(C, 0, URGENT)],
        [(0, C), (0, B), (0, A)],
    ),
    "in order within a priority (IQ-73)": (
        [add(C, 0, IDLE), add(A, 0, IDLE), add(B, 0, IDLE)],
        [(0, C), (0, A), (0, B)],
    ),
    "once, with the higher of two priorities (D-14)": (
        [add(A, 0, IDLE), add(B), add(A, 0, URGENT)],
        [(0, A), (0, B)],
    ),
    "a priority is not lowered": (
        [add(A, 0, URGENT), add(B, 0, URGENT), add(A, 0, IDLE)],
        [(0, A), (0, B)],
    ),
}


@pytest.mark.parametrize(("adds", "come"), ADDED.values(), ids=ADDED)
async def test_the_order_of_keys(
    queue: WorkQueue, adds: list[Add], come: list[tuple[float, Key]]
) -> None:
    """Keys come once each, by time, priority and first add."""
    for key, after, priority in adds:
        queue.add(key, why(), after=after, priority=priority)
    assert await drain_keys(queue, seconds=1000) == come


async def test_changes_during_a_sync_are_exactly_one_more(queue: WorkQueue) -> None:
    """Added twice while a worker has it: once more, afterwards (IQ-72, IQ-T15, CRA-73)."""
    queue.add(A, why())
    await queue.get()
    queue.add(A, why())
    queue.add(A, why())
    assert len(queue) == 0
    queue.done(A)
    assert await drain_keys(queue, seconds=1000) == [(0, A)]


async def test_success_leaves_the_delayed_add(queue: WorkQueue) -> None:
    """Forgetting the failures of a key does not cancel its delayed add (IQ-86)."""
    queue.add(A, why(), after=1)
    queue.forget(A)
    assert await drain_keys(queue, seconds=1000) == [(1, A)]


async def test_a_key_can_be_delayed_again_after_it_came(queue: WorkQueue) -> None:
    """What an earlier, replaced delay left behind does not bring a later one forward (IQ-85)."""
    queue.add(A, why(), after=10)
    queue.add(A, why(), after=1)
    assert await drain_keys(queue, seconds=5) == [(1, A)]
    queue.add(A, why(), after=20)
    assert await drain_keys(queue, seconds=1000) == [(20, A)]


async def test_long_and_short_delays_mix(queue: WorkQueue) -> None:
    """A shorter delay that comes later is not held up by a longer one before it (IQ-85)."""
    queue.add(A, why(), after=100_000)
    await asyncio.sleep(10)
    queue.add(B, why(), after=1)
    assert await drain_keys(queue, seconds=200_000) == [(1, B), (99_990, A)]


async def test_done_without_get_is_an_error(queue: WorkQueue) -> None:
    """`done` belongs to exactly one `get`; a second one is told, not swallowed (IQ-72)."""
    queue.add(A, why())
    await queue.get()
    queue.done(A)
    with pytest.raises(KeyError):
        queue.done(A)
