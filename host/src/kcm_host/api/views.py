"""What a sync may read: the objects its controller follows, nothing else."""

from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

import msgspec

from kcm_host.api.kinds import Key, Kind

M = TypeVar("M", bound=msgspec.Struct)
M_co = TypeVar("M_co", bound=msgspec.Struct, covariant=True)


class Objects(Protocol[M_co]):
    """
    The stored objects of one kind, in the form of one model.

    The store follows the server and may lag behind it, so decide by level: a sync that acts on
    an old state runs again once the newer one arrives. Objects are shared between controllers
    and must not be modified.
    """

    def get(self, name: str, namespace: str = "") -> M_co | None:
        """
        Give the stored object, or None when there is none; no request is made.

        Raises `Undecodable` when the object exists but none of its versions fitted the model.
        """

    def items(self) -> Iterator[tuple[Key, M_co]]:
        """Give every object with its key, in no order; one that never fitted is left out."""

    def by_index(self, index: str, value: str) -> Iterator[tuple[Key, M_co]]:
        """Give the objects that the watch's index function put under `value`."""

    def undecodable(self, namespace: str | None = None) -> frozenset[Key]:
        """
        Give the keys of the objects whose current version does not fit the model.

        `namespace` leaves out those of others, and what they would cost. It is the same set
        until it changes.
        """

    def whole(self, name: str, namespace: str = "") -> dict[str, Any] | None:
        """
        Give the whole object as the server sent it, for `Writer.update`.

        Each call gives a new dict, which may be changed: `metadata` is decoded, every other
        field is `msgspec.Raw`, to be replaced or left as it is; `decode_object` reads it. It is
        of the version that `get` gives at this moment; None when there is none, or when its
        present version misfits. Raises `UndeclaredRead` when the watch does not say `whole=True`,
        `Undecodable` when the metadata cannot be decoded.
        """

    @property
    def problem(self) -> str:
        """Why the objects cannot be followed at present; empty while they are."""

    def __len__(self) -> int:
        """How many objects the server has, undecodable ones included."""


class View(Protocol):
    """Read access to what the controller's own watches declare."""

    def of(self, kind: Kind, model: type[M]) -> Objects[M]:
        """
        Give the objects of `kind` as `model`.

        Raises `UndeclaredRead` when no watch of this controller declares that kind and model.
        """
