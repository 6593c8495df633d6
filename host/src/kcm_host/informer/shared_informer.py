"""A shared informer: one list and watch, one store for each model, and their event handlers."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Protocol

import msgspec

from kcm_host.api.errors import PLUGIN_FAILURES
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.watches import Change
from kcm_host.informer import decoder
from kcm_host.informer.store import SLICE, Entry, Store

log = logging.getLogger(__name__)


class EventHandler(Protocol):
    """Who hears of the changes of one store. Neither method may raise."""

    def changed(self, change: Change[Any]) -> None:
        """Take one change, after all stores of the stream have changed."""

    def synced(self) -> None:
        """Take note that all initial objects have been told."""


class HandlerRegistration:
    """
    One follower, told everything once and in order.

    The initial objects are told in slices with the event loop heard in between; changes that
    come meanwhile wait for their turn. The first slice is told at once, so that the store holds
    exactly the initial objects when the first of them is told.
    """

    def __init__(self, follower: EventHandler) -> None:
        self.follower = follower
        #: Whether the telling of the initial objects has begun.
        self.welcomed = False
        self._telling: Iterator[None] | None = None
        self._later: deque[Change[Any]] = deque()

    def welcome(self, initial: Iterable[Change[Any]]) -> None:
        """Tell the initial objects and that these were all."""
        self.welcomed = True
        self._telling = self._all(initial)
        self._go_on()

    def tell(self, change: Change[Any]) -> None:
        """Tell a change, after all that came before it; before the welcome it is in there."""
        if self._telling is not None:
            self._later.append(change)
        elif self.welcomed:
            self.follower.changed(change)

    def leave(self) -> None:
        """Tell nothing more."""
        self._telling = None

    def _go_on(self) -> None:
        if self._telling is None:
            return
        told = sum(1 for _ in islice(self._telling, SLICE))
        if told == SLICE:
            asyncio.get_running_loop().call_soon(self._go_on)
        else:
            self._telling = None

    def _all(self, initial: Iterable[Change[Any]]) -> Iterator[None]:
        for change in initial:
            self.follower.changed(change)
            yield
        self.follower.synced()
        while self._later:
            self.follower.changed(self._later.popleft())
            yield


Decode = Callable[[Any], Any]


class TypedInformer:
    """One model's store within a stream, with those who follow it."""

    def __init__(self, kind: Kind, model: type[Any]) -> None:
        self.store: Store[Any] = Store(kind)
        self.decoder = decoder.ModelDecoder(model)
        self.audiences: list[HandlerRegistration] = []
        self.fresh: dict[Key, Entry[Any]] = {}

    def framed(self, key: Key, meta: decoder.ObjectMeta, line: bytes) -> Entry[Any]:
        """Decode the object of one line of a watch."""
        return self._entry(key, meta, self.decoder.framed, line, decoder.object_of)

    def bare(self, key: Key, meta: decoder.ObjectMeta, item: msgspec.Raw) -> Entry[Any]:
        """Decode one item of a list."""
        return self._entry(key, meta, self.decoder.bare, item, bytes)

    def _entry(
        self, key: Key, meta: decoder.ObjectMeta, read: Decode, source: Any, cut_out: Decode
    ) -> Entry[Any]:
        """
        Decode one object; one that misfits is told once per version and marked.

        Whatever a model's own code raises is a misfit too: the stream has other readers.
        """
        try:
            whole = bytes(cut_out(source)) if self.store.keep_whole else b""
            return Entry(read(source), meta.uid, meta.resource_version, whole=whole)
        except PLUGIN_FAILURES as error:
            self._tell(key, meta.resource_version, error)
            return Entry(None, meta.uid, meta.resource_version, good=False)

    def final(self, line: bytes) -> Any | None:
        """Decode an object that is gone; one that misfits is None, and nobody has to mend it."""
        try:
            return self.decoder.framed(line)
        except PLUGIN_FAILURES:
            return None

    def _tell(self, key: Key, version: str, error: BaseException) -> None:
        if self.store.is_known_undecodable(key, version):
            return
        pairs = {
            "kind": str(self.store.kind),
            "key": str(key),
            "version": version,
            "model": self.decoder.model.__name__,
            "error": str(error),
        }
        log.warning("object does not fit the model, last good state kept", extra={"kv": pairs})


class SharedInformer:
    """
    The sink of one stream: decodes each object once per model and tells every follower.

    Stores change first, all of them, then followers hear of it, in order (IQ-43).
    """

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.synced = False
        self._shelves: dict[type[Any], TypedInformer] = {}

    def shelf(self, model: type[Any]) -> TypedInformer:
        """Give the shelf for `model`, a new one if it is the first follower's."""
        if model not in self._shelves:
            self._shelves[model] = TypedInformer(self.kind, model)
        return self._shelves[model]

    def holds(self, model: type[Any]) -> bool:
        """Whether there is a store for `model`."""
        return model in self._shelves

    @property
    def models(self) -> list[type[Any]]:
        """The models with a store."""
        return list(self._shelves)

    @property
    def shelves(self) -> list[TypedInformer]:
        """All shelves."""
        return list(self._shelves.values())

    def follow(self, model: type[Any], follower: EventHandler) -> None:
        """Add a follower; one that comes late hears nothing until it is welcomed."""
        self.shelf(model).audiences.append(HandlerRegistration(follower))

    def welcome(self) -> None:
        """
        Tell those who came since the last time everything stored, as if it were new (IQ-61).

        Apart from `follow`, because a controller has to have joined all its streams before the
        first change is told: its watch functions may read any of their stores. Before the first
        list is in place there is nothing to tell yet: they are welcomed then.
        """
        if not self.synced:
            return
        for shelf in self.shelves:
            for audience in shelf.audiences:
                if not audience.welcomed:
                    audience.welcome(shelf.store.as_changes())

    def leave(self, follower: EventHandler) -> bool:
        """Remove a follower; True when nobody is left."""
        for model, shelf in list(self._shelves.items()):
            for audience in shelf.audiences:
                if audience.follower is follower:
                    audience.leave()
            shelf.audiences = [one for one in shelf.audiences if one.follower is not follower]
            if not shelf.audiences:
                del self._shelves[model]
        return not self._shelves

    def init(self) -> None:
        """See `Sink.init`."""
        for shelf in self._shelves.values():
            shelf.fresh = {}

    def init_apply(self, event_type: str, line: bytes, head: decoder.PartialObject) -> None:
        """See `Sink.init_apply`; an object that goes while the list runs is not in it (IQ-11)."""
        meta = _meta(head)
        key = decoder.key_of(meta)
        for shelf in self._shelves.values():
            if event_type == "DELETED":
                shelf.fresh.pop(key, None)
            else:
                shelf.fresh[key] = shelf.framed(key, meta, line)

    def init_apply_item(self, item: msgspec.Raw) -> None:
        """See `Sink.init_apply_item`."""
        meta = _meta(decoder.head(item))
        key = decoder.key_of(meta)
        if not key.name:
            log.warning("list item without a name skipped", extra={"kv": {"kind": str(self.kind)}})
            return
        for shelf in self._shelves.values():
            shelf.fresh[key] = shelf.bare(key, meta, item)

    def init_done(self) -> Iterator[None]:
        """
        See `Sink.init_done`.

        All stores change in one turn of the loop. What a relist changed is told in that turn too:
        a sync must never find the memory of its controller between two sets of objects.
        """
        staged = {}
        for shelf in self.shelves:
            staged[shelf] = yield from shelf.store.stage(shelf.fresh)
        told = [(shelf, shelf.store.commit(one)) for shelf, one in staged.items()]
        self.init()
        self.synced = True
        for shelf, changes in told:
            for audience in shelf.audiences:
                for change in changes:
                    audience.tell(change)
        self.welcome()
        for one in staged.values():
            yield from one.free_before()

    def event(self, event_type: str, line: bytes, head: decoder.PartialObject) -> None:
        """See `Sink.event`."""
        meta = _meta(head)
        key = decoder.key_of(meta)
        told = [
            (shelf, self._apply(shelf, event_type, key, meta, line))
            for shelf in self._shelves.values()
        ]
        for shelf, change in told:
            if change is not None:
                for audience in shelf.audiences:
                    audience.tell(change)

    @staticmethod
    def _apply(
        shelf: TypedInformer, event_type: str, key: Key, meta: decoder.ObjectMeta, line: bytes
    ) -> Change[Any] | None:
        if event_type == "DELETED":
            return shelf.store.remove(key, final=shelf.final(line), version=meta.resource_version)
        return shelf.store.put(key, shelf.framed(key, meta, line))


def _meta(head: decoder.PartialObject) -> decoder.ObjectMeta:
    return head.metadata or decoder.ObjectMeta()
