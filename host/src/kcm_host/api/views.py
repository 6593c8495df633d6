"""Views: read access to the objects that a controller follows, and to nothing else."""

from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

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
