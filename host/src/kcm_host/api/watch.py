"""Watches: the kinds that a controller follows, and the changes of their objects."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, TypeVar

import msgspec

from kcm_host.api.enqueue import Enqueue
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.views import View

M = TypeVar("M", bound=msgspec.Struct)


class Change(msgspec.Struct, Generic[M], frozen=True, gc=False, kw_only=True):
    """
    One change of one object; the stores have changed before.

    `old` is None if the object is new to the store, `new` is None if it was deleted (then `old`
    is the last known state; after a relist it may be an outdated one). An object that was deleted
    and created again under its name between two lists is one change with both. Objects are
    shared: do not modify them. `initial` is true for
    objects of the first list. `unchanged` is true if no declared field differs; only watches with
    `notify_unchanged` get such a change. When an object becomes decodable again, all watches get a
    change with `unchanged` False, even if no field differs. `relisted` is true if a new list has
    shown the change: what happened to the object in between is not known, even if it looks the
    same.
    """

    kind: Kind
    key: Key
    old: M | None
    new: M | None
    resource_version: str = ""
    initial: bool = False
    unchanged: bool = False
    relisted: bool = False


def object_key(change: Change[Any], _view: View) -> tuple[Key]:
    """Return the key of the changed object: the default of `Watch.keys`."""
    return (change.key,)


@dataclass(frozen=True, slots=True)
class OwnerKeys:
    """Returns the keys of controlling owners; see `owner_keys`."""

    kind: Kind

    def __call__(self, change: Change[Any], _view: View) -> list[Key]:
        """Return the key of the owner of the old and of the new object, equal ones once."""
        names = {self._owner(model): None for model in (change.old, change.new)}
        namespace = change.key.namespace if self.kind.namespaced else ""
        return [Key(name, namespace) for name in names if name]

    def _owner(self, model: Any) -> str:
        metadata = getattr(model, "metadata", None)
        for reference in getattr(metadata, "owner_references", None) or ():
            if reference.controller and reference.kind == self.kind.name:
                group, _, _ = reference.api_version.rpartition("/")
                if group == self.kind.group:
                    return str(reference.name)
        return ""


def owner_keys(kind: Kind) -> Callable[[Change[Any], View], list[Key]]:
    """
    Return a function for `Watch.keys`: the key of the owner that controls the object.

    The owner is of `kind` in any version, and is taken from the old and the new object, so that an
    owner is synced that has lost the object. The model needs `metadata` with `owner_references`,
    whose items have `api_version`, `kind`, `name` and `controller`.
    """
    return OwnerKeys(kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch(Generic[M]):
    """
    One kind that is followed, with the fields that are read of it.

    `model` is a `msgspec.Struct` with the fields that the controller reads: memory, decoding time
    and wake-ups depend on them. If it declares nothing but `metadata`, only metadata is requested.
    """

    kind: Kind
    model: type[M]
    #: Returns the keys to queue for a change. Called once for each change, in order, after the
    #: stores have changed; synchronous, no I/O; may count in memory. An exception restarts the
    #: controller from a new list, because its state can no longer be trusted.
    #: Left out: the key of the object itself; `owner_keys` returns that of its owner.
    keys: Callable[[Change[M], View], Iterable[Enqueue]] = object_key
    #: Distinguishes the watches of one controller; left out, it is the text of the kind.
    name: str = ""
    #: Only this namespace; empty: all.
    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""
    #: Name of an index -> function that returns the values under which `Objects.by_index` finds
    #: an object.
    indexes: Mapping[str, Callable[[Key, M], Iterable[str]]] = field(default_factory=dict)
    #: Whether updates in which no declared field changed are changes too.
    notify_unchanged: bool = False
    #: A key is synced when it has not changed for this time, so that a burst costs one sync; at
    #: the latest five times this time after its first change. Initial objects are not delayed:
    #: all of them are known before the first sync.
    debounce: timedelta = timedelta(0)
    #: Returns keys to queue; called once when the initial objects have gone through `keys`.
    on_synced: Callable[[View], Iterable[Enqueue]] | None = None
    #: Whether syncs wait for the initial objects of this watch, and the controller is not ready
    #: while the watch fails. False for a kind that only some of the keys need.
    required: bool = True
    #: Whether the full object is kept beside its model, for `Objects.full_object` and full updates.
    full_object: bool = False
    #: Returns the key of the work queue that stands for an object of this watch. It is queued
    #: every `resyncPeriod`, in case `keys` has missed a change. None: objects of this watch are
    #: no keys, or, without `keys`, each object is its own key. Synchronous, no I/O.
    resync: Callable[[Key], Key] | None = None


AnyWatch = Watch[Any]


def name_of(watch: AnyWatch) -> str:
    """Return the name of a watch, also if it is left out."""
    return watch.name or str(watch.kind)
