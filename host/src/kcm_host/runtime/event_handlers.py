"""The event handlers of one controller: from the changes of its informers to enqueue requests."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from kcm_host.api.errors import PLUGIN_FAILURES
from kcm_host.api.kinds import Key
from kcm_host.api.sync import Cause
from kcm_host.api.watch import (
    AnyWatch,
    Change,
    Enqueue,
    EnqueueRequest,
    RefreshWatches,
    View,
    name_of,
)
from kcm_host.informer.cache_view import Stores
from kcm_host.informer.informer_factory import InformerFactory
from kcm_host.informer.store import Store
from kcm_host.observe.logging import place_of
from kcm_host.workqueue.queue import WorkQueue

#: The longest part of a wrong result that is shown.
MAX_SHOWN = 80


class InvalidResult(TypeError):
    """A function of the plugin has returned what cannot be enqueued."""


class RestartReason(NamedTuple):
    """The reason of a restart; `error` is None when nothing failed."""

    text: str
    error: BaseException | None = None

    @classmethod
    def of_error(
        cls, error: BaseException, *, source: str, about: object = None, module: str = ""
    ) -> "RestartReason":
        """
        Return the reason for an exception that `source` has raised.

        `about` is the object that it was called for, `module` that of the plugin, of which the
        innermost line is named.
        """
        subject = f"{source} for '{about}'" if about is not None else source
        if isinstance(error, InvalidResult):
            return cls(f"{subject} {error}", error)
        place = place_of(error, module=module)
        text = f"{subject} raised {type(error).__name__}: {error}"
        return cls(f"{text} at {place}" if place else text, error)


class EventDispatcher:
    """
    Calls the watch functions and timers of one controller run, and enqueues what they return.

    The first exception requests a restart of the run, and no function is called afterwards: the
    plugin has missed a change, so only a new instance has a state that can be trusted. `module` is
    that of the plugin.
    """

    def __init__(
        self,
        queue: WorkQueue,
        view: View,
        restart: Callable[[RestartReason], None],
        *,
        module: str = "",
    ) -> None:
        self.view = view
        #: Whether functions are called no longer, because the run is ending.
        self.closed = False
        #: Set when a function has requested that `kcm_dynamic_watches` is called again.
        self.refresh_requested = asyncio.Event()
        self._queue = queue
        self._restart = restart
        self._module = module

    def call(
        self,
        function: Callable[..., Iterable[Enqueue]],
        *arguments: Any,
        cause: Callable[..., Cause],
        source: str,
        about: Key | None = None,
        debounce_seconds: float = 0.0,
    ) -> None:
        """
        Call a function with these arguments and the view, and enqueue what it returns.

        `cause` returns the cause for these arguments. `source` names the function in errors,
        `about` the object. Keys are debounced by `debounce_seconds`, except requests with a delay
        of their own.
        """
        if self.closed:
            return
        try:
            requests = _listed(function(*arguments, self.view))
            # The cause is made only when there is a key for it: most changes of busy kinds queue
            # nothing.
            if requests:
                self._enqueue(requests, cause(*arguments), debounce_seconds)
        except PLUGIN_FAILURES as error:
            self.fail(error, source=source, about=about)

    def fail(self, error: BaseException, *, source: str, about: Key | None = None) -> None:
        """Request a restart because a function of the plugin has raised `error`."""
        if not self.closed:
            self.closed = True
            self._restart(
                RestartReason.of_error(error, source=source, about=about, module=self._module)
            )

    def _enqueue(self, requests: Iterable[Enqueue], cause: Cause, debounce_seconds: float) -> None:
        for one in requests:
            if isinstance(one, Key):
                if debounce_seconds:
                    self._queue.debounce(one, cause, seconds=debounce_seconds)
                else:
                    self._queue.add(one, cause)
            elif isinstance(one, EnqueueRequest):
                self._add(one, cause, debounce_seconds)
            elif isinstance(one, RefreshWatches):
                self.refresh_requested.set()
            else:
                raise InvalidResult(
                    f"returned {shown(one)} in its list; "
                    "return a list of Key, EnqueueRequest or RefreshWatches()"
                )

    def _add(self, request: EnqueueRequest, cause: Cause, debounce_seconds: float) -> None:
        key, priority = request.key, request.priority
        after = request.after.total_seconds()
        if debounce_seconds and not after:
            self._queue.debounce(key, cause, seconds=debounce_seconds, priority=priority)
        else:
            self._queue.add(key, cause, after=after, priority=priority)


#: Not written as `list | tuple` in the call, which would make a type each time.
_LISTS = (list, tuple)


def _listed(result: Iterable[Enqueue]) -> Sequence[Enqueue]:
    """Return what a function has returned as a list; raise `InvalidResult` if it is none."""
    # First: nearly every function returns one of these, and this is called for each change and
    # watch.
    if isinstance(result, _LISTS):
        return result
    if isinstance(result, str) or not isinstance(result, Iterable):
        raise InvalidResult(f"returned {shown(result)}; return a list of keys")
    return list(result)


def shown(result: object) -> str:
    """Return an invalid result in words, of bounded length."""
    if isinstance(result, str | Key):
        return f"the {type(result).__name__} {str(result)[:MAX_SHOWN]!r}"
    return "None" if result is None else f"a {type(result).__name__}"


def declaration_of(watch: AnyWatch) -> tuple[object, ...]:
    """
    Return everything that a watch declares, for comparison with a later result of the hook.

    Functions are left out, because each call of the hook may create new ones; of the indexes the
    names are compared.
    """
    return (
        name_of(watch),
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
        stores: Stores,
    ) -> None:
        self._controller = controller
        self._informers = informers
        self._dispatcher = dispatcher
        self._stores = stores
        self._handlers: dict[str, WatchEventHandler] = {}
        self._replaced: list[WatchEventHandler] = []
        self._handler_synced = asyncio.Event()

    @property
    def names(self) -> frozenset[str]:
        """The names of these watches."""
        return frozenset(self._handlers)

    def active(self) -> list[ActiveWatch]:
        """Return each of these watches with its store."""
        return [
            ActiveWatch(handler.watch, self._stores[name].store, handler.is_synced)
            for name, handler in self._handlers.items()
        ]

    async def wait_for_cache_sync(self) -> None:
        """Return when the initial objects of all these watches have gone through `keys`."""
        while not all(handler.is_synced for handler in self._handlers.values()):
            self._handler_synced.clear()
            await self._handler_synced.wait()

    def add(self, watch: AnyWatch) -> None:
        """Add a watch; its handler gets no notification before `start`."""
        name = name_of(watch)
        handler = WatchEventHandler(watch, self._dispatcher, self._handler_synced.set)
        store = self._informers.add_event_handler(self._controller, watch, handler)
        self._handlers[name] = handler
        self._stores.add(name, watch.model, store, index_owner=self._owner(name))
        for index in watch.indexes:
            self._add_index(watch, index)

    def is_unchanged(self, watch: AnyWatch) -> bool:
        """Return whether the active watch of this name has the same declaration."""
        return declaration_of(self._handlers[name_of(watch)].watch) == declaration_of(watch)

    def use_functions(self, watch: AnyWatch) -> None:
        """Make the active watch of this name, declared in the same way, call these functions."""
        handler = self._handlers[name_of(watch)]
        before, handler.watch = handler.watch, watch
        for index, function in watch.indexes.items():
            if before.indexes[index] != function:
                self._add_index(watch, index)

    def replace(self, watch: AnyWatch) -> None:
        """
        Replace the active watch of this name; the view reads its new store from now on.

        The store is filled after `start`; call `remove_replaced` then.
        """
        name = name_of(watch)
        self._replaced.append(self._handlers[name])
        # The old store may go on for other controllers, and would update these indexes for nobody.
        self._stores[name].store.remove_indexes(self._owner(name))
        self.add(watch)

    async def remove_replaced(self) -> None:
        """Remove the handlers of replaced watches."""
        while self._replaced:
            await self._informers.remove_event_handler(self._replaced.pop())

    def start(self) -> None:
        """Start the informers of added watches."""
        self._informers.start()

    async def remove(self, name: str) -> None:
        """Remove one watch with its handler, its store and its indexes."""
        handler = self._handlers.pop(name)
        self._stores[name].store.remove_indexes(self._owner(name))
        self._stores.remove(name)
        await self._informers.remove_event_handler(handler)

    async def remove_all(self) -> None:
        """Remove all watches."""
        await self.remove_replaced()
        for name in self.names:
            await self.remove(name)

    def problems(self) -> list[str]:
        """Return what is wrong with the kinds of these watches, and why informers fail."""
        # Without the errors of their informers, which say 404 where this says which word is wrong
        # (F-67).
        wrong = {
            handler: text
            for handler in self._handlers.values()
            if (text := self._informers.correction(handler.watch.kind))
        }
        others = [handler for handler in self._handlers.values() if handler not in wrong]
        return [*dict.fromkeys(wrong.values()), *self._informers.errors(others)]

    def _owner(self, name: str) -> str:
        return f"{self._controller}/{name}"

    def _add_index(self, watch: AnyWatch, index: str) -> None:
        name = name_of(watch)
        source = f"index '{index}' of watch '{name}'"

        def fail(key: Key, error: BaseException) -> None:
            self._dispatcher.fail(error, source=source, about=key)

        store = self._stores[name].store
        store.add_index(self._owner(name), index, watch.indexes[index], on_error=fail)


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
        self._source = f"'keys' of watch '{name_of(watch)}'"

    def on_change(self, change: Change[Any]) -> None:
        """See `EventHandler.changed`."""
        # The store may notify of such a change for another watch that has asked for it.
        if change.unchanged and not self.watch.notify_unchanged:
            return
        self._dispatcher.call(
            self.watch.keys,
            change,
            cause=_cause,
            source=self._source,
            about=change.key,
            # Initial objects need no rest: no sync starts before all of them are known.
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
                source=f"'on_synced' of watch '{name_of(self.watch)}'",
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
