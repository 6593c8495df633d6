"""The event handlers of one controller: from the changes of its informers to enqueue requests."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from kcm_host.api.errors import PLUGIN_FAILURES, HostError
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.records import Cause
from kcm_host.api.views import View
from kcm_host.api.wakes import Lane, Rewatch, Wake, Wanted
from kcm_host.api.watches import AnyWatch, Change
from kcm_host.informer.informer_factory import InformerFactory
from kcm_host.informer.store import Store
from kcm_host.workqueue.queue import WorkQueue


class EventDispatcher:
    """
    The watch functions and timers of one start, on their way to its queue.

    The first exception of theirs is the `failure` of that start, and none is called afterwards:
    a change has been lost to the plugin's memory, so only a new instance can be trusted.
    """

    def __init__(self, queue: WorkQueue, view: View) -> None:
        self.view = view
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        #: What raised: the beginning of a sentence.
        self.culprit = ""
        #: Set when a function wants other watches.
        self.rewatch = asyncio.Event()
        self._queue = queue

    def call(
        self,
        function: Callable[..., Iterable[Wanted]],
        *told: Any,
        cause: Callable[[], Cause],
        rest_seconds: float = 0.0,
        culprit: str = "a watch function",
    ) -> None:
        """
        Call a function with what it is told and the view, and queue what it gives.

        Keys wait until they have been left alone for `rest_seconds`, unless they say when.
        """
        if self.failure.done():
            return
        try:
            wanted = list(function(*told, self.view))
            if wanted:
                self._put(wanted, cause(), rest_seconds)
        except PLUGIN_FAILURES as error:
            self.fail(error, culprit=culprit)

    def fail(self, error: BaseException, *, culprit: str = "a watch function") -> None:
        """End the start these belong to."""
        if self.failure.done():
            return
        if not isinstance(error, Exception):
            # As itself it would end the event loop when somebody awaits it.
            error = HostError(f"it raised {type(error).__name__}: {error}")
        self.culprit = culprit
        self.failure.set_exception(error)
        self.failure.exception()  # seen: whoever awaits it gets it, and nobody need

    def _put(self, wanted: list[Wanted], cause: Cause, rest_seconds: float) -> None:
        for one in wanted:
            if isinstance(one, Key):
                self._add(one, cause, Lane.NORMAL, rest_seconds=rest_seconds)
            elif isinstance(one, Wake):
                after = one.after.total_seconds()
                self._add(one.key, cause, one.lane, after=after, rest_seconds=rest_seconds)
            elif isinstance(one, Rewatch):
                self.rewatch.set()
            else:
                raise TypeError(f"{one!r} is wanted; give a Key, a Wake or Rewatch()")

    def _add(
        self, key: Key, cause: Cause, lane: Lane, *, after: float = 0.0, rest_seconds: float
    ) -> None:
        if rest_seconds and not after:
            self._queue.rest(key, cause, seconds=rest_seconds, lane=lane)
        else:
            self._queue.add(key, cause, after=after, lane=lane)


#: What tells the watches of one controller apart.
Mark = tuple[Kind, type[Any]]


def mark_of(watch: AnyWatch) -> Mark:
    """Give what tells this watch from the controller's others."""
    return watch.kind, watch.model


def declaration_of(watch: AnyWatch) -> tuple[object, ...]:
    """
    Return everything that a watch declares, for comparison with another answer of the plugin.

    Its functions are left out: an answer may make them anew, and only the plugin knows whether
    they do the same. Of its indexes that leaves the names.
    """
    return (
        watch.kind,
        watch.model,
        watch.namespace,
        watch.label_selector,
        watch.field_selector,
        frozenset(watch.indexes),
        watch.every_event,
        watch.rest,
        watch.awaited,
        watch.whole,
    )


class WatchSet:
    """Some watches of one start: its places in the streams, and the stores its view reads."""

    def __init__(
        self,
        name: str,
        streams: InformerFactory,
        functions: EventDispatcher,
        stores: dict[Mark, Store[Any]],
    ) -> None:
        self._name = name
        self._streams = streams
        self._functions = functions
        self._stores = stores
        self._followers: dict[Mark, WatchEventHandler] = {}
        self._replaced: list[WatchEventHandler] = []

    @property
    def marks(self) -> frozenset[Mark]:
        """Which watches these are."""
        return frozenset(self._followers)

    def followed(self) -> list["ActiveWatch"]:
        """Give each of these watches with the store that serves it."""
        return [
            ActiveWatch(one.watch, self._stores[mark], one.is_synced)
            for mark, one in self._followers.items()
        ]

    def begin(self, watch: AnyWatch, on_synced: Callable[[], None] | None = None) -> None:
        """Follow one more; nothing flows before `open`."""
        follower = WatchEventHandler(watch, self._functions, on_synced)
        store = self._streams.follow(self._name, watch, follower)
        self._followers[mark_of(watch)] = follower
        self._stores[mark_of(watch)] = store
        for index, function in watch.indexes.items():
            store.add_index(self._name, index, function, self._functions.fail)

    def is_declared(self, watch: AnyWatch) -> bool:
        """Whether one of these watches is still declared as it is followed."""
        return declaration_of(self._followers[mark_of(watch)].watch) == declaration_of(watch)

    def replace(self, watch: AnyWatch) -> None:
        """
        Follow a watch as it is declared now; readers see its new store from here on.

        Nothing flows into that before `open`; then `leave_replaced` is due.
        """
        mark = mark_of(watch)
        self._replaced.append(self._followers[mark])
        self._stores[mark].drop_indexes(self._name)
        self.begin(watch)

    async def leave_replaced(self) -> None:
        """End what was replaced."""
        while self._replaced:
            await self._streams.leave(self._replaced.pop())

    def open(self) -> None:
        """Let flow what begins."""
        self._streams.open()

    async def end(self, mark: Mark) -> None:
        """Follow one of them no longer."""
        follower = self._followers.pop(mark)
        self._stores.pop(mark).drop_indexes(self._name)
        await self._streams.leave(follower)

    async def end_all(self) -> None:
        """Follow none of them any more."""
        await self.leave_replaced()
        for mark in self.marks:
            await self.end(mark)

    def problems(self) -> list[str]:
        """Give why some of them cannot be followed at present."""
        return self._streams.problems(self._followers.values())


class ActiveWatch(NamedTuple):
    """A watch, its store, and whether its initial objects have gone through `keys`."""

    watch: AnyWatch
    store: Store[Any]
    is_synced: bool


class WatchEventHandler:
    """Turns the changes of one watch into keys, as the plugin says."""

    def __init__(
        self, watch: AnyWatch, functions: EventDispatcher, on_synced: Callable[[], None] | None
    ) -> None:
        self.watch = watch
        self._functions = functions
        self._on_synced = on_synced
        self.is_synced = False
        self._rest_seconds = watch.rest.total_seconds()

    def changed(self, change: Change[Any]) -> None:
        """See `EventHandler.changed`."""
        if change.same and not self.watch.every_event:
            return
        self._functions.call(
            self.watch.keys,
            change,
            cause=lambda: _cause(change),
            rest_seconds=0.0 if change.initial else self._rest_seconds,
        )

    def synced(self) -> None:
        """See `EventHandler.synced`."""
        self.is_synced = True
        if self.watch.synced is not None:
            kind = str(self.watch.kind)
            self._functions.call(
                self.watch.synced, cause=lambda: Cause("synced", time.monotonic(), kind)
            )
        if self._on_synced is not None:
            self._on_synced()


def _cause(change: Change[Any]) -> Cause:
    reason = "updated"
    if change.old is None:
        reason = "added"
    elif change.new is None:
        reason = "deleted"
    return Cause(reason, time.monotonic(), str(change.kind), str(change.key), change.version)
