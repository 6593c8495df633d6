"""Which of the queued keys goes next."""

from collections import deque
from collections.abc import Callable

from kcm_host.api.kinds import Key
from kcm_host.api.wakes import Lane

#: So many keys of higher lanes, then a lower one gets its turn.
PATIENCE = 8


class PriorityQueue:
    """
    Keys in order within each lane, higher lanes first, and no lane starved.

    A key that moves to a higher lane stays behind in its old one too, so `pop` asks whether an
    entry still stands: that is cheaper than to search for it.
    """

    def __init__(self) -> None:
        self._lanes: tuple[deque[Key], ...] = tuple(deque() for _ in Lane)
        self._passed_over = [0] * len(Lane)

    def push(self, key: Key, lane: Lane) -> None:
        """Put a key at the end of a lane."""
        self._lanes[lane].append(key)

    def pop(self, stands: Callable[[Key, Lane], bool]) -> Key | None:
        """Take the next key for whose entry `stands` is true; None when there is none."""
        while (lane := self._turn()) is not None:
            key = self._lanes[lane].popleft()
            if stands(key, lane):
                self._took(lane)
                return key
        return None

    def clear(self) -> None:
        """Forget all keys."""
        for lane in self._lanes:
            lane.clear()

    def __bool__(self) -> bool:
        return any(self._lanes)

    def _turn(self) -> Lane | None:
        filled = [lane for lane in Lane if self._lanes[lane]]
        for lane in filled:
            if self._passed_over[lane] >= PATIENCE:
                return lane
        return filled[0] if filled else None

    def _took(self, taken: Lane) -> None:
        self._passed_over[taken] = 0
        for lane in Lane:
            if lane > taken and self._lanes[lane]:
                self._passed_over[lane] += 1
