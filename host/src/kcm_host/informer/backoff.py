"""How long a stream that ended waits before it is tried again."""

from collections.abc import Callable

BASE_SECONDS = 0.8
MAX_SECONDS = 30.0
RESET_SECONDS = 120.0


class Backoff:
    """
    0.8 s doubled up to 30 s, plus a random extra of up to as much again (IQ-2).

    Two minutes after the previous reset the sequence starts anew, errors or not (IQ-3).
    """

    def __init__(self, clock: Callable[[], float], random: Callable[[], float]) -> None:
        self._clock = clock
        self._random = random
        self._next = BASE_SECONDS
        self._reset = clock()

    def seconds(self) -> float:
        """Give the next wait."""
        now = self._clock()
        if now - self._reset > RESET_SECONDS:
            self._next, self._reset = BASE_SECONDS, now
        base = self._next
        self._next = min(base * 2, MAX_SECONDS)
        return base * (1 + self._random())
