"""The objects of one informer as instances of one model, with their indexes."""

import asyncio
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from kcm_host.api.errors import PLUGIN_FAILURES, Undecodable
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.watches import Change


class UndecodableKeys:
    """
    A set of keys that is asked for often, as a whole or for one namespace, and rarely changes.

    Each answer is kept until it changes, so that asking costs nothing however many keys there
    are.
    """

    def __init__(self) -> None:
        self._of: dict[str, set[Key]] = {}
        #: Namespace, None for all of them -> what was answered last.
        self._answers: dict[str | None, frozenset[Key]] = {}

    def add(self, key: Key) -> None:
        """Put a key in."""
        there = self._of.setdefault(key.namespace, set())
        if key not in there:
            there.add(key)
            self._forget(key.namespace)

    def discard(self, key: Key) -> None:
        """Take a key out, if it is in."""
        there = self._of.get(key.namespace)
        if there is None or key not in there:
            return
        there.remove(key)
        if not there:
            del self._of[key.namespace]
        self._forget(key.namespace)

    def of(self, namespace: str | None) -> frozenset[Key]:
        """Return the keys of a namespace, None: of all; the same set until it changes."""
        answer = self._answers.get(namespace)
        if answer is not None:
            return answer
        if namespace is None:
            answer = frozenset[Key]().union(*self._of.values())
        elif namespace in self._of:
            answer = frozenset(self._of[namespace])
        else:
            return frozenset()
        self._answers[namespace] = answer
        return answer

    def __contains__(self, key: Key) -> bool:
        return key in self._of.get(key.namespace, ())

    def _forget(self, namespace: str) -> None:
        self._answers.pop(None, None)
        self._answers.pop(namespace, None)


IndexFunction = Callable[[Key, Any], Iterable[str]]


class Index:
    """
    Keys by value, kept in step with each change of the store (IQ-57).

    The function is a plugin's: when it raises, `failed` hears of it, and the object is found
    under no value; store and neighbours go on.
    """

    def __init__(self, function: IndexFunction, failed: Callable[[BaseException], None]) -> None:
        self._function = function
        self._failed = failed
        self._keys: dict[str, set[Key]] = {}

    def empty(self) -> "Index":
        """Give an index by the same function that holds nothing yet."""
        return Index(self._function, self._failed)

    def move(self, key: Key, old: Any | None, new: Any | None) -> None:
        """Put `key` under the values of `new` and under no others."""
        before, after = self._values(key, old), self._values(key, new)
        for value in before - after:
            keys = self._keys.get(value, set())
            keys.discard(key)
            if not keys:
                self._keys.pop(value, None)
        for value in after - before:
            self._keys.setdefault(value, set()).add(key)

    def keys(self, value: str) -> Iterator[Key]:
        """Give the keys under `value`, safe against changes meanwhile."""
        return iter(tuple(self._keys.get(value, ())))

    def _values(self, key: Key, model: Any | None) -> set[str]:
        if model is None:
            return set()
        try:
            return set(self._function(key, model))
        except PLUGIN_FAILURES as error:
            self._failed(error)
            return set()


M = TypeVar("M", bound=msgspec.Struct)

#: So many objects are handled before the event loop is heard again.
SLICE = 250


class Entry(msgspec.Struct, Generic[M], frozen=True, gc=False):
    """
    One stored object. `model` is the last version that could be decoded, None if none could.

    `good` is False when the version the server has now does not fit the model. `whole` is the
    object that `model` was read from, where somebody wants it.
    """

    model: M | None
    uid: str
    version: str
    good: bool = True
    whole: bytes = b""


class Staged(Generic[M]):
    """A complete list beside the objects that readers see until it is put in their place."""

    def __init__(self, entries: dict[Key, Entry[M]]) -> None:
        self.entries = entries
        self.bad = UndecodableKeys()
        #: What differs from the objects of before.
        self.changes: list[Change[M]] = []
        #: Indexes of the store -> the same over the staged objects.
        self.indexes: dict[Index, Index] = {}
        #: What it took the place of.
        self.before: dict[Key, Entry[M]] = {}

    def free_before(self) -> Iterator[None]:
        """Free what it took the place of, which takes long enough for slices."""
        while self.before:
            for _ in range(min(SLICE, len(self.before))):
                self.before.popitem()
            yield


class Store(Generic[M]):
    """
    What is known of one kind, and what changed for readers when more is told.

    An object that does not fit the model is kept with its last good state, or as a bare key; it
    is never taken for a delete. Readers always see a complete set: a relist is prepared in
    slices and put in place in one step.
    """

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        #: Whether updates without a changed field are changes too; set by followers.
        self.every_event = False
        #: Whether objects are kept whole beside their model; set by followers.
        self.keep_whole = False
        #: Tells why its stream cannot be followed at present, empty if it can; set by the stream.
        self.problem: Callable[[], str] = str
        #: Whether a complete list was ever put in place.
        self._complete = False
        self._entries: dict[Key, Entry[M]] = {}
        self._bad = UndecodableKeys()
        self._awaited: dict[Key, list[asyncio.Future[None]]] = {}
        self._indexes: dict[tuple[str, str], Index] = {}

    def add_index(
        self,
        owner: str,
        name: str,
        function: IndexFunction,
        failed: Callable[[BaseException], None],
    ) -> None:
        """Keep one more index for `owner`; objects already stored are indexed at once (IQ-57)."""
        self._indexes[owner, name] = self._filled(Index(function, failed))

    def drop_indexes(self, owner: str) -> None:
        """Forget the indexes of `owner`."""
        self._indexes = {key: index for key, index in self._indexes.items() if key[0] != owner}

    def put(self, key: Key, entry: Entry[M]) -> Change[M] | None:
        """
        Store one object and say what changed for readers.

        None when no declared field changed: an update nobody here reads must not wake anybody.
        An object that can be decoded again is a change, with the same fields too. The stored
        state decides between new and changed, not the event's type (IQ-45).
        """
        self._wake(key)
        before = self._entries.get(key)
        self._entries[key], change = self._judged(key, before, entry)
        (self._bad.discard if entry.good else self._bad.add)(key)
        if change is None or not self._is_told(change):
            return None
        self._reindex(key, change.old, change.new)
        return change

    def remove(self, key: Key, *, final: M | None = None, version: str = "") -> Change[M] | None:
        """Drop one object; the change carries its `final` state, or the last known (IQ-46, 51)."""
        self._wake(key)
        before = self._entries.pop(key, None)
        self._bad.discard(key)
        if before is None or before.model is None:
            return None
        self._reindex(key, before.model, None)
        return Change(self.kind, key, final or before.model, None, version or before.version)

    def stage(self, fresh: dict[Key, Entry[M]]) -> Generator[None, None, Staged[M]]:
        """
        Prepare a complete list to take the place of what is stored; yields after each slice.

        Nothing else may be put or removed until it is in place, and `fresh` is used up. Its
        changes are in order: objects that the list lacks come first, as deletes with their last
        known state, then what is new or different in list order; what is the same makes none
        (IQ-50). The first list has none: `as_changes` gives all of it.
        """
        staged = Staged(fresh)
        for count, (key, before) in enumerate(self._entries.items(), 1):
            if key not in fresh and before.model is not None:
                gone = Change(self.kind, key, before.model, None, before.version, relisted=True)
                staged.changes.append(gone)
            if count % SLICE == 0:
                yield
        for count, (key, entry) in enumerate(fresh.items(), 1):
            fresh[key], change = self._judged(key, self._entries.get(key), entry)
            if not entry.good:
                staged.bad.add(key)
            if change is not None and self._complete and self._is_told(change):
                staged.changes.append(replace(change, relisted=True))
            if count % SLICE == 0:
                yield
        yield from self._stage_indexes(staged)
        return staged

    def commit(self, staged: Staged[M]) -> list[Change[M]]:
        """Take a staged list as the truth, in one step, and give the differences."""
        for key in list(self._awaited):
            if key in self._entries or key in staged.entries:
                self._wake(key)
        staged.before, self._entries = self._entries, staged.entries
        self._bad, self._complete = staged.bad, True
        for name, index in self._indexes.items():
            # One whose owner came since is filled now: nobody else waits for that often.
            self._indexes[name] = staged.indexes.get(index) or self._filled(index.empty())
        return staged.changes

    def get(self, key: Key) -> M | None:
        """Give the object, None if there is none; raise `Undecodable` for a bare key."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.model is None:
            raise Undecodable(
                f"{self.kind} '{key}' exists, but does not fit the fields that the controller "
                "reads; correct the object, the log names the field"
            )
        return entry.model

    def entry(self, key: Key) -> Entry[M] | None:
        """Give what is stored of an object, None if there is none."""
        return self._entries.get(key)

    def items(self) -> Iterator[tuple[Key, M]]:
        """Give every object that was decoded at least once, with its key."""
        for key, entry in list(self._entries.items()):
            if entry.model is not None:
                yield key, entry.model

    def by_index(self, owner: str, index: str, value: str) -> Iterator[tuple[Key, M]]:
        """Give the objects that `owner`'s index holds under `value`."""
        for key in self._indexes[owner, index].keys(value):
            entry = self._entries.get(key)
            if entry is not None and entry.model is not None:
                yield key, entry.model

    def keys(self) -> tuple[Key, ...]:
        """Give the key of every object, those that were never decoded included."""
        return tuple(self._entries)

    def version_of(self, key: Key) -> str | None:
        """Give the stored resourceVersion of an object, None if there is none."""
        entry = self._entries.get(key)
        return entry.version if entry is not None else None

    async def next_change(self, key: Key) -> None:
        """Return when anything is told of this object next, changed fields or not."""
        future = asyncio.get_running_loop().create_future()
        waiting = self._awaited.setdefault(key, [])
        waiting.append(future)
        try:
            await future
        finally:
            # Still there when the caller gave up; a change has taken the whole list away.
            waiting.remove(future)
            if not waiting and self._awaited.get(key) is waiting:
                del self._awaited[key]

    def is_known_undecodable(self, key: Key, version: str) -> bool:
        """Whether this very version is already stored as undecodable."""
        return key in self._bad and self._entries[key].version == version

    def as_changes(self) -> Iterator[Change[M]]:
        """Give every object of this moment as if it were new, for a reader that comes (IQ-61)."""
        present = self._entries.copy()
        return (
            Change(self.kind, key, None, entry.model, entry.version, initial=True)
            for key, entry in present.items()
            if entry.model is not None
        )

    @property
    def undecodable(self) -> frozenset[Key]:
        """The keys whose current version does not fit the model."""
        return self._bad.of(None)

    def undecodable_in(self, namespace: str) -> frozenset[Key]:
        """Give those of one namespace; what it costs does not depend on the others."""
        return self._bad.of(namespace)

    def index_names(self, owner: str) -> frozenset[str]:
        """The names of the indexes kept for `owner`."""
        return frozenset(name for whose, name in self._indexes if whose == owner)

    def __len__(self) -> int:
        return len(self._entries)

    def _stage_indexes(self, staged: Staged[M]) -> Iterator[None]:
        for index in list(self._indexes.values()):
            staged.indexes[index] = fellow = index.empty()
            for count, (key, entry) in enumerate(staged.entries.items(), 1):
                fellow.move(key, None, entry.model)
                if count % SLICE == 0:
                    yield

    def _judged(
        self, key: Key, before: Entry[M] | None, entry: Entry[M]
    ) -> tuple[Entry[M], Change[M] | None]:
        """Say what is to be stored of an object that was `before`, and what changes by it."""
        old = before.model if before is not None else None
        namesake = before is not None and before.uid != entry.uid
        if not entry.good:
            # The last good state is kept; a namesake's is not its own, that one is really gone.
            kept = Entry(None if namesake else old, entry.uid, entry.version, good=False)
            gone = before if namesake and old is not None else None
            version = gone.version if gone is not None else ""
            return kept, Change(self.kind, key, old, None, version) if gone is not None else None
        same = before is not None and not namesake and _are_equal(old, entry.model)
        if before is not None and same:
            if not before.good:
                # While the object could not be read, keys of it may have been passed over.
                same = False
            elif before.version == entry.version:
                return entry, None
        return entry, Change(self.kind, key, old, entry.model, entry.version, same=same)

    def _is_told(self, change: Change[M]) -> bool:
        return self.every_event or not change.same

    def _filled(self, index: Index) -> Index:
        for key, model in self.items():
            index.move(key, None, model)
        return index

    def _wake(self, key: Key) -> None:
        if not self._awaited:
            return
        for future in self._awaited.pop(key, ()):
            if not future.done():
                future.set_result(None)

    def _reindex(self, key: Key, old: M | None, new: M | None) -> None:
        for index in self._indexes.values():
            index.move(key, old, new)


def _are_equal(old: Any, new: Any) -> bool:
    """Whether no declared field differs; what cannot be compared, as it is too deep, may differ."""
    try:
        return bool(old == new)
    except PLUGIN_FAILURES:
        return False
