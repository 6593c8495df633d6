"""A shared informer: one list and watch, one store for each model, and their event handlers."""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, Protocol

import msgspec

from kcm_host.api.errors import PLUGIN_FAILURES
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.watch import Change
from kcm_host.informer import decoder
from kcm_host.informer.store import SLICE, Entry, Store

log = logging.getLogger(__name__)

#: A model's own code may raise an error of any length, for any number of objects.
MAX_ERROR_LENGTH = 400


class EventHandler(Protocol):
    """Receiver of the changes of one store. No method may raise."""

    def on_change(self, change: Change[Any]) -> None:
        """Handle one change, after all stores of the informer have changed."""

    def on_synced(self) -> None:
        """Handle the end of the initial objects."""


class HandlerRegistration:
    """
    One event handler of a store, which gets every change once and in order.

    Initial objects are passed on in slices, between which other tasks run; changes that occur
    meanwhile are queued. The first slice is passed on at once, so that the store holds exactly
    the initial objects when the handler gets the first of them.
    """

    def __init__(self, handler: EventHandler) -> None:
        self.handler = handler
        #: Whether the handler has begun to get the initial objects.
        self.has_started = False
        self._notifications: Iterator[None] | None = None
        self._queued: deque[Change[Any]] = deque()

    def start(self, initial: Iterable[Change[Any]]) -> None:
        """Notify of the initial objects, and then of their end."""
        self.has_started = True
        self._notifications = self._notify_all(initial)
        self._notify_slice()

    def notify(self, change: Change[Any]) -> None:
        """Notify of a change after all earlier ones; before `start` nothing is notified."""
        if self._notifications is not None:
            self._queued.append(change)
        elif self.has_started:
            self.handler.on_change(change)

    def cancel(self) -> None:
        """Drop the notifications that are left."""
        self._notifications = None

    def _notify_slice(self) -> None:
        if self._notifications is None:
            return
        # 100,000 notifications in one turn held the loop for a quarter of a second (F-47).
        count = sum(1 for _ in islice(self._notifications, SLICE))
        if count == SLICE:
            asyncio.get_running_loop().call_soon(self._notify_slice)
        else:
            self._notifications = None

    def _notify_all(self, initial: Iterable[Change[Any]]) -> Iterator[None]:
        for change in initial:
            self.handler.on_change(change)
            yield
        self.handler.on_synced()
        while self._queued:
            self.handler.on_change(self._queued.popleft())
            yield


class TypedInformer:
    """The store of one model of a shared informer, with its event handlers."""

    def __init__(self, kind: Kind, model: type[Any]) -> None:
        self.store: Store[Any] = Store(kind, model)
        self.registrations: list[HandlerRegistration] = []
        #: The list that has been started and is not complete.
        self.pending_list: dict[Key, Entry[Any]] = {}
        self._decoder = decoder.ModelDecoder(model)

    def decode_event_object(self, key: Key, meta: decoder.ObjectMeta, line: bytes) -> Entry[Any]:
        """
        Decode the object of one line of a watch.

        An undecodable one is marked, and logged once per version. Any exception of a model's own
        code makes the object undecodable for this model alone: the informer has other handlers.
        """
        full_object = b""
        try:
            if self.store.keep_full_objects:
                # A copy: the raw part refers to the whole line, which would stay in memory with it.
                full_object = bytes(decoder.raw_event_object(line))
            model = self._decoder.decode_event_object(line)
        except PLUGIN_FAILURES as error:
            return self._undecodable(key, meta, error)
        return Entry(model, meta.uid, meta.resource_version, full_object=full_object)

    def decode_item(self, key: Key, meta: decoder.ObjectMeta, item: msgspec.Raw) -> Entry[Any]:
        """Decode one item of a list, as `decode_event_object`."""
        try:
            full_object = bytes(item) if self.store.keep_full_objects else b""
            model = self._decoder.decode_object(item)
        except PLUGIN_FAILURES as error:
            return self._undecodable(key, meta, error)
        return Entry(model, meta.uid, meta.resource_version, full_object=full_object)

    def delete(self, key: Key, meta: decoder.ObjectMeta, line: bytes) -> Change[Any] | None:
        """Remove a deleted object; its last state is that of the line if it fits the model."""
        final = None
        # One that does not fit has not to be corrected by anybody.
        with suppress(*PLUGIN_FAILURES):
            final = self._decoder.decode_event_object(line)
        return self.store.delete(key, final=final, resource_version=meta.resource_version)

    def notify(self, change: Change[Any]) -> None:
        """Notify all event handlers of a change."""
        for registration in self.registrations:
            registration.notify(change)

    def _undecodable(self, key: Key, meta: decoder.ObjectMeta, error: BaseException) -> Entry[Any]:
        self._log_undecodable(key, meta.resource_version, error)
        return Entry(None, meta.uid, meta.resource_version, undecodable=True)

    def _log_undecodable(self, key: Key, resource_version: str, error: BaseException) -> None:
        # A relist shows the same object again; only another version of it is news.
        if self.store.is_undecodable(key, resource_version):
            return
        pairs = {
            "kind": str(self.store.kind),
            "key": str(key),
            "version": resource_version,
            "model": self._decoder.model.__name__,
            "error": str(error)[:MAX_ERROR_LENGTH],
            "remedy": "correct the object; if it is right, correct the model of the controller",
        }
        log.warning("undecodable object, last decoded state kept", extra={"kv": pairs})


class SharedInformer:
    """
    The sink of one reflector: decodes each object once per model and notifies every handler.

    First all stores change, then the event handlers are notified, in order (IQ-43).
    """

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.has_synced = False
        self._typed: dict[type[Any], TypedInformer] = {}

    def typed_informer(self, model: type[Any]) -> TypedInformer:
        """Return the informer for `model`; it is created for the first handler."""
        if model not in self._typed:
            self._typed[model] = TypedInformer(self.kind, model)
        return self._typed[model]

    def has_model(self, model: type[Any]) -> bool:
        """Return whether there is a store for `model`."""
        return model in self._typed

    @property
    def models(self) -> list[type[Any]]:
        """The models that have a store."""
        return list(self._typed)

    @property
    def typed_informers(self) -> list[TypedInformer]:
        """The informers of all models."""
        return list(self._typed.values())

    def add_event_handler(self, model: type[Any], handler: EventHandler) -> None:
        """Add a handler; a late one gets nothing before `start_new_handlers`."""
        self.typed_informer(model).registrations.append(HandlerRegistration(handler))

    def start_new_handlers(self) -> None:
        """
        Notify the handlers that were added since the last call of all stored objects (IQ-61).

        Apart from `add_event_handler`, because a controller must have added its handlers to all
        its informers before the first notification: its watch functions may read any of their
        stores. Before the first list is complete nothing is notified; `init_done` calls this.
        """
        if not self.has_synced:
            return
        for typed in self.typed_informers:
            for registration in typed.registrations:
                if not registration.has_started:
                    registration.start(typed.store.initial_changes())

    def remove_event_handler(self, handler: EventHandler) -> bool:
        """Remove a handler; return whether none is left."""
        for model, typed in list(self._typed.items()):
            for registration in typed.registrations:
                if registration.handler is handler:
                    registration.cancel()
            typed.registrations = [
                each for each in typed.registrations if each.handler is not handler
            ]
            if not typed.registrations:
                del self._typed[model]
        return not self._typed

    def init(self) -> None:
        """See `Sink.init`."""
        for typed in self._typed.values():
            typed.pending_list = {}

    def init_apply(self, event_type: str, line: bytes, partial: decoder.PartialObject) -> None:
        """See `Sink.init_apply`; an object deleted meanwhile is not in the list (IQ-11)."""
        meta = _meta(partial)
        key = decoder.key_of(meta)
        for typed in self._typed.values():
            if event_type == "DELETED":
                typed.pending_list.pop(key, None)
            else:
                typed.pending_list[key] = typed.decode_event_object(key, meta, line)

    def init_apply_item(self, item: msgspec.Raw) -> None:
        """See `Sink.init_apply_item`."""
        meta = _meta(decoder.decode_partial_object(item))
        key = decoder.key_of(meta)
        if not key.name:
            log.warning("list item without a name skipped", extra={"kv": {"kind": str(self.kind)}})
            return
        for typed in self._typed.values():
            typed.pending_list[key] = typed.decode_item(key, meta, item)

    def init_done(self) -> Iterator[None]:
        """
        See `Sink.init_done`.

        All stores change in one turn of the event loop, and handlers are notified of a relist in
        the same turn: no sync may run while the state of its controller is older than its stores.
        """
        staged = {}
        for typed in self.typed_informers:
            staged[typed] = yield from typed.store.stage(typed.pending_list)
        # First all stores, then all handlers: one may read the store of another model, and finds
        # the same list there.
        changes = [(typed, typed.store.commit(each)) for typed, each in staged.items()]
        self.init()
        self.has_synced = True
        for typed, changes_of_store in changes:
            for registration in typed.registrations:
                # Not in slices as initial objects are: a sync between two of them would read stores
                # that its controller's own state does not know.
                for change in changes_of_store:
                    registration.notify(change)
        self.start_new_handlers()
        for each in staged.values():
            yield from each.free_replaced()

    def apply(self, event_type: str, line: bytes, partial: decoder.PartialObject) -> None:
        """See `Sink.apply`."""
        meta = _meta(partial)
        key = decoder.key_of(meta)
        changes = []
        for typed in self._typed.values():
            if event_type == "DELETED":
                change = typed.delete(key, meta, line)
            else:
                change = typed.store.put(key, typed.decode_event_object(key, meta, line))
            if change is not None:
                changes.append((typed, change))
        for typed, change in changes:
            typed.notify(change)


def _meta(partial: decoder.PartialObject) -> decoder.ObjectMeta:
    return partial.metadata or decoder.ObjectMeta()
