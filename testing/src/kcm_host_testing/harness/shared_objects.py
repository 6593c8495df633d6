"""A view that notices when the plugin changes an object of it, which is shared and read-only."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from kcm_host.api import Change, Key, Kind, View
from kcm_host_testing.harness.errors import HarnessError

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode


class SharedObjects:
    """The objects that the plugin has got since the last check, in their encoded form."""

    def __init__(self) -> None:
        self._objects: dict[int, tuple[Kind, Key, Any, bytes]] = {}

    def add(self, kind: Kind, key: Key, model: T) -> T:
        """Add an object and return it."""
        if model is not None and id(model) not in self._objects:
            self._objects[id(model)] = (kind, key, model, _encoded(model))
        return model

    def check(self, function: str) -> None:
        """Raise `HarnessError` if an object has changed since it was added, and remove all."""
        objects, self._objects = self._objects, {}
        for kind, key, model, encoded in objects.values():
            if _encoded(model) != encoded:
                raise HarnessError(
                    f"{function} has changed {kind} '{key}' of the view ({type(model).__name__}): "
                    "objects are shared, and the next sync reads the change as if it were stored; "
                    "copy what is to be changed (msgspec.structs.replace, dict, list)"
                )

    def checked(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Return a watch function that is followed by a check."""

        def call(*arguments: Any) -> Any:
            about = ""
            for change in arguments:
                if isinstance(change, Change):
                    about = f" for '{change.key}'"
                    self.add(change.kind, change.key, change.old)
                    self.add(change.kind, change.key, change.new)
            result = function(*arguments)
            if isinstance(result, Iterator):
                result = list(result)
            self.check(f"{name}{about}")
            return result

        return call


class CheckedView:
    """A `View` that adds each object that is read to the `SharedObjects`."""

    def __init__(self, view: View, shared: SharedObjects) -> None:
        self._view = view
        self._shared = shared

    def of(self, kind: Kind, model: type[Any], *name: Any, **names: Any) -> Any:
        """See `View.of`."""
        return _CheckedObjects(self._view.of(kind, model, *name, **names), kind, self._shared)


class _CheckedObjects:
    """The `Objects` of a `CheckedView`."""

    def __init__(self, objects: Any, kind: Kind, shared: SharedObjects) -> None:
        self._objects = objects
        self._kind = kind
        self._shared = shared

    def get(self, name: str, namespace: str = "") -> Any:
        model = self._objects.get(name, namespace)
        return self._shared.add(self._kind, Key(name, namespace), model)

    def items(self) -> Iterator[tuple[Key, Any]]:
        return self._added(self._objects.items())

    def by_index(self, index: str, value: str) -> Iterator[tuple[Key, Any]]:
        return self._added(self._objects.by_index(index, value))

    def _added(self, found: Iterator[tuple[Key, Any]]) -> Iterator[tuple[Key, Any]]:
        for key, model in found:
            yield key, self._shared.add(self._kind, key, model)

    def __len__(self) -> int:
        return len(self._objects)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objects, name)


def _encoded(model: Any) -> bytes:
    try:
        return _encode(model)
    except (TypeError, ValueError, RecursionError):
        return repr(model).encode()
