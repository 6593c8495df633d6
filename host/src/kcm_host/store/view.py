"""Read-only access for one sync, limited to what the controller's watches declare."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, cast

import msgspec

from kcm_host.api.errors import UndeclaredRead, Undecodable
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.raw import raw_object
from kcm_host.api.views import Objects
from kcm_host.store.store import Store
from kcm_host.wire.decode import REFUSALS

M = TypeVar("M", bound=msgspec.Struct)

Stores = Mapping[tuple[Kind, type[Any]], Store[Any]]


class StoreView:
    """A `View` that counts its reads."""

    def __init__(self, controller: str, stores: Stores) -> None:
        self.controller = controller
        self._stores = stores
        self.reads = 0

    def of(self, kind: Kind, model: type[M]) -> Objects[M]:
        """Give the objects of `kind` as `model`, if a watch declares them."""
        store = self._stores.get((kind, model))
        if store is None:
            raise UndeclaredRead(
                f"{self.controller} asked for '{kind}' as {model.__name__}, which none of its "
                f"watches declare; add a Watch with that kind and model to kcm_watches"
            )
        return cast(Objects[M], StoredObjects(store, self))


class StoredObjects:
    """The objects of one store, as a sync sees them."""

    def __init__(self, store: Store[Any], view: StoreView) -> None:
        self._store = store
        self._view = view

    def get(self, name: str, namespace: str = "") -> Any | None:
        """See `Objects.get`."""
        self._view.reads += 1
        return self._store.get(Key(name, namespace))

    def items(self) -> Iterator[tuple[Key, Any]]:
        """See `Objects.items`."""
        self._view.reads += 1
        return self._store.items()

    def by_index(self, index: str, value: str) -> Iterator[tuple[Key, Any]]:
        """See `Objects.by_index`."""
        self._view.reads += 1
        names = self._store.index_names(self._view.controller)
        if index not in names:
            known = ", ".join(sorted(names)) or "none"
            raise UndeclaredRead(
                f"no index '{index}' on '{self._store.kind}' (declared: {known}); "
                "add it to the watch's indexes"
            )
        return self._store.by_index(self._view.controller, index, value)

    def undecodable(self, namespace: str | None = None) -> frozenset[Key]:
        """See `Objects.undecodable`."""
        if namespace is None:
            return self._store.undecodable
        return self._store.undecodable_in(namespace)

    def whole(self, name: str, namespace: str = "") -> dict[str, Any] | None:
        """See `Objects.whole`."""
        self._view.reads += 1
        if not self._store.keep_whole:
            raise UndeclaredRead(
                f"'{self._store.kind}' is not kept whole; say whole=True in the watch that "
                f"{self._view.controller} declares for it"
            )
        entry = self._store.entry(Key(name, namespace))
        if entry is None or not entry.whole:
            return None
        try:
            return raw_object(entry.whole)
        except REFUSALS as error:
            raise Undecodable(
                f"{self._store.kind} '{Key(name, namespace)}' holds fields that cannot be "
                f"decoded: {error}; correct the object"
            ) from error

    @property
    def problem(self) -> str:
        """See `Objects.problem`."""
        return self._store.problem()

    def __len__(self) -> int:
        return len(self._store)
