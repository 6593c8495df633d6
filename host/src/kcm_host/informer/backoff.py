"""Delays between attempts to list and watch."""

from collections.abc import Callable

BASE_SECONDS = 0.8
MAX_SECONDS = 30.0
RESET_SECONDS = 120.0


class Backoff:
    """
    Exponential backoff: 0.8 s doubled up to 30 s, plus a random jitter of up to 100 % (IQ-2).

    The sequence restarts two minutes after its previous start, whether or not errors occurred
    meanwhile (IQ-3).
    """

    def __init__(self, clock: Callable[[], float], random: Callable[[], float]) -> None:
        self._clock = clock
        self._random = random
        self._next = BASE_SECONDS
        self._started = clock()

    def next_delay(self) -> float:
        """Return the next delay in seconds."""
        now = self._clock()
        if now - self._started > RESET_SECONDS:
            self._next, self._started = BASE_SECONDS, now
        base = self._next
        self._next = min(base * 2, MAX_SECONDS)
        return base * (1 + self._random())
