"""What a controller follows, and what it is told when something changes there."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, TypeVar

import msgspec

from kcm_host.api.kinds import Key, Kind
from kcm_host.api.views import View
from kcm_host.api.wakes import Wanted

M = TypeVar("M", bound=msgspec.Struct)


class Change(msgspec.Struct, Generic[M], frozen=True, gc=False):
    """
    One change of one object, told after the stores have changed.

    `old` is None when the object is new to the store, `new` is None when it is gone (then `old`
    is the last state known, which a relist may have found stale, IQ-51). An object deleted and
    made anew under its name between two lists is one change with both (IQ-52). Objects are
    shared: read only. `version` is the object's resourceVersion; `initial` marks the first list;
    `same` says that no declared field differs, which only `every_event` watches get to see. An
    object that could not be decoded for a while and now can is told to all, with `same` False,
    even if no field differs. `relisted` says that a new list has told it: what happened to the
    object in between is not known, also if it looks the same.
    """

    kind: Kind
    key: Key
    old: M | None
    new: M | None
    version: str = ""
    initial: bool = False
    same: bool = False
    relisted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch(Generic[M]):
    """
    One kind to follow, with the fields to read of it.

    `model` is a `msgspec.Struct` projection: memory, decode cost and wake-ups follow from the
    fields it declares. When it declares nothing but `metadata`, only metadata is fetched.
    """

    kind: Kind
    model: type[M]
    #: Which keys to queue for a change. Called once per change, in order, after the stores have
    #: changed; synchronous, no I/O; may keep counts in memory. An exception restarts the
    #: controller from a new list, because its memory can no longer be trusted.
    keys: Callable[[Change[M], View], Iterable[Wanted]]
    #: Only this namespace; empty: all.
    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""
    #: Index name -> function giving the values under which `Objects.by_index` finds an object.
    indexes: Mapping[str, Callable[[Key, M], Iterable[str]]] = field(default_factory=dict)
    #: Also be told of updates in which no declared field changed.
    every_event: bool = False
    #: How long a key must be left alone before it is synced, so that a burst costs one sync; at
    #: most five times as long after its first change. The initial list never waits: all of it is
    #: known before the first sync.
    rest: timedelta = timedelta(0)
    #: Called once, like `keys`, when the initial objects of this watch have gone through `keys`.
    synced: Callable[[View], Iterable[Wanted]] | None = None
    #: Whether syncs wait for its initial objects, and the controller is not ready while it cannot
    #: be followed. For a kind whose absence holds up only some of the keys: False.
    awaited: bool = True
    #: Keep every object whole beside its model, for `Objects.whole` and a full update.
    whole: bool = False
    #: Which key of the work queue stands for an object of this watch: the slow sweep queues it
    #: every `resyncPeriod`, in case `keys` has missed something. None: objects of this watch are
    #: no keys. Synchronous, no I/O.
    resync: Callable[[Key], Key] | None = None


AnyWatch = Watch[Any]
