"""The dispatcher: what watch functions and timers return is enqueued."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import timedelta

import pytest

from kcm_host.api import Enqueue, EnqueueRequest, Key, Priority, RefreshWatches, View
from kcm_host.api.sync import Cause
from kcm_host.informer.cache_view import CacheView, Stores
from kcm_host.runtime.event_handlers import EventDispatcher, RestartReason
from kcm_host.workqueue.queue import WorkQueue

pytestmark = pytest.mark.virtual_time

A, B, C, D = (Key(name) for name in "abcd")
KEYS = "'keys' of watch 'nodes'"
CAUSE = Cause(reason="updated", received=0.0)
EnqueueCall = Callable[..., None]


@pytest.fixture
async def dispatcher(queue: WorkQueue, restarts: list[RestartReason]) -> EventDispatcher:
    """Return a dispatcher without watches."""
    return EventDispatcher(queue, CacheView("acme", Stores()), restarts.append)


@pytest.fixture
def enqueue(dispatcher: EventDispatcher) -> EnqueueCall:
    """Dispatch to a watch function that returns these requests."""

    def call(*requests: Enqueue, debounce_seconds: float = 0.0) -> None:
        dispatcher.call(
            lambda _: requests, cause=lambda: CAUSE, source=KEYS, debounce_seconds=debounce_seconds
        )

    return call


async def taken(queue: WorkQueue, count: int) -> list[tuple[str, float]]:
    """Return the next keys, with the seconds until each was available."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    found = []
    for _ in range(count):
        key = (await queue.get()).key
        queue.done(key)
        found.append((key.name, round(loop.time() - begun, 3)))
    return found


async def test_keys_are_queued_with_their_cause(queue: WorkQueue, enqueue: EnqueueCall) -> None:
    """Most functions return keys."""
    enqueue(A)
    item = await queue.get()
    assert (item.key, item.causes) == (A, (CAUSE,))


async def test_requests_may_set_a_priority(queue: WorkQueue, enqueue: EnqueueCall) -> None:
    """Urgent keys are synced before plain ones, idle ones after them."""
    enqueue(
        EnqueueRequest(A, priority=Priority.IDLE),
        B,
        EnqueueRequest(C),
        EnqueueRequest(D, priority=Priority.URGENT),
    )
    assert [name for name, _ in await taken(queue, 4)] == ["d", "b", "c", "a"]


async def test_requests_may_set_a_delay(queue: WorkQueue, enqueue: EnqueueCall) -> None:
    """A request with a delay is queued when that has passed (IQ-85)."""
    enqueue(EnqueueRequest(A, after=timedelta(seconds=3)), B)
    assert await taken(queue, 2) == [("b", 0.0), ("a", 3.0)]


async def test_keys_without_a_delay_are_debounced(queue: WorkQueue, enqueue: EnqueueCall) -> None:
    """They keep their priority; a request with a delay keeps that."""
    later = EnqueueRequest(B, after=timedelta(seconds=5))
    enqueue(A, later, EnqueueRequest(C, priority=Priority.URGENT), debounce_seconds=2.0)
    assert await taken(queue, 3) == [("c", 2.0), ("a", 2.0), ("b", 5.0)]


async def test_a_refresh_of_the_dynamic_watches_is_requested(
    dispatcher: EventDispatcher, enqueue: EnqueueCall
) -> None:
    """`RefreshWatches` queues no key and sets the event once."""
    enqueue(A)
    assert not dispatcher.refresh_requested.is_set()
    enqueue(RefreshWatches(), RefreshWatches())
    assert dispatcher.refresh_requested.is_set()


@pytest.mark.parametrize("error", [LookupError("lost"), SystemExit(3)], ids=repr)
async def test_an_exception_requests_a_restart(
    dispatcher: EventDispatcher,
    restarts: list[RestartReason],
    enqueue: EnqueueCall,
    queue: WorkQueue,
    error: BaseException,
) -> None:
    """The first exception counts, an exit too, and no function is called afterwards."""

    def broken(view: View) -> Iterable[Enqueue]:
        raise error

    dispatcher.call(broken, cause=lambda: CAUSE, source="a timer")
    dispatcher.fail(OSError("too late"), source=KEYS)
    enqueue(A)
    (reason,) = restarts
    assert reason.text == f"a timer raised {type(error).__name__}: {error}"
    assert reason.error is error
    assert len(queue) == 0


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (None, "returned None; return a list of keys"),
        (A, "returned the Key 'a'; return a list of keys"),
        ("ab", "returned the str 'ab'; return a list of keys"),
        ("x" * 1000, f"returned the str '{'x' * 80}'; return a list of keys"),
        (EnqueueRequest(A), "returned a EnqueueRequest; return a list of keys"),
        (7, "returned a int; return a list of keys"),
        (
            [A, "a"],
            (
                "returned the str 'a' in its list; "
                "return a list of Key, EnqueueRequest or RefreshWatches()"
            ),
        ),
    ],
    ids=["None", "a key", "a text", "a long text", "a request", "a number", "texts"],
)
async def test_a_result_that_is_no_list_of_keys_is_told_in_one_sentence(
    dispatcher: EventDispatcher, restarts: list[RestartReason], result: object, says: str
) -> None:
    """It names the function and the object; a text would be taken for a list of letters (F-65)."""
    dispatcher.call(lambda _: result, cause=lambda: CAUSE, source=KEYS, about=Key("n1"))  # type: ignore[arg-type, return-value]
    assert [reason.text for reason in restarts] == [f"{KEYS} for 'n1' {says}"]


@pytest.mark.parametrize("gives", [tuple, set, iter, dict.fromkeys], ids=str)
async def test_keys_may_come_in_any_iterable(
    dispatcher: EventDispatcher, queue: WorkQueue, gives: Callable[[list[Key]], Iterable[Key]]
) -> None:
    """Also from a generator."""
    dispatcher.call(lambda _: gives([A]), cause=lambda: CAUSE, source=KEYS)
    assert (await queue.get()).key == A


async def test_an_error_names_object_and_line(
    queue: WorkQueue, restarts: list[RestartReason]
) -> None:
    """The innermost line of the plugin, also below functions of others (F-65)."""

    def keys(view: View) -> Iterable[Enqueue]:
        yield from map(lost, (A,))

    def lost(key: Key) -> Key:
        raise LookupError(key.name)

    view = CacheView("acme", Stores())
    dispatcher = EventDispatcher(queue, view, restarts.append, module=__name__)
    dispatcher.call(keys, cause=lambda: CAUSE, source=KEYS, about=Key("n1", "ns"))
    line = lost.__code__.co_firstlineno + 1
    assert [reason.text for reason in restarts] == [
        f"{KEYS} for 'ns/n1' raised LookupError: a at {__file__}:{line}"
    ]
