"""The informers of all controllers, shared by those that list and watch the same objects."""

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import msgspec

from kcm_host.api.kinds import Key, Kind
from kcm_host.api.watch import AnyWatch
from kcm_host.client.rest import Client, user_agent_of
from kcm_host.informer.decoder import reads_metadata_only
from kcm_host.informer.list_watch import ListWatchOptions
from kcm_host.informer.reflector import Reflector
from kcm_host.informer.shared_informer import EventHandler, SharedInformer
from kcm_host.informer.store import Store
from kcm_host.observe.states import StreamState
from kcm_host.retries import keep_running

UNDECODABLE_SHOWN = 10


class Informer:
    """A shared informer with its reflector, and the controllers that have handlers there."""

    def __init__(self, options: ListWatchOptions) -> None:
        #: The options of the watches, and those sent to the server: perhaps for metadata only.
        self.watch_options = self.options = options
        self.shared_informer = SharedInformer(options.kind)
        self._controllers: dict[EventHandler, str] = {}
        #: Their names, each once; kept, because each scrape reads those of all informers.
        self._controller_names: tuple[str, ...] = ()
        self.reflector: Reflector | None = None
        self.task: asyncio.Task[None] | None = None

    def add_handler(self, handler: EventHandler, controller: str) -> None:
        """Record that `handler` belongs to `controller`."""
        self._controllers[handler] = controller
        self._update_names()

    def remove_handler(self, handler: EventHandler) -> None:
        """Forget a handler."""
        del self._controllers[handler]
        self._update_names()

    def state(self) -> StreamState:
        """Return the state at this moment."""
        options, reflector = self.options, self.reflector
        stores = [typed.store for typed in self.shared_informer.typed_informers]
        undecodable = stores[0].undecodable if len(stores) == 1 else _undecodable(stores)
        return StreamState(
            group=options.kind.group,
            version=options.kind.version,
            resource=options.kind.resource,
            namespace=options.namespace,
            label_selector=options.label_selector,
            field_selector=options.field_selector,
            metadata_only=options.metadata_only,
            phase=reflector.phase if reflector else "listing",
            synced=self.shared_informer.has_synced,
            # Stores of several models hold the same objects.
            objects=max(map(len, stores), default=0),
            resource_version=reflector.resource_version if reflector else "",
            lists=reflector.lists if reflector else 0,
            undecodable=_shown(undecodable) if undecodable else (),
            undecodable_count=len(undecodable),
            controllers=self._controller_names,
            error=self.error(),
        )

    def error(self) -> str:
        """Return why the reflector fails at present; empty while it works."""
        return self.reflector.error if self.reflector else ""

    def can_serve(self, watch: AnyWatch) -> bool:
        """Return whether it already stores all that `watch` reads of each object."""
        if not self.shared_informer.has_model(watch.model):
            return False
        store = self.shared_informer.typed_informer(watch.model).store
        # Full objects cannot be had later without a new list: the store has dropped what it did not
        # need.
        return store.keep_full_objects or not watch.full_object

    def is_metadata_only(self) -> bool:
        """Return whether no handler reads more than metadata."""
        shared = self.shared_informer
        if any(typed.store.keep_full_objects for typed in shared.typed_informers):
            return False
        return all(reads_metadata_only(model) for model in shared.models)

    def _update_names(self) -> None:
        self._controller_names = tuple(sorted(set(self._controllers.values())))


def _undecodable(stores: list[Store[Any]]) -> frozenset[Key]:
    return frozenset[Key]().union(*(store.undecodable for store in stores))


def _shown(undecodable: frozenset[Key]) -> tuple[str, ...]:
    # Not the first ones in order: to sort all keys would make each read expensive.
    return tuple(sorted(map(str, islice(undecodable, UNDECODABLE_SHOWN))))


class InformerFactory:
    """
    Creates one informer for all watches with the same options, and stops it with the last.

    Handlers that are added before `start` share an informer, whatever their models. A later one
    joins a running informer that already stores what it reads; otherwise it gets an informer of
    its own, so that other handlers are not notified of every object again.
    """

    def __init__(
        self,
        client: Client,
        clock: Callable[[], float],
        correction: Callable[[Kind], str] = lambda _kind: "",
    ) -> None:
        """Prepare; `correction` returns what is wrong with a kind, empty if nothing is."""
        self.correction = correction
        self._client = client
        self._clock = clock
        self._user_agent = user_agent_of("shared-informers")
        #: By the options of their watches: the same options may need several informers.
        self._informers: dict[ListWatchOptions, list[Informer]] = {}
        self._by_handler: dict[EventHandler, Informer] = {}

    def add_event_handler(
        self, controller: str, watch: AnyWatch, handler: EventHandler, *, optional: bool = False
    ) -> Store[Any]:
        """
        Add a handler and return the store of its watch; it gets nothing before `start`.

        `optional` is for what the host can do without: a failure is no problem of anything.
        """
        options = ListWatchOptions(
            kind=watch.kind,
            namespace=watch.namespace,
            label_selector=watch.label_selector,
            field_selector=watch.field_selector,
            optional=optional,
        )
        informers = self._informers.setdefault(options, [])
        # A running informer is not given a further model: it would have to list again, and all its
        # handlers would be told of every object.
        usable = (each for each in informers if each.task is None or each.can_serve(watch))
        informer = next(usable, None)
        if informer is None:
            informer = Informer(options)
            informers.append(informer)
        informer.add_handler(handler, controller)
        self._by_handler[handler] = informer
        store = informer.shared_informer.typed_informer(watch.model).store
        store.notify_unchanged = store.notify_unchanged or watch.notify_unchanged
        store.keep_full_objects = store.keep_full_objects or watch.full_object
        store.reflector_error = informer.error
        informer.shared_informer.add_event_handler(watch.model, handler)
        return store

    def start(self) -> None:
        """Start the informers that do not run yet, and the new handlers of the others."""
        for informer in self._all():
            if informer.task is None:
                self._start(informer)
            else:
                informer.shared_informer.start_new_handlers()

    async def remove_event_handler(self, handler: EventHandler) -> None:
        """Remove a handler; an informer without handlers stops."""
        informer = self._by_handler.pop(handler)
        informer.remove_handler(handler)
        if informer.shared_informer.remove_event_handler(handler):
            informers = self._informers[informer.watch_options]
            informers.remove(informer)
            if not informers:
                del self._informers[informer.watch_options]
            await _stop(informer)

    async def shutdown(self) -> None:
        """Stop all informers."""
        for informer in self._all():
            await _stop(informer)
        self._informers.clear()
        self._by_handler.clear()

    def states(self) -> tuple[StreamState, ...]:
        """Return the state of every informer, without optional ones that fail."""
        return tuple(
            informer.state()
            for informer in self._all()
            if not (informer.options.optional and informer.error())
        )

    def errors(self, handlers: Iterable[EventHandler]) -> list[str]:
        """Return the errors of the informers that have these handlers, each once."""
        informers = dict.fromkeys(self._by_handler[handler] for handler in handlers)
        return [error for informer in informers if (error := informer.error())]

    def retry(self) -> None:
        """End the delays of failed informers, which try again at once."""
        for informer in self._all():
            if informer.reflector is not None:
                informer.reflector.retry()

    def _all(self) -> list[Informer]:
        return [each for informers in self._informers.values() for each in informers]

    def _start(self, informer: Informer) -> None:
        metadata_only = informer.is_metadata_only()
        options = msgspec.structs.replace(informer.watch_options, metadata_only=metadata_only)
        informer.options = options
        informer.reflector = Reflector(
            options,
            self._client,
            informer.shared_informer,
            user_agent=self._user_agent,
            clock=self._clock,
            correction=self.correction,
        )
        name = f"watch {options}"
        informer.task = asyncio.create_task(keep_running(name, informer.reflector.run), name=name)


async def _stop(informer: Informer) -> None:
    if informer.task is not None:
        informer.task.cancel()
        # Not a plain await, which could not tell a cancellation of the task from one of its own.
        await asyncio.wait({informer.task})
