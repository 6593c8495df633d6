"""The usage tracker: updates the usage index from the stores, and by the clock."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from kcm_host.api import Key, Undecodable, View
from kcm_host_resourcequota.evaluators.base import Contribution, Evaluator
from kcm_host_resourcequota.usage_index import ContributionChange, UsageIndex


class UsageDelta(msgspec.Struct, frozen=True, gc=False):
    """The change of one object in the usage index."""

    resource: str
    key: Key
    change: ContributionChange


class UsageTracker:
    """
    Updates the usage index and the expirations from the stores, one object at a time.

    An update reads the present object of a key, so repeated, merged and missing events lead to the
    same result (RQ-B6). `clock` returns Unix seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.index = UsageIndex()
        self.expirations = Expirations(now=clock())
        #: How often a contribution was computed (RQ-B44).
        self.evaluations = 0
        self._clock = clock

    def update(self, evaluator: Evaluator, key: Key, view: View) -> UsageDelta | None:
        """Update the record of one object; return None if nothing changed (RQ-B5)."""
        obj = self.stored(evaluator, key, view)
        expiration = evaluator.expiration(obj) if obj is not None else None
        self.expirations.set(evaluator.resource, key, expiration)
        contribution = self._contribution(evaluator, key, obj, view=view)
        change = self.index.apply(evaluator.resource, key, contribution)
        return UsageDelta(evaluator.resource, key, change) if change is not None else None

    def expired(self) -> Sequence[tuple[str, Key]]:
        """Return resource and key of the objects to update because of the clock (RQ-B21)."""
        return self.expirations.crossed(now=self._clock())

    def contribution(self, evaluator: Evaluator, key: Key, view: View) -> Contribution | None:
        """Return the present contribution of the object of a key, None without object (RQ-B1)."""
        return self._contribution(evaluator, key, self.stored(evaluator, key, view), view=view)

    @staticmethod
    def stored(evaluator: Evaluator, key: Key, view: View) -> Any:
        """Return the present object of a key, None if there is none that could be decoded."""
        try:
            return view.of(evaluator.kind, evaluator.model).get(key.name, key.namespace)
        except Undecodable:
            return None

    def unmatched_keys(self, evaluator: Evaluator, view: View) -> Iterator[Key | None]:
        """Yield each key that only the index or only the store has; None for every other key."""
        resource = evaluator.resource
        for key in self.index.keys(resource):
            yield key if self.stored(evaluator, key, view) is None else None
        stored = view.of(evaluator.kind, evaluator.model).items()
        for key, _ in stored:
            yield key if self.index.record(resource, key) is None else None

    def _contribution(
        self, evaluator: Evaluator, key: Key, obj: object, view: View
    ) -> Contribution | None:
        if obj is None:
            return None
        self.evaluations += 1
        return evaluator.contribution(key, obj, view, now=self._clock())


class Expirations:
    """
    The expiration of each object that has one (RQ-B21).

    Expirations are Unix seconds. They are compared with the wall clock at every check and not used
    as timers, so a clock that was set forward or back is noticed at the next check.
    """

    def __init__(self, *, now: float) -> None:
        self._expirations: dict[tuple[str, Key], float] = {}
        #: Sorted; the names are there to make keys comparable.
        self._sorted: list[tuple[float, str, str, str]] = []
        self._last_check = now

    def set(self, resource: str, key: Key, expiration: float | None) -> None:
        """Set the expiration of an object, None for none."""
        before = self._expirations.get((resource, key))
        if before == expiration:
            return
        if before is not None:
            del self._sorted[bisect_left(self._sorted, _entry(before, resource, key))]
        if expiration is None:
            del self._expirations[resource, key]
        else:
            self._expirations[resource, key] = expiration
            insort(self._sorted, _entry(expiration, resource, key))

    def crossed(self, *, now: float) -> Sequence[tuple[str, Key]]:
        """
        Return the objects that expire between the last check and `now`, in either direction.

        An object has expired only once the clock is strictly later (RQ-108).
        """
        if not self._sorted:
            self._last_check = now
            return ()
        first, last = sorted((self._last_check, now))
        self._last_check = now
        begin = bisect_left(self._sorted, (first,))
        end = bisect_left(self._sorted, (last,))
        crossed = self._sorted[begin:end]
        return [(resource, Key(name, namespace)) for _, resource, namespace, name in crossed]

    def __len__(self) -> int:
        return len(self._sorted)


def _entry(expiration: float, resource: str, key: Key) -> tuple[float, str, str, str]:
    return (expiration, resource, key.namespace, key.name)
