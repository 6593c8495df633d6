"""The objects of one informer as instances of one model, with their indexes."""

import asyncio
from collections.abc import Callable, Generator, Iterator
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from kcm_host.api.errors import PLUGIN_FAILURES, Undecodable
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.watch import Change
from kcm_host.informer.index import Index, IndexFunction, OnIndexError, UndecodableKeys

M = TypeVar("M", bound=msgspec.Struct)

#: Objects that are handled between two turns of the event loop.
#: 100,000 objects put in place in one turn held the loop for 124 ms (F-47).
SLICE = 250


class Entry(msgspec.Struct, Generic[M], frozen=True, gc=False):
    """
    One stored object. `model` is the last version that could be decoded, None if none could.

    `undecodable` says that the current version of the object does not fit the model.
    `full_object` is the JSON that `model` was decoded from, where a watch needs it.
    """

    model: M | None
    uid: str
    resource_version: str
    undecodable: bool = False
    full_object: bytes = b""


class StagedList(Generic[M]):
    """A complete list, prepared beside the stored objects that it will replace."""

    def __init__(self, entries: dict[Key, Entry[M]]) -> None:
        self.entries = entries
        self.undecodable = UndecodableKeys()
        #: The differences from the stored objects.
        self.changes: list[Change[M]] = []
        #: Index of the store -> the same index of the staged objects.
        self.indexes: dict[Index, Index] = {}
        #: The entries that this list has replaced.
        self.replaced: dict[Key, Entry[M]] = {}

    def free_replaced(self) -> Iterator[None]:
        """Free the replaced entries; yield after each slice, because it takes long."""
        while self.replaced:
            for _ in range(min(SLICE, len(self.replaced))):
                self.replaced.popitem()
            yield


class Store(Generic[M]):
    """
    The objects of one kind, and the changes that events and lists make to them.

    An undecodable object keeps its last decoded state, or is a bare key; it is never treated as
    deleted. Readers always see a complete set: a new list is staged in slices and committed in
    one step.
    """

    def __init__(self, kind: Kind, model: type[M] | None = None) -> None:
        """Make an empty store; `model` is named in errors."""
        self.kind = kind
        self._model_name = model.__name__ if model is not None else "its model"
        #: Whether an update without a changed field is a change too; set by a watch.
        self.notify_unchanged = False
        #: Whether the full object is kept beside its model; set by a watch.
        self.keep_full_objects = False
        #: Returns why the reflector fails at present; empty while it works.
        self.reflector_error: Callable[[], str] = str
        #: Whether a complete list was committed.
        self._has_synced = False
        self._entries: dict[Key, Entry[M]] = {}
        self._undecodable = UndecodableKeys()
        self._waiters: dict[Key, list[asyncio.Future[None]]] = {}
        self._indexes: dict[tuple[str, str], Index] = {}

    def add_index(
        self,
        owner: str,
        name: str,
        function: IndexFunction,
        on_error: OnIndexError,
    ) -> None:
        """Add an index for `owner`; stored objects are indexed at once (IQ-57)."""
        self._indexes[owner, name] = self._fill(Index(function, on_error))

    def remove_indexes(self, owner: str) -> None:
        """Remove the indexes of `owner`."""
        self._indexes = {key: index for key, index in self._indexes.items() if key[0] != owner}

    def put(self, key: Key, entry: Entry[M]) -> Change[M] | None:
        """
        Store one object; return the change to notify event handlers of.

        None when no declared field changed: an update that nobody reads must not enqueue a key.
        An object that can be decoded again is a change, with equal fields too. The stored state
        decides between added and updated, not the type of the event (IQ-45).
        """
        # Also where no field has changed: a sync waits for the version of its own write.
        self._wake_waiters(key)
        before = self._entries.get(key)
        self._entries[key], change = self._compare(key, before, entry)
        if entry.undecodable:
            self._undecodable.add(key)
        elif before is not None and before.undecodable:
            self._undecodable.discard(key)
        if change is not None and not change.unchanged:
            self._update_indexes(key, change.old, change.new)
        return change

    def delete(
        self, key: Key, *, final: M | None = None, resource_version: str = ""
    ) -> Change[M] | None:
        """
        Remove one object; return the change (IQ-46, IQ-51).

        The change holds the `final` state, or else the last stored one.
        """
        self._wake_waiters(key)
        before = self._entries.pop(key, None)
        self._undecodable.discard(key)
        if before is None or before.model is None:
            return None
        self._update_indexes(key, before.model, None)
        # The version of the deletion, which the event has, is newer than that of the stored object.
        version = resource_version or before.resource_version
        return Change(
            kind=self.kind, key=key, old=final or before.model, new=None, resource_version=version
        )

    def stage(self, entries: dict[Key, Entry[M]]) -> Generator[None, None, StagedList[M]]:
        """
        Prepare a complete list to replace the stored objects; yield after each slice.

        Nothing may be put or deleted until it is committed, and `entries` is consumed. Changes
        are in order: objects that the list lacks come first, as deletes with their last state,
        then added and updated objects in list order; equal objects make none (IQ-50). The first
        list makes no changes: see `initial_changes`.
        """
        staged = StagedList(entries)
        for count, (key, before) in enumerate(self._entries.items(), 1):
            if key not in entries and before.model is not None:
                version = before.resource_version
                gone = Change(
                    kind=self.kind,
                    key=key,
                    old=before.model,
                    new=None,
                    resource_version=version,
                    relisted=True,
                )
                staged.changes.append(gone)
            if count % SLICE == 0:
                yield
        for count, (key, entry) in enumerate(entries.items(), 1):
            if entry.undecodable:
                staged.undecodable.add(key)
            stored = self._entries.get(key)
            # The objects of a first list are stored as they are.
            if stored is not None or self._has_synced:
                entries[key], change = self._compare(key, stored, entry)
                if change is not None and self._has_synced:
                    staged.changes.append(replace(change, relisted=True))
            if count % SLICE == 0:
                yield
        yield from self._stage_indexes(staged)
        return staged

    def commit(self, staged: StagedList[M]) -> list[Change[M]]:
        """Replace the stored objects by a staged list, in one step; return the changes."""
        for key in list(self._waiters):
            if key in self._entries or key in staged.entries:
                self._wake_waiters(key)
        staged.replaced, self._entries = self._entries, staged.entries
        self._undecodable, self._has_synced = staged.undecodable, True
        for name, index in self._indexes.items():
            # An index that was added after the staging is filled now; that is rare.
            self._indexes[name] = staged.indexes.get(index) or self._fill(index.empty_copy())
        return staged.changes

    def get(self, key: Key) -> M | None:
        """Return an object, None if there is none; raise `Undecodable` for a bare key."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.model is None:
            raise Undecodable(
                f"{self.kind} '{key}' exists, but cannot be decoded as {self._model_name}, and the "
                "log names the field; correct the object, or the model if the object is right"
            )
        return entry.model

    def entry(self, key: Key) -> Entry[M] | None:
        """Return the entry of an object, None if there is none."""
        return self._entries.get(key)

    def items(self) -> Iterator[tuple[Key, M]]:
        """Yield every object of which a version could be decoded, with its key."""
        # A copy, because the loop of a plugin may wait in between.
        for key, entry in list(self._entries.items()):
            if entry.model is not None:
                yield key, entry.model

    def by_index(self, owner: str, index: str, value: str) -> Iterator[tuple[Key, M]]:
        """Yield the objects under `value` in an index of `owner`."""
        for key in self._indexes[owner, index].keys(value):
            entry = self._entries.get(key)
            if entry is not None and entry.model is not None:
                yield key, entry.model

    def keys(self) -> tuple[Key, ...]:
        """Return the key of every object, including those that were never decoded."""
        return tuple(self._entries)

    def resource_version_of(self, key: Key) -> str | None:
        """Return the stored resourceVersion of an object, None if there is none."""
        entry = self._entries.get(key)
        return entry.resource_version if entry is not None else None

    async def wait_for_change(self, key: Key) -> None:
        """Return at the next event or list with this object, whether or not fields changed."""
        future = asyncio.get_running_loop().create_future()
        waiting = self._waiters.setdefault(key, [])
        waiting.append(future)
        try:
            await future
        finally:
            # Still there when the caller was cancelled; a change removes the whole list.
            waiting.remove(future)
            if not waiting and self._waiters.get(key) is waiting:
                del self._waiters[key]

    def is_undecodable(self, key: Key, resource_version: str) -> bool:
        """Return whether this version of an object is already stored as undecodable."""
        return key in self._undecodable and self._entries[key].resource_version == resource_version

    def initial_changes(self) -> Iterator[Change[M]]:
        """Return the objects of this moment as added objects, for a new handler (IQ-61)."""
        # The handler gets these in slices; what changes meanwhile is queued behind them.
        present = self._entries.copy()
        return (
            Change(
                kind=self.kind,
                key=key,
                old=None,
                new=entry.model,
                resource_version=entry.resource_version,
                initial=True,
            )
            for key, entry in present.items()
            if entry.model is not None
        )

    @property
    def undecodable(self) -> frozenset[Key]:
        """The keys of objects whose current version does not fit the model."""
        return self._undecodable.in_namespace(None)

    def undecodable_in(self, namespace: str) -> frozenset[Key]:
        """Return those of one namespace; the cost does not depend on other namespaces."""
        return self._undecodable.in_namespace(namespace)

    def has_index(self, owner: str, name: str) -> bool:
        """Return whether `owner` has an index of this name."""
        return (owner, name) in self._indexes

    def index_names(self, owner: str) -> frozenset[str]:
        """Return the names of the indexes of `owner`."""
        return frozenset(name for each, name in self._indexes if each == owner)

    def __len__(self) -> int:
        return len(self._entries)

    def _stage_indexes(self, staged: StagedList[M]) -> Iterator[None]:
        for index in list(self._indexes.values()):
            staged.indexes[index] = copy = index.empty_copy()
            for count, (key, entry) in enumerate(staged.entries.items(), 1):
                copy.update(key, None, entry.model)
                if count % SLICE == 0:
                    yield

    def _compare(
        self, key: Key, before: Entry[M] | None, entry: Entry[M]
    ) -> tuple[Entry[M], Change[M] | None]:
        """Return the entry to store in place of `before`, and the change to notify of, if any."""
        old = before.model if before is not None else None
        recreated = before is not None and before.uid != entry.uid
        if entry.undecodable:
            # The last decoded state is kept, unless it is that of a deleted object of this name.
            model = None if recreated else old
            kept = Entry(model, entry.uid, entry.resource_version, undecodable=True)
            gone = before if recreated and old is not None else None
            if gone is None:
                return kept, None
            return kept, Change(
                kind=self.kind, key=key, old=old, new=None, resource_version=gone.resource_version
            )
        same = before is not None and not recreated and _are_equal(old, entry.model)
        if before is not None and same:
            if before.undecodable:
                # While the object was undecodable, handlers may have skipped keys of it.
                same = False
            elif not self.notify_unchanged or before.resource_version == entry.resource_version:
                return entry, None
        return entry, Change(
            kind=self.kind,
            key=key,
            old=old,
            new=entry.model,
            resource_version=entry.resource_version,
            unchanged=same,
        )

    def _fill(self, index: Index) -> Index:
        for key, model in self.items():
            index.update(key, None, model)
        return index

    def _wake_waiters(self, key: Key) -> None:
        # Most of the time nobody waits, and this is called for every event.
        if not self._waiters:
            return
        for future in self._waiters.pop(key, ()):
            if not future.done():
                future.set_result(None)

    def _update_indexes(self, key: Key, old: M | None, new: M | None) -> None:
        for index in self._indexes.values():
            index.update(key, old, new)


def _are_equal(old: Any, new: Any) -> bool:
    """Return whether all declared fields are equal; False when they are too deep to compare."""
    try:
        # Models may be nested deeper than the comparison can recurse: too deep is taken for
        # changed.
        return bool(old == new)
    except PLUGIN_FAILURES:
        return False
