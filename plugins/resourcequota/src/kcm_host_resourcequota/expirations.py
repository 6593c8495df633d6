"""The instants at which objects change what they use without an event."""

from bisect import bisect_left, insort
from collections.abc import Sequence

from kcm_host.api import Key


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
