"""The event handlers of one controller: from the changes of its informers to enqueue requests."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from kcm_host.api.enqueue import Enqueue, EnqueueRequest, Priority, RefreshWatches
from kcm_host.api.errors import PLUGIN_FAILURES
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.records import Cause
from kcm_host.api.views import View
from kcm_host.api.watch import AnyWatch, Change
from kcm_host.informer.informer_factory import InformerFactory
from kcm_host.informer.store import Store
from kcm_host.workqueue.queue import WorkQueue

#: The source of an exception in an error text.
WATCH_FUNCTION = "a watch function"


class RestartReason(NamedTuple):
    """The reason of a restart; `error` is None when nothing failed."""

    text: str
    error: BaseException | None = None

    @classmethod
    def of_error(cls, error: BaseException, *, source: str) -> "RestartReason":
        """Return the reason for an exception that `source` has raised."""
        return cls(f"{source} raised {type(error).__name__}: {error}", error)


class EventDispatcher:
    """
    Calls the watch functions and timers of one controller run, and enqueues what they return.

    The first exception requests a restart of the run, and no function is called afterwards: the
    plugin has missed a change, so only a new instance has a state that can be trusted.
    """

    def __init__(
        self, queue: WorkQueue, view: View, restart: Callable[[RestartReason], None]
    ) -> None:
        self.view = view
        #: Whether functions are called no longer, because the run is ending.
        self.closed = False
        #: Set when a function has requested that `kcm_dynamic_watches` is called again.
        self.refresh_requested = asyncio.Event()
        self._queue = queue
        self._restart = restart

    def call(
        self,
        function: Callable[..., Iterable[Enqueue]],
        *arguments: Any,
        cause: Callable[[], Cause],
        debounce_seconds: float = 0.0,
        source: str = WATCH_FUNCTION,
    ) -> None:
        """
        Call a function with these arguments and the view, and enqueue what it returns.

        Keys are debounced by `debounce_seconds`, except requests with a delay of their own.
        """
        if self.closed:
            return
        try:
            requests = list(function(*arguments, self.view))
            if requests:
                self._enqueue(requests, cause(), debounce_seconds)
        except PLUGIN_FAILURES as error:
            self.fail(error, source=source)

    def fail(self, error: BaseException, *, source: str = WATCH_FUNCTION) -> None:
        """Request a restart because a function of the plugin has raised `error`."""
        if not self.closed:
            self.closed = True
            self._restart(RestartReason.of_error(error, source=source))

    def _enqueue(self, requests: list[Enqueue], cause: Cause, debounce_seconds: float) -> None:
        for one in requests:
            if isinstance(one, Key):
                self._add(one, cause, Priority.NORMAL, debounce_seconds=debounce_seconds)
            elif isinstance(one, EnqueueRequest):
                after = one.after.total_seconds()
                self._add(
                    one.key, cause, one.priority, after=after, debounce_seconds=debounce_seconds
                )
            elif isinstance(one, RefreshWatches):
                self.refresh_requested.set()
            else:
                raise TypeError(
                    f"{one!r} cannot be enqueued; "
                    "return a Key, an EnqueueRequest or RefreshWatches()"
                )

    def _add(
        self, key: Key, cause: Cause, lane: Priority, *, after: float = 0.0, debounce_seconds: float
    ) -> None:
        if debounce_seconds and not after:
            self._queue.debounce(key, cause, seconds=debounce_seconds, priority=lane)
        else:
            self._queue.add(key, cause, after=after, priority=lane)


#: What distinguishes the watches of one controller.
WatchName = tuple[Kind, type[Any]]


def watch_name(watch: AnyWatch) -> WatchName:
    """Return what distinguishes this watch from the controller's others."""
    return watch.kind, watch.model


def declaration_of(watch: AnyWatch) -> tuple[object, ...]:
    """
    Return everything that a watch declares, for comparison with a later result of the hook.

    Functions are left out, because each call of the hook may create new ones; of the indexes the
    names are compared.
    """
    return (
        watch.kind,
        watch.model,
        watch.namespace,
        watch.label_selector,
        watch.field_selector,
        frozenset(watch.indexes),
        watch.notify_unchanged,
        watch.debounce,
        watch.required,
        watch.full_object,
    )


class ActiveWatch(NamedTuple):
    """A watch, its store, and whether its initial objects have gone through `keys`."""

    watch: AnyWatch
    store: Store[Any]
    is_synced: bool


class WatchSet:
    """Some watches of one controller run: their event handlers, and the stores of its view."""

    def __init__(
        self,
        controller: str,
        informers: InformerFactory,
        dispatcher: EventDispatcher,
        stores: dict[WatchName, Store[Any]],
    ) -> None:
        self._controller = controller
        self._informers = informers
        self._dispatcher = dispatcher
        self._stores = stores
        self._handlers: dict[WatchName, WatchEventHandler] = {}
        self._replaced: list[WatchEventHandler] = []
        self._handler_synced = asyncio.Event()

    @property
    def names(self) -> frozenset[WatchName]:
        """The names of these watches."""
        return frozenset(self._handlers)

    def active(self) -> list[ActiveWatch]:
        """Return each of these watches with its store."""
        return [
            ActiveWatch(handler.watch, self._stores[name], handler.is_synced)
            for name, handler in self._handlers.items()
        ]

    async def wait_for_cache_sync(self) -> None:
        """Return when the initial objects of all these watches have gone through `keys`."""
        while not all(handler.is_synced for handler in self._handlers.values()):
            self._handler_synced.clear()
            await self._handler_synced.wait()

    def add(self, watch: AnyWatch) -> None:
        """Add a watch; its handler gets no notification before `start`."""
        handler = WatchEventHandler(watch, self._dispatcher, self._handler_synced.set)
        store = self._informers.add_event_handler(self._controller, watch, handler)
        self._handlers[watch_name(watch)] = handler
        self._stores[watch_name(watch)] = store
        for index, function in watch.indexes.items():
            store.add_index(self._controller, index, function, self._dispatcher.fail)

    def is_unchanged(self, watch: AnyWatch) -> bool:
        """Return whether the active watch of this name has the same declaration."""
        return declaration_of(self._handlers[watch_name(watch)].watch) == declaration_of(watch)

    def replace(self, watch: AnyWatch) -> None:
        """
        Replace the active watch of this name; the view reads its new store from now on.

        The store is filled after `start`; call `remove_replaced` then.
        """
        name = watch_name(watch)
        self._replaced.append(self._handlers[name])
        self._stores[name].remove_indexes(self._controller)
        self.add(watch)

    async def remove_replaced(self) -> None:
        """Remove the handlers of replaced watches."""
        while self._replaced:
            await self._informers.remove_event_handler(self._replaced.pop())

    def start(self) -> None:
        """Start the informers of added watches."""
        self._informers.start()

    async def remove(self, name: WatchName) -> None:
        """Remove one watch with its handler, its store and its indexes."""
        handler = self._handlers.pop(name)
        self._stores.pop(name).remove_indexes(self._controller)
        await self._informers.remove_event_handler(handler)

    async def remove_all(self) -> None:
        """Remove all watches."""
        await self.remove_replaced()
        for name in self.names:
            await self.remove(name)

    def problems(self) -> list[str]:
        """Return the errors of failed informers of these watches."""
        return self._informers.errors(self._handlers.values())


class WatchEventHandler:
    """The event handler of one watch: calls its functions through the dispatcher."""

    def __init__(
        self, watch: AnyWatch, dispatcher: EventDispatcher, on_synced: Callable[[], None]
    ) -> None:
        self.watch = watch
        self.is_synced = False
        self._dispatcher = dispatcher
        self._on_synced = on_synced
        self._debounce_seconds = watch.debounce.total_seconds()

    def on_change(self, change: Change[Any]) -> None:
        """See `EventHandler.changed`."""
        if change.unchanged and not self.watch.notify_unchanged:
            return
        self._dispatcher.call(
            self.watch.keys,
            change,
            cause=lambda: _cause(change),
            debounce_seconds=0.0 if change.initial else self._debounce_seconds,
        )

    def on_synced(self) -> None:
        """See `EventHandler.synced`."""
        self.is_synced = True
        if self.watch.on_synced is not None:
            kind = str(self.watch.kind)
            self._dispatcher.call(
                self.watch.on_synced,
                cause=lambda: Cause(reason="synced", received=time.monotonic(), kind=kind),
            )
        self._on_synced()


def _cause(change: Change[Any]) -> Cause:
    reason = "updated"
    if change.old is None:
        reason = "added"
    elif change.new is None:
        reason = "deleted"
    return Cause(
        reason=reason,
        received=time.monotonic(),
        kind=str(change.kind),
        object=str(change.key),
        resource_version=change.resource_version,
    )
