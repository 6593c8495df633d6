"""From the objects of one stream to its stores, and on to those who follow them."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from kcm_host.api.errors import PLUGIN_FAILURES
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.watches import Change
from kcm_host.store.audience import Audience, Follower
from kcm_host.store.store import Entry, Store
from kcm_host.wire import decode

log = logging.getLogger(__name__)

Decode = Callable[[Any], Any]


class Shelf:
    """One model's store within a stream, with those who follow it."""

    def __init__(self, kind: Kind, model: type[Any]) -> None:
        self.store: Store[Any] = Store(kind)
        self.decoder = decode.ModelDecoder(model)
        self.audiences: list[Audience] = []
        self.fresh: dict[Key, Entry[Any]] = {}

    def framed(self, key: Key, meta: decode.HeadMeta, line: bytes) -> Entry[Any]:
        """Decode the object of one line of a watch."""
        return self._entry(key, meta, self.decoder.framed, line, decode.object_of)

    def bare(self, key: Key, meta: decode.HeadMeta, item: msgspec.Raw) -> Entry[Any]:
        """Decode one item of a list."""
        return self._entry(key, meta, self.decoder.bare, item, bytes)

    def _entry(
        self, key: Key, meta: decode.HeadMeta, read: Decode, source: Any, cut_out: Decode
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
        if self.store.is_known_bad(key, version):
            return
        pairs = {
            "kind": str(self.store.kind),
            "key": str(key),
            "version": version,
            "model": self.decoder.model.__name__,
            "error": str(error),
        }
        log.warning("object does not fit the model, last good state kept", extra={"kv": pairs})


class Feed:
    """
    The sink of one stream: decodes each object once per model and tells every follower.

    Stores change first, all of them, then followers hear of it, in order (IQ-43).
    """

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.synced = False
        self._shelves: dict[type[Any], Shelf] = {}

    def shelf(self, model: type[Any]) -> Shelf:
        """Give the shelf for `model`, a new one if it is the first follower's."""
        if model not in self._shelves:
            self._shelves[model] = Shelf(self.kind, model)
        return self._shelves[model]

    def holds(self, model: type[Any]) -> bool:
        """Whether there is a store for `model`."""
        return model in self._shelves

    @property
    def models(self) -> list[type[Any]]:
        """The models with a store."""
        return list(self._shelves)

    @property
    def shelves(self) -> list[Shelf]:
        """All shelves."""
        return list(self._shelves.values())

    def follow(self, model: type[Any], follower: Follower) -> None:
        """Add a follower; one that comes late hears nothing until it is welcomed."""
        self.shelf(model).audiences.append(Audience(follower))

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

    def leave(self, follower: Follower) -> bool:
        """Remove a follower; True when nobody is left."""
        for model, shelf in list(self._shelves.items()):
            for audience in shelf.audiences:
                if audience.follower is follower:
                    audience.leave()
            shelf.audiences = [one for one in shelf.audiences if one.follower is not follower]
            if not shelf.audiences:
                del self._shelves[model]
        return not self._shelves

    def list_begins(self) -> None:
        """See `Sink.list_begins`."""
        for shelf in self._shelves.values():
            shelf.fresh = {}

    def gather(self, event_type: str, line: bytes, head: decode.Head) -> None:
        """See `Sink.gather`; an object that goes while the list runs is not in it (IQ-11)."""
        meta = _meta(head)
        key = decode.key_of(meta)
        for shelf in self._shelves.values():
            if event_type == "DELETED":
                shelf.fresh.pop(key, None)
            else:
                shelf.fresh[key] = shelf.framed(key, meta, line)

    def gather_bare(self, item: msgspec.Raw) -> None:
        """See `Sink.gather_bare`."""
        meta = _meta(decode.head(item))
        key = decode.key_of(meta)
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
        told = [(shelf, shelf.store.put_in_place(one)) for shelf, one in staged.items()]
        self.list_begins()
        self.synced = True
        for shelf, changes in told:
            for audience in shelf.audiences:
                for change in changes:
                    audience.tell(change)
        self.welcome()
        for one in staged.values():
            yield from one.free_before()

    def event(self, event_type: str, line: bytes, head: decode.Head) -> None:
        """See `Sink.event`."""
        meta = _meta(head)
        key = decode.key_of(meta)
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
        shelf: Shelf, event_type: str, key: Key, meta: decode.HeadMeta, line: bytes
    ) -> Change[Any] | None:
        if event_type == "DELETED":
            return shelf.store.remove(key, final=shelf.final(line), version=meta.resource_version)
        return shelf.store.put(key, shelf.framed(key, meta, line))


def _meta(head: decode.Head) -> decode.HeadMeta:
    return head.metadata or decode.HeadMeta()
