"""Read access to the stores of one controller, limited to what its watches declare."""

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

import msgspec

from kcm_host.api.errors import UndeclaredRead, Undecodable
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.objects import raw_object
from kcm_host.api.watch import Objects
from kcm_host.client.errors import DECODE_ERRORS
from kcm_host.informer.store import Store

M = TypeVar("M", bound=msgspec.Struct)


class WatchedStore(NamedTuple):
    """The store of one watch, as views find it."""

    store: Store[Any]
    model: type[Any]
    #: The owner of the indexes of the watch: several watches may share one store.
    index_owner: str

    def __str__(self) -> str:
        return f"'{self.store.kind}' as {self.model.__name__}"


class Stores:
    """The stores of one controller's watches, by the names of the watches."""

    def __init__(self) -> None:
        self._by_name: dict[str, WatchedStore] = {}
        #: Kind, model and name -> store. The name is empty where only one watch has these.
        self._found: dict[tuple[Kind, type[Any], str], WatchedStore] = {}
        # `View.of` is called in every sync.
        self.find = self._found.get
        #: Kind -> its stores, each once: they are asked for at each write, also among 50 watches.
        self._of_kind: dict[Kind, list[Store[Any]]] = {}

    def add(self, name: str, model: type[Any], store: Store[Any], *, index_owner: str) -> None:
        """Add the store of a watch, in place of an earlier one of this name."""
        self._by_name[name] = WatchedStore(store, model, index_owner)
        self._update_found()

    def remove(self, name: str) -> None:
        """Remove the store of a watch."""
        del self._by_name[name]
        self._update_found()

    def of_kind(self, kind: Kind) -> list[Store[Any]]:
        """Return the stores that hold objects of a kind, each once."""
        return self._of_kind.get(kind, [])

    def __getitem__(self, name: str) -> WatchedStore:
        return self._by_name[name]

    def why_not_found(self, kind: Kind, model: type[Any], name: str) -> str:
        """Return why no single watch is found, with the remedy."""
        wanted = f"'{kind}' as {model.__name__}"
        names = [
            each
            for each, found in self._by_name.items()
            if found.store.kind == kind and found.model is model
        ]
        if name in self._by_name:
            follows = self._by_name[name]
            return f"{wanted} of watch '{name}', which follows {follows}; give the name of another"
        if names and not name:
            listed = " and ".join(f"'{each}'" for each in names)
            return f"{wanted}, which the watches {listed} follow; name one of them in View.of"
        if name:
            listed = ", ".join(f"'{each}'" for each in self._by_name) or "none"
            return f"{wanted} of watch '{name}', which it does not have; its watches: {listed}"
        return (
            f"{wanted}, which none of its watches declare; "
            "add a Watch with that kind and model to kcm_watches"
        )

    def _update_found(self) -> None:
        self._found.clear()
        self._of_kind.clear()
        ambiguous = set()
        for name, watched in self._by_name.items():
            kind_and_model = watched.store.kind, watched.model
            stores = self._of_kind.setdefault(watched.store.kind, [])
            if watched.store not in stores:
                stores.append(watched.store)
            # An ambiguous read would depend on the order of the watches, so it has to name one.
            if (*kind_and_model, "") in self._found:
                ambiguous.add(kind_and_model)
            self._found[*kind_and_model, ""] = self._found[*kind_and_model, name] = watched
        for kind, model in ambiguous:
            del self._found[kind, model, ""]


class CacheView:
    """A `View` that counts its reads."""

    def __init__(self, controller: str, stores: Stores) -> None:
        self.controller = controller
        self._stores = stores
        self.reads = 0

    def record_read(self, store: Store[Any], key: Key) -> None:
        """Record that one object was read; overridden where that is needed."""

    def of(self, kind: Kind, model: type[M], name: str = "") -> Objects[M]:
        """See `View.of`."""
        watched = self._stores.find((kind, model, name))
        if watched is None:
            why = self._stores.why_not_found(kind, model, name)
            raise UndeclaredRead(f"{self.controller} asked for {why}")
        objects: Any = StoredObjects(watched, self)
        return objects  # type: ignore[no-any-return] # `cast` would double the cost


class SyncView(CacheView):
    """
    The view of one sync, which records the uids of the objects that it reads one by one.

    An iteration over all objects is not recorded: that would cost more than the iteration.
    """

    def __init__(self, controller: str, stores: Stores) -> None:
        super().__init__(controller, stores)
        self._uids: dict[tuple[Kind, Key], str] = {}

    def record_read(self, store: Store[Any], key: Key) -> None:
        """Record the uid of the object."""
        entry = store.entry(key)
        if entry is not None:
            self._uids[store.kind, key] = entry.uid

    def uid_read(self, kind: Kind, key: Key) -> str:
        """Return the uid of an object as it was read, else as a store has it; or empty."""
        recorded = self._uids.get((kind, key))
        if recorded is not None:
            return recorded
        entries = (store.entry(key) for store in self._stores.of_kind(kind))
        return next((entry.uid for entry in entries if entry is not None), "")


class StoredObjects:
    """The objects of one watch, as a sync reads them."""

    __slots__ = ("_index_owner", "_store", "_view")

    def __init__(self, watched: WatchedStore, view: CacheView) -> None:
        self._store, _, self._index_owner = watched
        self._view = view

    def get(self, name: str, namespace: str = "") -> Any | None:
        """See `Objects.get`."""
        self._view.reads += 1
        key = Key(name, namespace)
        self._view.record_read(self._store, key)
        return self._store.get(key)

    def items(self) -> Iterator[tuple[Key, Any]]:
        """See `Objects.items`."""
        self._view.reads += 1
        return self._store.items()

    def by_index(self, index: str, value: str) -> Iterator[tuple[Key, Any]]:
        """See `Objects.by_index`."""
        self._view.reads += 1
        if not self._store.has_index(self._index_owner, index):
            declared = ", ".join(sorted(self._store.index_names(self._index_owner))) or "none"
            raise UndeclaredRead(
                f"no index '{index}' on '{self._store.kind}' (declared: {declared}); "
                "add it to the watch's indexes"
            )
        return self._recorded(self._store.by_index(self._index_owner, index, value))

    def undecodable(self, namespace: str | None = None) -> frozenset[Key]:
        """See `Objects.undecodable`."""
        if namespace is None:
            return self._store.undecodable
        return self._store.undecodable_in(namespace)

    def full_object(self, name: str, namespace: str = "") -> dict[str, Any] | None:
        """See `Objects.full_object`."""
        self._view.reads += 1
        if not self._store.keep_full_objects:
            raise UndeclaredRead(
                f"'{self._store.kind}' is kept without its full objects; write full_object=True "
                f"in the watch that {self._view.controller} declares for it"
            )
        key = Key(name, namespace)
        self._view.record_read(self._store, key)
        entry = self._store.entry(key)
        if entry is None or not entry.full_object:
            return None
        try:
            return raw_object(entry.full_object)
        except DECODE_ERRORS as error:
            raise Undecodable(
                f"{self._store.kind} '{key}' holds fields that cannot be "
                f"decoded: {error}; correct the object"
            ) from error

    @property
    def problem(self) -> str:
        """See `Objects.problem`."""
        return self._store.reflector_error()

    def __len__(self) -> int:
        return len(self._store)

    def _recorded(self, found: Iterator[tuple[Key, Any]]) -> Iterator[tuple[Key, Any]]:
        for key, model in found:
            self._view.record_read(self._store, key)
            yield key, model
