"""Indexes of a store: keys by the values of a function, and the keys of undecodable objects."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kcm_host.api.errors import PLUGIN_FAILURES
from kcm_host.api.kinds import Key

IndexFunction = Callable[[Key, Any], Iterable[str]]
OnIndexError = Callable[[Key, BaseException], None]
_NO_VALUES = frozenset[str]()


class Index:
    """
    Keys by value, updated with each change of the store (IQ-57).

    The function belongs to a plugin: when it raises, `on_error` is called with the key of the
    object, which is in the index under no value; the store and the other objects are not affected.
    """

    def __init__(self, function: IndexFunction, on_error: OnIndexError) -> None:
        self._function = function
        self._on_error = on_error
        self._keys: dict[str, set[Key]] = {}

    def empty_copy(self) -> "Index":
        """Return an index with the same function and without keys."""
        return Index(self._function, self._on_error)

    def update(self, key: Key, old: Any | None, new: Any | None) -> None:
        """Move `key` from the values of `old` to those of `new`."""
        # The function is called for the old object again instead of keeping its values: that would
        # cost memory for each object and index.
        before = self._values(key, old) if old is not None else _NO_VALUES
        after = self._values(key, new) if new is not None else _NO_VALUES
        if before == after:
            return
        for value in before - after:
            keys = self._keys.get(value, set())
            keys.discard(key)
            if not keys:
                # Empty sets would stay for every value that ever was, such as uids (IQ-57).
                self._keys.pop(value, None)
        for value in after - before:
            self._keys.setdefault(value, set()).add(key)

    def keys(self, value: str) -> Iterator[Key]:
        """Return the keys under `value`, as a copy that later changes do not affect."""
        return iter(tuple(self._keys.get(value, ())))

    def _values(self, key: Key, model: Any) -> frozenset[str]:
        try:
            return frozenset(self._function(key, model))
        except PLUGIN_FAILURES as error:
            self._on_error(key, error)
            return _NO_VALUES


class UndecodableKeys:
    """
    The keys of undecodable objects, which are read often, in total or by namespace.

    Each result is cached until it changes, so that a read costs the same for any number of keys.
    """

    def __init__(self) -> None:
        self._by_namespace: dict[str, set[Key]] = {}
        #: Namespace, None for all of them -> the result that was returned last.
        self._cached: dict[str | None, frozenset[Key]] = {}

    def add(self, key: Key) -> None:
        """Add a key."""
        keys = self._by_namespace.setdefault(key.namespace, set())
        if key not in keys:
            keys.add(key)
            self._invalidate(key.namespace)

    def discard(self, key: Key) -> None:
        """Remove a key, if it is there."""
        keys = self._by_namespace.get(key.namespace)
        if keys is None or key not in keys:
            return
        keys.remove(key)
        if not keys:
            del self._by_namespace[key.namespace]
        self._invalidate(key.namespace)

    def in_namespace(self, namespace: str | None) -> frozenset[Key]:
        """Return the keys of a namespace, None: of all; the same set until it changes."""
        cached = self._cached.get(namespace)
        if cached is not None:
            return cached
        if namespace is None:
            keys = frozenset[Key]().union(*self._by_namespace.values())
        elif namespace in self._by_namespace:
            keys = frozenset(self._by_namespace[namespace])
        else:
            return frozenset()
        self._cached[namespace] = keys
        return keys

    def __contains__(self, key: Key) -> bool:
        return key in self._by_namespace.get(key.namespace, ())

    def _invalidate(self, namespace: str) -> None:
        self._cached.pop(None, None)
        self._cached.pop(namespace, None)
