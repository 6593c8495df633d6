"""Which objects of a store cannot be decoded, by namespace."""

from kcm_host.api.kinds import Key


class UndecodableKeys:
    """
    A set of keys that is asked for often, as a whole or for one namespace, and rarely changes.

    Each answer is kept until it changes, so that asking costs nothing however many keys there
    are.
    """

    def __init__(self) -> None:
        self._of: dict[str, set[Key]] = {}
        #: Namespace, None for all of them -> what was answered last.
        self._answers: dict[str | None, frozenset[Key]] = {}

    def add(self, key: Key) -> None:
        """Put a key in."""
        there = self._of.setdefault(key.namespace, set())
        if key not in there:
            there.add(key)
            self._forget(key.namespace)

    def discard(self, key: Key) -> None:
        """Take a key out, if it is in."""
        there = self._of.get(key.namespace)
        if there is None or key not in there:
            return
        there.remove(key)
        if not there:
            del self._of[key.namespace]
        self._forget(key.namespace)

    def of(self, namespace: str | None) -> frozenset[Key]:
        """Return the keys of a namespace, None: of all; the same set until it changes."""
        answer = self._answers.get(namespace)
        if answer is not None:
            return answer
        if namespace is None:
            answer = frozenset[Key]().union(*self._of.values())
        elif namespace in self._of:
            answer = frozenset(self._of[namespace])
        else:
            return frozenset()
        self._answers[namespace] = answer
        return answer

    def __contains__(self, key: Key) -> bool:
        return key in self._of.get(key.namespace, ())

    def _forget(self, namespace: str) -> None:
        self._answers.pop(None, None)
        self._answers.pop(namespace, None)
