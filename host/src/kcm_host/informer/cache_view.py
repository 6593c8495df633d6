"""Read access to the stores of one controller, limited to what its watches declare."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, cast

import msgspec

from kcm_host.api.errors import UndeclaredRead, Undecodable
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.raw import raw_object
from kcm_host.api.views import Objects
from kcm_host.client.json_scan import DECODE_ERRORS
from kcm_host.informer.store import Store

M = TypeVar("M", bound=msgspec.Struct)

Stores = Mapping[tuple[Kind, type[Any]], Store[Any]]


class CacheView:
    """A `View` that counts its reads."""

    def __init__(self, controller: str, stores: Stores) -> None:
        self.controller = controller
        self._stores = stores
        self.reads = 0

    def record_read(self, store: Store[Any], key: Key) -> None:
        """Record that one object was read; overridden where that is needed."""

    def of(self, kind: Kind, model: type[M]) -> Objects[M]:
        """Return the objects of `kind` as `model`; raise `UndeclaredRead` without a watch."""
        store = self._stores.get((kind, model))
        if store is None:
            raise UndeclaredRead(
                f"{self.controller} asked for '{kind}' as {model.__name__}, which none of its "
                f"watches declare; add a Watch with that kind and model to kcm_watches"
            )
        return cast(Objects[M], StoredObjects(store, self))


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
        entries = (store.entry(key) for (each, _), store in self._stores.items() if each == kind)
        return next((entry.uid for entry in entries if entry is not None), "")


class StoredObjects:
    """The objects of one store, as a sync reads them."""

    def __init__(self, store: Store[Any], view: CacheView) -> None:
        self._store = store
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
        names = self._store.index_names(self._view.controller)
        if index not in names:
            declared = ", ".join(sorted(names)) or "none"
            raise UndeclaredRead(
                f"no index '{index}' on '{self._store.kind}' (declared: {declared}); "
                "add it to the watch's indexes"
            )
        return self._recorded(self._store.by_index(self._view.controller, index, value))

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
