"""Find objects by a value computed from them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kcm_host.api.errors import PLUGIN_FAILURES
from kcm_host.api.kinds import Key

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
