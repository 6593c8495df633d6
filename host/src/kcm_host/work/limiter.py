"""How long a failed key waits: per key exponential, and one bucket over the whole queue."""

import heapq
from collections.abc import Callable
from operator import itemgetter

from kcm_host.api.kinds import Key

BASE_SECONDS = 0.005
MAX_SECONDS = 1000.0
BUCKET_RATE = 10.0
BUCKET_SIZE = 100.0


class Bucket:
    """A token bucket that begins full; reservations are never given back (IQ-77)."""

    def __init__(self, rate: float, size: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._size = size
        self._clock = clock
        self._tokens = size
        self._last = clock()

    def reserve(self) -> float:
        """Take one token and give the seconds to wait until it exists."""
        now = self._clock()
        self._tokens = min(self._size, self._tokens + (now - self._last) * self._rate) - 1
        self._last = now
        return 0.0 if self._tokens >= 0 else -self._tokens / self._rate


class RetryLimiter:
    """
    The default controller rate limiter: the longer of two delays (IQ-76 to IQ-80).

    A key's n-th failure in a row waits 5 ms x 2^(n-1), at most 1000 s; every failure also takes
    a token of the queue's bucket (10 a second, burst 100), however long its own delay is.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._failures: dict[Key, int] = {}
        self._bucket = Bucket(BUCKET_RATE, BUCKET_SIZE, clock)

    def when(self, key: Key) -> float:
        """Record one more failure of `key` and give the seconds it waits."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # 2^18 x 5 ms is above the maximum; larger exponents would only overflow the float.
        own = min(BASE_SECONDS * (1 << min(failures, 18)), MAX_SECONDS)
        return max(own, self._bucket.reserve())

    def forget(self, key: Key) -> None:
        """Let the next failure of `key` wait the shortest time again."""
        self._failures.pop(key, None)

    def failures(self, key: Key) -> int:
        """How often `key` failed since its last success."""
        return self._failures.get(key, 0)

    def worst(self, most: int) -> dict[Key, int]:
        """Give the keys with the most failures in a row, at most `most` of them."""
        return dict(heapq.nlargest(most, self._failures.items(), key=itemgetter(1)))
