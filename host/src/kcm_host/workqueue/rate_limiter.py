"""How long a failed key waits: per key exponential, and one bucket over the whole queue."""

import asyncio
import heapq
from collections.abc import Callable
from operator import itemgetter

from kcm_host.api.kinds import Key

BASE_SECONDS = 0.005
MAX_SECONDS = 1000.0
BUCKET_RATE = 10.0
BUCKET_SIZE = 100.0


#: A token that lacks less than this is there: sums of float do not come out even.
NEARLY = 1e-9


class TokenBucket:
    """A token bucket that begins full."""

    def __init__(self, rate: float, size: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._size = size
        self._clock = clock
        self._tokens = size
        self._last = clock()

    def reserve(self) -> float:
        """
        Take one token and give the seconds to wait until it exists.

        A reservation is never given back (IQ-77).
        """
        self._fill()
        self._tokens -= 1
        return max(-self._tokens, 0.0) / self._rate

    def take(self) -> float:
        """Take one token if it exists and give 0; otherwise give the seconds until it does."""
        self._fill()
        missing = 1 - self._tokens
        if missing > NEARLY:
            return missing / self._rate
        self._tokens -= 1
        return 0.0

    def _fill(self) -> None:
        now = self._clock()
        self._tokens = min(self._size, self._tokens + (now - self._last) * self._rate)
        self._last = now


class WriteRateLimiter:
    """
    Turns to write, given in the order they are asked for.

    A turn is taken when it is there, never ahead: whoever is cancelled while waiting leaves it
    to the next. Without `qps` there is always one.
    """

    def __init__(self, qps: float | None, burst: float | None, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._bucket = TokenBucket(qps, burst or max(1.0, qps), clock) if qps else None
        self._pause_until = clock()
        self._line = asyncio.Lock()

    def pause(self, seconds: float) -> None:
        """Give no turn for so long; of several pauses the last to end counts."""
        self._pause_until = max(self._pause_until, self._clock() + seconds)

    @property
    def pause_seconds(self) -> float:
        """How long there is no turn yet, because of a pause."""
        return max(0.0, self._pause_until - self._clock())

    async def take(self) -> None:
        """Return when it is the caller's turn."""
        async with self._line:
            # Again and again: another pause may have been asked for meanwhile.
            while (seconds := self._seconds()) > 0:  # noqa: ASYNC110 - a time, no event
                await asyncio.sleep(seconds)

    def _seconds(self) -> float:
        """Give how long to wait; 0 takes the turn."""
        if (pause := self.pause_seconds) > 0:
            return pause
        return self._bucket.take() if self._bucket is not None else 0.0


class RetryRateLimiter:
    """
    The default controller rate limiter: the longer of two delays (IQ-76 to IQ-80).

    A key's n-th failure in a row waits 5 ms x 2^(n-1), at most 1000 s; every failure also takes
    a token of the queue's bucket (10 a second, burst 100), however long its own delay is.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._failures: dict[Key, int] = {}
        self._bucket = TokenBucket(BUCKET_RATE, BUCKET_SIZE, clock)

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
