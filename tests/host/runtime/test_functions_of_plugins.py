"""What watch functions and timers want, on its way into the queue."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import timedelta

import pytest

from kcm_host.api import Key, Lane, Rewatch, View, Wake, Wanted
from kcm_host.api.records import Cause
from kcm_host.informer.cache_view import StoreView
from kcm_host.runtime.event_handlers import EventDispatcher
from kcm_host.workqueue.queue import WorkQueue

pytestmark = pytest.mark.virtual_time

A, B, C, D = (Key(name) for name in "abcd")
CAUSE = Cause("updated", 0.0)
Wants = Callable[..., None]


@pytest.fixture
async def queue() -> WorkQueue:
    """Give an empty queue."""
    return WorkQueue(asyncio.get_running_loop())


@pytest.fixture
async def functions(queue: WorkQueue) -> EventDispatcher:
    """Give the functions of a start that follows nothing."""
    return EventDispatcher(queue, StoreView("acme", {}))


@pytest.fixture
def wants(functions: EventDispatcher) -> Wants:
    """Call a watch function that wants these."""

    def call(*wanted: Wanted, rest_seconds: float = 0.0) -> None:
        functions.call(lambda _: wanted, cause=lambda: CAUSE, rest_seconds=rest_seconds)

    return call


async def taken(queue: WorkQueue, count: int) -> list[tuple[str, float]]:
    """Give the next keys, with the seconds until each could be had."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    found = []
    for _ in range(count):
        key = (await queue.get()).key
        queue.done(key)
        found.append((key.name, round(loop.time() - begun, 3)))
    return found


async def test_keys_are_queued_with_their_cause(queue: WorkQueue, wants: Wants) -> None:
    """A key is what most functions give."""
    wants(A)
    item = await queue.get()
    assert (item.key, item.causes) == (A, (CAUSE,))


async def test_wakes_choose_a_lane(queue: WorkQueue, wants: Wants) -> None:
    """Urgent keys are synced before plain ones, idle ones after them."""
    wants(Wake(A, lane=Lane.IDLE), B, Wake(C), Wake(D, lane=Lane.URGENT))
    assert [name for name, _ in await taken(queue, 4)] == ["d", "b", "c", "a"]


async def test_wakes_may_wait(queue: WorkQueue, wants: Wants) -> None:
    """A wake with a time is queued when that has passed (IQ-85)."""
    wants(Wake(A, after=timedelta(seconds=3)), B)
    assert await taken(queue, 2) == [("b", 0.0), ("a", 3.0)]


async def test_a_rest_holds_for_what_says_no_time(queue: WorkQueue, wants: Wants) -> None:
    """Keys of a watch that rests wait for quiet, in their lane; a wake with a time keeps it."""
    later = Wake(B, after=timedelta(seconds=5))
    wants(A, later, Wake(C, lane=Lane.URGENT), rest_seconds=2.0)
    assert await taken(queue, 3) == [("c", 2.0), ("a", 2.0), ("b", 5.0)]


async def test_other_watches_are_asked_for(functions: EventDispatcher, wants: Wants) -> None:
    """`Rewatch` queues no key and is remembered until somebody acts on it."""
    wants(A)
    assert not functions.rewatch.is_set()
    wants(Rewatch(), Rewatch())
    assert functions.rewatch.is_set()


def nothing_usable(view: View) -> Iterable[Wanted]:
    """Give a string, each letter of which would be taken for something wanted."""
    return "ab"  # type: ignore[return-value]  # what a plugin does wrong


async def test_what_a_function_raises_ends_the_start(
    functions: EventDispatcher, wants: Wants, queue: WorkQueue
) -> None:
    """The first exception counts, and no function is called any more."""

    def broken(view: View) -> Iterable[Wanted]:
        raise LookupError("lost")

    functions.call(broken, cause=lambda: CAUSE, culprit="a timer")
    functions.fail(OSError("too late"))
    wants(A)
    assert repr(functions.failure.exception()) == repr(LookupError("lost"))
    assert functions.culprit == "a timer"
    assert len(queue) == 0


async def test_an_exit_is_a_failure_like_others(functions: EventDispatcher) -> None:
    """A function that calls `sys.exit` ends its start, not the host."""

    def exits(view: View) -> Iterable[Wanted]:
        raise SystemExit(3)

    functions.call(exits, cause=lambda: CAUSE)
    with pytest.raises(Exception, match="it raised SystemExit: 3"):
        await functions.failure


async def test_what_cannot_be_wanted_is_refused(functions: EventDispatcher) -> None:
    """Anything but a Key, a Wake or a Rewatch ends the start and says what to give."""
    functions.call(nothing_usable, cause=lambda: CAUSE)
    with pytest.raises(TypeError, match=r"'a' is wanted; give a Key, a Wake or Rewatch\(\)"):
        await functions.failure
