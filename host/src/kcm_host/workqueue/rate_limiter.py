"""Rate limiters: of retries, of writes, and of keys that are synced again and again."""

import asyncio
import heapq
from collections.abc import Callable
from operator import itemgetter

from kcm_host.api.kinds import Key
from kcm_host.observe.states import FailingKey

BASE_SECONDS = 0.005
MAX_SECONDS = 1000.0
#: Of so many failing keys the last errors are kept, cut off after so many characters.
MAX_ERRORS = 1000
MAX_ERROR_LENGTH = 400
BUCKET_RATE = 10.0
BUCKET_SIZE = 100.0

#: A token that lacks less than this counts as available: sums of floats are not exact.
TOLERANCE = 1e-9


class TokenBucket:
    """A token bucket that is full at first; `rate` is in tokens per second."""

    def __init__(self, rate: float, size: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._size = size
        self._clock = clock
        self._tokens = size
        self._last = clock()

    def reserve(self) -> float:
        """
        Reserve one token and return the seconds until it is available.

        A reservation cannot be cancelled (IQ-77).
        """
        self._refill()
        # Below zero, as in client-go: the 150th failure of one moment waits 5 s (IQ-80).
        self._tokens -= 1
        return max(-self._tokens, 0.0) / self._rate

    def try_take(self) -> float:
        """Take one token if available and return 0; otherwise return the seconds until it is."""
        self._refill()
        missing = 1 - self._tokens
        if missing > TOLERANCE:
            return missing / self._rate
        self._tokens -= 1
        return 0.0

    def _refill(self) -> None:
        now = self._clock()
        self._tokens = min(self._size, self._tokens + (now - self._last) * self._rate)
        self._last = now


class WriteRateLimiter:
    """
    The client-side rate limiter of one controller's writes; callers are served in FIFO order.

    A token is taken when it is available, never in advance: a caller that is cancelled while it
    waits leaves the token to the next one. Without `qps` only pauses limit the rate.
    """

    def __init__(self, qps: float | None, burst: float | None, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._bucket = TokenBucket(qps, burst or max(1.0, qps), clock) if qps else None
        self._paused_until = clock()
        # The lock serves callers in order. With turns reserved in advance, those of cancelled syncs
        # were lost, and a low `qps` ended in no writes at all (F-11).
        self._lock = asyncio.Lock()

    def pause(self, seconds: float) -> None:
        """Block `wait` for so long; of several pauses the one that ends last counts."""
        self._paused_until = max(self._paused_until, self._clock() + seconds)

    @property
    def pause_seconds(self) -> float:
        """Seconds until the present pause ends; 0 without one."""
        return max(0.0, self._paused_until - self._clock())

    async def wait(self) -> None:
        """Return when the caller may send one write."""
        # Without tokens there is no order to keep, and pauses are rare.
        if self._bucket is None and self._paused_until <= self._clock():
            return
        async with self._lock:
            # In a loop, because the pause may have been extended meanwhile.
            while (seconds := self._next_delay()) > 0:  # noqa: ASYNC110 - a time, no event
                await asyncio.sleep(seconds)

    def _next_delay(self) -> float:
        """Return the seconds to wait; 0 when a token was taken."""
        if (pause := self.pause_seconds) > 0:
            return pause
        return self._bucket.try_take() if self._bucket is not None else 0.0


class RetryRateLimiter:
    """
    The default controller rate limiter of client-go: the longer of two delays (IQ-76 to IQ-80).

    The n-th failure in a row of a key waits 5 ms x 2^(n-1), at most 1000 s; every failure also
    takes a token of the queue's bucket (10 a second, burst 100), however long its own delay is.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._failures: dict[Key, int] = {}
        self._errors: dict[Key, str] = {}
        self._bucket = TokenBucket(BUCKET_RATE, BUCKET_SIZE, clock)

    def next_delay(self, key: Key, error: str = "") -> float:
        """Record one more failure of `key` and return the seconds until its retry."""
        # The first keys that fail are those that come to fail most often: a cache that keeps the
        # latest ones would lose them in a burst of failures.
        if key in self._errors or len(self._errors) < MAX_ERRORS:
            self._errors[key] = error[:MAX_ERROR_LENGTH]
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # 2^18 x 5 ms is above the maximum; larger exponents would only overflow the float.
        backoff = min(BASE_SECONDS * (1 << min(failures, 18)), MAX_SECONDS)
        return max(backoff, self._bucket.reserve())

    def forget(self, key: Key) -> None:
        """Reset the failures of `key`: the next one waits the shortest time again."""
        self._failures.pop(key, None)
        self._errors.pop(key, None)

    def failures(self, key: Key) -> int:
        """Return the number of failures of `key` since its last success."""
        return self._failures.get(key, 0)

    def most_failing(self, limit: int) -> dict[Key, FailingKey]:
        """Return at most `limit` keys, those with the most failures in a row."""
        # Not a sort: with 100,000 failing keys that took the loop 171 ms a probe (F-42).
        most = heapq.nlargest(limit, self._failures.items(), key=itemgetter(1))
        return {key: FailingKey(failures, self._errors.get(key, "")) for key, failures in most}


#: A key that is synced more often within one window becomes hot. Above what a controller may want:
#: resourcequota coalesces the changes of a quota to at most one sync in 50 ms.
HOT_SYNCS = 250
HOT_WINDOW_SECONDS = 10.0
#: The wait between the syncs of a hot key.
HOT_WAIT_SECONDS = 0.1
#: A hot key that is synced less often within one window is hot no longer: without the wait, it
#: would now be synced about ten times a second, or less.
CALM_SYNCS = 50
#: The number of keys that are counted at the same time.
MAX_COUNTED = 1024


class HotKeys:
    """
    The keys of one queue that are synced too often.

    Such a key is the sign of a sync that writes what it watches, or of a `keys` function that
    returns a key for every change. Memory does not grow with the number of keys: as in the
    algorithm of Misra and Gries, all counts are lowered by one when there are too many of them. A
    count is then too low by less than a thousandth of all syncs, and never too high.
    """

    def __init__(self) -> None:
        self._counts: dict[Key, int] = {}
        self._window_end = 0.0
        #: The earliest time of the next sync of each hot key.
        self.due: dict[Key, float] = {}

    def count(self, key: Key, now: float) -> bool:
        """Count a sync of `key` that begins; return whether the key has become hot with it."""
        if now >= self._window_end:
            self._begin_window(now)
        counts = self._counts
        number = counts[key] = counts.get(key, 0) + 1
        if len(counts) > MAX_COUNTED:
            self._counts = {key: number - 1 for key, number in counts.items() if number > 1}
        if number <= HOT_SYNCS or key in self.due:
            return False
        self.due[key] = now
        return True

    def ended(self, key: Key, now: float) -> None:
        """Record the end of a sync: if the key is hot, the next one has to wait."""
        if key in self.due:
            self.due[key] = now + HOT_WAIT_SECONDS

    def _begin_window(self, now: float) -> None:
        counts = self._counts
        self.due = {key: due for key, due in self.due.items() if counts.get(key, 0) > CALM_SYNCS}
        self._counts = {}
        self._window_end = now + HOT_WINDOW_SECONDS

    def __len__(self) -> int:
        """Return the number of keys that are counted."""
        return len(self._counts)
