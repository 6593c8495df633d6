"""Keeps the ledger in line with the stores, one object at a time."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from kcm_host.api import Key, Undecodable, View
from kcm_host_resourcequota.deadlines import Deadlines
from kcm_host_resourcequota.evaluator import Evaluator
from kcm_host_resourcequota.ledger import Difference, Ledger
from kcm_host_resourcequota.usage import Contribution


class Move(msgspec.Struct, frozen=True, gc=False):
    """One object's change in the ledger."""

    resource: str
    key: Key
    difference: Difference


class Books:
    """
    The ledger and the deadlines of all objects.

    Everything is driven by keys and reads the store as it is now, so that repeated, merged and
    missing events give the same result (RQ-B6). `clock` gives Unix seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.ledger = Ledger()
        self.deadlines = Deadlines(now=clock())
        #: How often an object's contribution was worked out (RQ-B44).
        self.evaluations = 0
        self._clock = clock

    def apply(self, evaluator: Evaluator, key: Key, view: View) -> Move | None:
        """Bring the record of one object up to date; None if nothing changed (RQ-B5)."""
        seen = self.stored(evaluator, key, view)
        instant = evaluator.deadline(seen) if seen is not None else None
        self.deadlines.put(evaluator.resource, key, instant)
        now = self._contribution(evaluator, key, seen, view)
        difference = self.ledger.apply(evaluator.resource, key, now)
        return Move(evaluator.resource, key, difference) if difference is not None else None

    def crossed(self) -> Sequence[tuple[str, Key]]:
        """Give resource and key of the objects to apply because the clock has moved (RQ-B21)."""
        return self.deadlines.crossed(now=self._clock())

    def contribution(self, evaluator: Evaluator, key: Key, view: View) -> Contribution | None:
        """Give what the object of a key uses now, None if there is none (RQ-B1)."""
        return self._contribution(evaluator, key, self.stored(evaluator, key, view), view)

    @staticmethod
    def stored(evaluator: Evaluator, key: Key, view: View) -> Any:
        """Give the object of a key as it is now, None if there is none that could be decoded."""
        try:
            return view.of(evaluator.kind, evaluator.model).get(key.name, key.namespace)
        except Undecodable:
            return None

    def strays(self, evaluator: Evaluator, view: View) -> Iterator[Key | None]:
        """Give the keys that only one of ledger and store has, None for each that is none."""
        resource = evaluator.resource
        for key in self.ledger.keys(resource):
            yield key if self.stored(evaluator, key, view) is None else None
        stored = view.of(evaluator.kind, evaluator.model).items()
        for key, _ in stored:
            yield key if self.ledger.record(resource, key) is None else None

    def forget(self, resource: str) -> None:
        """Drop everything about a resource that is no longer followed."""
        self.ledger.forget(resource)
        self.deadlines.forget(resource)

    def _contribution(
        self, evaluator: Evaluator, key: Key, seen: object, view: View
    ) -> Contribution | None:
        if seen is None:
            return None
        self.evaluations += 1
        return evaluator.contribution(key, seen, view, self._clock())
