"""Watches and timers: views of the objects, their changes, and the keys to queue for them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from kcm_host.api.kinds import Key, Kind

M = TypeVar("M", bound=msgspec.Struct)
M_co = TypeVar("M_co", bound=msgspec.Struct, covariant=True)


class Objects(Protocol[M_co]):
    """
    The stored objects of one kind as instances of one model.

    The store follows the API server and may be behind it: a sync that has used an old state runs
    again when the newer one arrives. Objects are shared between controllers and must not be
    modified.
    """

    def get(self, name: str, namespace: str = "") -> M_co | None:
        """
        Return the stored object, None if there is none; no request is sent.

        Raises `Undecodable` if the object exists but none of its versions could be decoded.
        """

    def items(self) -> Iterator[tuple[Key, M_co]]:
        """Return every object with its key, in no order, without those never decoded."""

    def by_index(self, index: str, value: str) -> Iterator[tuple[Key, M_co]]:
        """Return the objects for which the index function of the watch returned `value`."""

    def undecodable(self, namespace: str | None = None) -> frozenset[Key]:
        """
        Return the keys of the objects whose current version cannot be decoded.

        With `namespace`, only those in it, at a cost that does not depend on the others. The
        result is the same set until it changes.
        """

    def full_object(self, name: str, namespace: str = "") -> dict[str, Any] | None:
        """
        Return the full object as the API server sent it, for `Writer.update`.

        Each call returns a new dict, which may be changed: `metadata` is decoded, every other
        field is `msgspec.Raw`, to be replaced or left as it is; `decode_object` decodes it. It has
        the version that `get` returns at this moment. None if there is no object, or if its
        current version cannot be decoded. Raises `UndeclaredRead` if the watch was not declared
        with `full_object=True`, `Undecodable` if the metadata cannot be decoded.
        """

    @property
    def problem(self) -> str:
        """Return why the watch fails at present; empty if it does not."""

    def __len__(self) -> int:
        """Return the number of stored objects, undecodable ones included."""


class View(Protocol):
    """Read access to the objects of the controller's own watches."""

    def of(self, kind: Kind, model: type[M], name: str = "") -> Objects[M]:
        """
        Return the objects of `kind` as instances of `model`.

        `name` is that of the watch; it is needed where several watches have this kind and model.
        Raises `UndeclaredRead` if no watch of this controller declares these, or several do.
        """


_AT_ONCE = timedelta(0)


class Priority(IntEnum):
    """
    The priorities of keys in a work queue.

    No priority is starved: after eight keys of higher priorities one of a lower priority is
    taken. A key has one priority: the highest that was requested for it.
    """

    URGENT = 0
    NORMAL = 1
    IDLE = 2


class EnqueueRequest(msgspec.Struct, frozen=True, gc=False):
    """
    A key that is queued with another priority, or after a time.

    Raises `ValueError` if `after` is negative.
    """

    key: Key
    priority: Priority = Priority.NORMAL
    #: Of several times for one key the earliest counts.
    after: timedelta = _AT_ONCE

    def __post_init__(self) -> None:
        # By identity: nearly all requests have the default, and one is made for each change.
        if self.after is _AT_ONCE:
            return
        if not isinstance(self.after, timedelta):
            raise TypeError(f"after={self.after!r}; write after=timedelta(seconds=...)")
        if self.after < _AT_ONCE:
            raise ValueError(
                f"after={self.after!r} is negative; write max(after, timedelta(0)) to queue the "
                "key at once when its time has passed"
            )


class RefreshWatches(msgspec.Struct, frozen=True):
    """A request to call `kcm_dynamic_watches` again soon, because its result may have changed."""


Enqueue = Key | EnqueueRequest | RefreshWatches


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


# A class and not a closure, so that the loader can see what the model of the watch has to declare.
# Without these fields every change would raise, after the start.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """
    Keys that are queued periodically.

    `keys` is called each time `every` has passed while the controller runs, the first time that
    long after its start. It is synchronous and does no I/O; an exception restarts the controller.
    Several calls that became due while the process was blocked become one. It is also called
    early when the periodic resync has to find out whether it would have returned a key.
    """

    every: timedelta
    keys: Callable[[View], Iterable[Enqueue]]
    #: Whether it returns keys in case a change was missed, as the periodic resync does, and not
    #: because a time of theirs has passed. Then it is never called early.
    resync: bool = False
