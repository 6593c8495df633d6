"""The functions of watches: defaults, new ones of a dynamic watch, and the text of their errors."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from host.informer.stream_lines import POD, A, B, Pod, entry
from logged import logged

from kcm_host.api import AnyWatch, Change, Enqueue, Key, View, Watch
from kcm_host.informer.cache_view import CacheView, Stores
from kcm_host.informer.shared_informer import EventHandler
from kcm_host.informer.store import Store
from kcm_host.runtime.dynamic_watches import DynamicWatches
from kcm_host.runtime.event_handlers import EventDispatcher, RestartReason, WatchSet
from kcm_host.runtime.periodic import Resync
from kcm_host.workqueue.queue import WorkQueue

pytestmark = pytest.mark.virtual_time

PODS = Watch(kind=POD, model=Pod)
Returned = Callable[[View], Sequence[AnyWatch]]


class Informers:
    """An informer factory whose handlers a test calls."""

    def __init__(self) -> None:
        self.store: Store[Pod] = Store(POD)
        self.handlers: list[EventHandler] = []
        self.lists = 0

    def add_event_handler(
        self, _controller: str, _watch: AnyWatch, handler: EventHandler
    ) -> Store[Any]:
        """See `InformerFactory`; each added handler costs a list."""
        self.handlers.append(handler)
        self.lists += 1
        return self.store

    async def remove_event_handler(self, handler: EventHandler) -> None:
        """See `InformerFactory`."""
        self.handlers.remove(handler)

    def start(self) -> None:
        """Do nothing: the test notifies."""

    def put(self, key: Key, *, node: str = "") -> None:
        """Store a pod and notify the handlers."""
        change = self.store.put(key, entry(node + key.name, node=node))
        for handler in self.handlers:
            if change is not None:
                handler.on_change(change)


class Rig:
    """The queue, the view and the watches of a controller, without a server."""

    def __init__(self) -> None:
        self.queue = WorkQueue(asyncio.get_running_loop())
        self.informers = Informers()
        self.restarts: list[str] = []
        stores = Stores()
        self.view = CacheView("acme", stores)
        self.dispatcher = EventDispatcher(self.queue, self.view, self._restart, module=__name__)
        self.watches = WatchSet("acme", self.informers, self.dispatcher, stores)  # type: ignore[arg-type]

    def _restart(self, reason: RestartReason) -> None:
        self.restarts.append(reason.text)

    async def resync(self) -> None:
        """Run the resync of every hour for two hours."""
        resync = Resync(
            self.queue,
            self.dispatcher,
            active_watches=self.watches.active,
            timers=(),
            period=timedelta(hours=1),
            random=float,
        )
        with suppress(TimeoutError):
            await asyncio.wait_for(resync.run(), 2 * 3600)

    async def taken(self) -> set[str]:
        """Return the keys that are queued."""
        found = set()
        while len(self.queue):
            item = await self.queue.get()
            self.queue.done(item.key)
            found.add(str(item.key))
        return found


@pytest.fixture
async def rig() -> Rig:
    """Return a controller without watches."""
    return Rig()


class Hook:
    """An instance of a plugin with `kcm_dynamic_watches`."""

    class plugin:  # noqa: N801 - as the attribute is called
        """The plugin of the instance."""

        name = "acme"

    def __init__(self) -> None:
        self.returned: Sequence[AnyWatch] | Exception = ()
        self.asked: list[float] = []

    def dynamic_watches(self, _view: View, _discovery: object) -> Sequence[AnyWatch]:
        """See `Instance`."""
        self.asked.append(asyncio.get_running_loop().time())
        if isinstance(self.returned, Exception):
            raise self.returned
        return self.returned


@asynccontextmanager
async def asking(rig: Rig, hook: Hook) -> AsyncIterator[DynamicWatches]:
    """Run the dynamic watches of a controller with this hook."""
    dynamic = DynamicWatches(
        hook,  # type: ignore[arg-type]
        discovery=None,  # type: ignore[arg-type]
        dispatcher=rig.dispatcher,
        watches=rig.watches,
    )
    task = asyncio.create_task(dynamic.run())
    yield dynamic
    task.cancel()


async def shown(rig: Rig, *results: Sequence[AnyWatch] | Exception) -> DynamicWatches:
    """Return the dynamic watches after the hook has returned these, one after the other."""
    hook = Hook()
    async with asking(rig, hook) as dynamic:
        for hook.returned in results:
            dynamic.refresh()
            await asyncio.sleep(1)
    return dynamic


def to(name: str) -> Callable[[Change[Pod], View], Iterable[Enqueue]]:
    """Return a function that queues one key."""
    return lambda _change, _view: [Key(name)]


async def test_without_keys_an_object_is_its_own_key(rig: Rig) -> None:
    """It is queued at a change, and by the resync."""
    rig.watches.add(PODS)
    rig.informers.put(A)
    assert await rig.taken() == {"team/a"}
    await rig.resync()
    assert await rig.taken() == {"team/a"}


async def test_with_keys_the_resync_queues_nothing_unasked(rig: Rig) -> None:
    """What `keys` returns need not be the object."""
    rig.watches.add(replace(PODS, keys=to("x")))
    rig.informers.put(A)
    assert await rig.taken() == {"x"}
    await rig.resync()
    assert await rig.taken() == set()


async def test_new_functions_are_used_without_a_new_list(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """A dynamic watch that only differs in functions calls the new ones from then on."""
    caplog.set_level("INFO")
    first = replace(PODS, keys=to("x"), indexes={"node": lambda _key, pod: [pod.node]})
    await shown(rig, [first])
    rig.informers.put(A, node="n1")
    again = replace(
        first,
        keys=to("y"),
        indexes={"node": lambda _key, pod: ["all", pod.node]},
        resync=lambda _key: Key("resynced"),
    )
    dynamic = await shown(rig, [first], [again])
    assert set(dict(rig.view.of(POD, Pod).by_index("node", "all"))) == {A}
    rig.informers.put(B, node="n1")
    assert set(dict(rig.view.of(POD, Pod).by_index("node", "n1"))) == {A, B}
    assert await rig.taken() == {"x", "y"}
    await rig.resync()
    assert await rig.taken() == {"resynced"}
    assert rig.informers.lists == 1
    assert logged(caplog, "dynamic watches changed") == [{"controller": "acme", "added": "pods"}]
    assert [one.watch for one in dynamic.active()] == [again]


async def test_calls_of_the_hook_are_limited(rig: Rig) -> None:
    """However often a refresh is requested, the hook is called ten times a second at most."""
    hook = Hook()
    async with asking(rig, hook) as dynamic:
        for _ in range(100):
            dynamic.refresh()
            await asyncio.sleep(0.01)
    assert len(hook.asked) == 10


async def test_an_exception_of_the_hook_requests_a_restart(rig: Rig) -> None:
    """As one of any function of the plugin does."""
    await shown(rig, LookupError("lost"))
    (reason,) = rig.restarts
    assert reason.startswith("'kcm_dynamic_watches' raised LookupError: lost at ")


async def test_another_declaration_is_listed_again(rig: Rig) -> None:
    """A selector is no function; the indexes of the other watch of the store stay."""
    await shown(
        rig,
        [replace(PODS, name="a", indexes={"by": lambda key, _pod: [key.name]}), PODS],
        [replace(PODS, name="a", indexes={"by": lambda key, _pod: [key.name]}), PODS],
        [
            replace(PODS, name="a", indexes={"by": lambda key, _pod: [key.name]}),
            replace(PODS, label_selector="a=b"),
        ],
    )
    rig.informers.put(A)
    assert rig.informers.lists == 3
    assert set(dict(rig.view.of(POD, Pod, "a").by_index("by", "a"))) == {A}


def lost(*_: object) -> list[Key]:
    """Raise an error."""
    raise LookupError("lost")


@pytest.mark.parametrize(
    ("functions", "source"),
    [
        ({"keys": lost}, "'keys' of watch 'pods' for 'team/a'"),
        ({"name": "own", "keys": lost}, "'keys' of watch 'own' for 'team/a'"),
        ({"indexes": {"node": lost}}, "index 'node' of watch 'pods' for 'team/a'"),
        ({"on_synced": lost}, "'on_synced' of watch 'pods'"),
        ({"resync": lost}, "'resync' of watch 'pods' for 'team/a'"),
    ],
    ids=["keys", "a name", "an index", "on_synced", "resync"],
)
async def test_an_error_names_function_watch_object_and_line(
    rig: Rig, functions: dict[str, Any], source: str
) -> None:
    """Without a look at the traceback at level debug (F-65)."""
    rig.watches.add(replace(PODS, **functions))
    rig.informers.put(A)
    for handler in rig.informers.handlers:
        handler.on_synced()
    await rig.resync()
    line = lost.__code__.co_firstlineno + 2
    assert rig.restarts == [f"{source} raised LookupError: lost at {__file__}:{line}"]


async def test_a_resync_that_returns_no_key_is_told(rig: Rig) -> None:
    """In one sentence (F-65)."""
    rig.watches.add(replace(PODS, resync=lambda _key: None))  # type: ignore[arg-type, return-value]
    rig.informers.put(A)
    await rig.resync()
    assert rig.restarts == ["'resync' of watch 'pods' for 'team/a' returned None; return a Key"]
