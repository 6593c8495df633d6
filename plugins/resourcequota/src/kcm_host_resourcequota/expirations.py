"""Which objects change what they use because time has passed."""

from bisect import bisect_left, insort
from collections.abc import Sequence

from kcm_host.api import Key


class Deadlines:
    """
    The instants after which objects use something else (RQ-B21).

    Instants are Unix seconds. They are compared with the wall clock at every tick instead of being
    slept for, so a clock that was set, forwards or back, is noticed at the next one.
    """

    def __init__(self, *, now: float) -> None:
        self._instants: dict[tuple[str, Key], float] = {}
        #: Sorted; the names are there to make keys comparable.
        self._order: list[tuple[float, str, str, str]] = []
        self._ticked = now

    def put(self, resource: str, key: Key, instant: float | None) -> None:
        """Take the present instant of an object, None for none."""
        before = self._instants.get((resource, key))
        if before == instant:
            return
        if before is not None:
            del self._order[bisect_left(self._order, _entry(before, resource, key))]
        if instant is None:
            del self._instants[resource, key]
        else:
            self._instants[resource, key] = instant
            insort(self._order, _entry(instant, resource, key))

    def crossed(self, *, now: float) -> Sequence[tuple[str, Key]]:
        """
        Give the objects whose instant lies between the last tick and `now`, in either direction.

        An instant is behind only once the clock is strictly later (RQ-108).
        """
        if not self._order:
            self._ticked = now
            return ()
        first, last = sorted((self._ticked, now))
        self._ticked = now
        begin = bisect_left(self._order, (first,))
        end = bisect_left(self._order, (last,))
        return [(resource, Key(name, space)) for _, resource, space, name in self._order[begin:end]]

    def forget(self, resource: str) -> None:
        """Drop everything about a resource."""
        for place in [place for place in self._instants if place[0] == resource]:
            self.put(*place, None)

    def __len__(self) -> int:
        return len(self._order)


def _entry(instant: float, resource: str, key: Key) -> tuple[float, str, str, str]:
    return (instant, resource, key.namespace, key.name)
