"""A work queue of keys that remembers why each key is in it."""

import asyncio
from collections import deque

import msgspec

from kcm_host.api.kinds import Key
from kcm_host.api.records import Cause
from kcm_host.api.states import QueueState
from kcm_host.api.wakes import Lane
from kcm_host.workqueue.delaying import DelayingQueue, Pending
from kcm_host.workqueue.priority import PriorityQueue
from kcm_host.workqueue.rate_limiter import RetryRateLimiter

FAILING_SHOWN = 10
#: A key that changes without end is synced after so many rests.
LONGEST_DEBOUNCE = 5


class Item(msgspec.Struct, frozen=True):
    """One key handed to a worker, with what led to it."""

    key: Key
    causes: tuple[Cause, ...]
    merged: int
    queued_seconds: float
    lane: Lane = Lane.NORMAL


class QueueShutDown(Exception):
    """No more keys will be handed out."""


class WorkQueue:
    """
    Keys in order of their first change within their lane, each at most once, never two workers
    on one key.

    Added while queued: one sync. Added while a worker has it: exactly one more sync afterwards
    (IQ-70 to IQ-73). Everything happens on one event loop, whose clock is the queue's clock.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lanes = PriorityQueue()
        self._dirty: dict[Key, Pending] = {}
        self._processing: dict[Key, float] = {}
        self._delays = DelayingQueue(loop, self._mark)
        self._getters: deque[asyncio.Future[None]] = deque()
        self._limiter = RetryRateLimiter(loop.time)
        #: Queued or running only because of the slow sweep: nobody has asked for them since.
        self._unasked: set[Key] = set()
        #: How many keys of the slow sweep no worker has taken yet.
        self._sweeping = 0
        self._all_taken = asyncio.Event()
        self._all_taken.set()
        self._closed = False
        self._adds = 0
        self._retries = 0

    def add(self, key: Key, cause: Cause, *, after: float = 0.0, lane: Lane = Lane.NORMAL) -> None:
        """
        Queue `key`, at once or `after` seconds from now.

        Of several delayed adds of one key the earliest counts (IQ-85). A delayed add and an
        immediate one are independent: the key is synced for both (IQ-86).
        """
        if self._closed:
            return
        self._unasked.discard(key)
        pending = Pending(self._loop.time(), [cause], 1, lane)
        if after > 0:
            self._delays.put(key, pending, due=pending.since + after)
        else:
            self._mark(key, pending)

    def rest(self, key: Key, cause: Cause, *, seconds: float, lane: Lane = Lane.NORMAL) -> None:
        """
        Queue `key` once it has been left alone for `seconds`, so that a burst costs one sync.

        Further calls put that off, to five times `seconds` after the first one at most.
        """
        if self._closed:
            return
        self._unasked.discard(key)
        pending = Pending(self._loop.time(), [cause], 1, lane)
        due = pending.since + seconds
        latest = pending.since + seconds * LONGEST_DEBOUNCE
        self._delays.debounce(key, pending, due=due, latest=latest)

    def sweep(self, key: Key, cause: Cause) -> None:
        """
        Queue `key` in the lowest lane, unless it is queued or running already.

        One that waits for its time, or has failed, is queued too, but not taken as unasked.
        """
        if self._closed or key in self._dirty or key in self._processing:
            return
        if key not in self._delays and not self._limiter.failures(key):
            self._unasked.add(key)
        self._sweeping += 1
        self._all_taken.clear()
        self._mark(key, Pending(self._loop.time(), [cause], 1, Lane.IDLE, swept=True))

    def is_unasked(self, key: Key) -> bool:
        """Whether `key` is queued or running only because of `sweep`."""
        return key in self._unasked

    def doubt(self, key: Key) -> None:
        """Take no write of the running sync of `key` as missed by a wake-up."""
        self._unasked.discard(key)

    async def sweep_taken(self) -> None:
        """Return when the workers have taken every key that `sweep` has queued."""
        await self._all_taken.wait()

    def retry(self, key: Key, cause: Cause, *, lane: Lane = Lane.NORMAL) -> float:
        """Queue `key` after a failure and give the seconds it waits (IQ-87)."""
        delay = self._limiter.when(key)
        self._retries += 1
        self.add(key, cause, after=delay, lane=lane)
        return delay

    def later(self, key: Key, cause: Cause, *, after: float, lane: Lane = Lane.NORMAL) -> None:
        """Queue a key again after a time its sync asked for; counted as a retry (IQ-89)."""
        self._retries += 1
        self.add(key, cause, after=after, lane=lane)

    def forget(self, key: Key) -> None:
        """Take the failures of `key` as over; a delayed add of it stays (IQ-86)."""
        self._limiter.forget(key)

    def failures(self, key: Key) -> int:
        """How often `key` failed since its last success."""
        return self._limiter.failures(key)

    async def get(self) -> Item:
        """
        Take the first key; wait until there is one.

        `done` must be called for it exactly once. Raises `QueueShutDown` when the queue is closed.
        """
        while (key := self._lanes.pop(self._stands)) is None and not self._closed:
            await self._wait_for_key()
        if key is None:
            raise QueueShutDown
        pending = self._dirty.pop(key)
        if pending.swept:
            self._sweeping -= 1
            if not self._sweeping:
                self._all_taken.set()
        now = self._loop.time()
        self._processing[key] = now
        waited = now - pending.since
        return Item(key, tuple(pending.causes), pending.merged, waited, pending.lane)

    def done(self, key: Key) -> None:
        """Say that the worker has finished with `key`; it is queued anew if it changed since."""
        del self._processing[key]
        self._unasked.discard(key)
        if key in self._dirty:
            self._append(key)

    def close(self) -> None:
        """Drop what is queued and waiting, ignore further adds, and wake every `get`."""
        self._closed = True
        self._lanes.clear()
        self._dirty.clear()
        self._delays.clear()
        self._unasked.clear()
        while self._getters:
            self._wake_one()

    def __len__(self) -> int:
        return len(self._dirty.keys() - self._processing.keys())

    def state(self) -> QueueState:
        """Give what the queue holds at this moment, for people and metrics."""
        now = self._loop.time()
        ages = [now - started for started in self._processing.values()]
        worst = self._limiter.worst(FAILING_SHOWN)
        return QueueState(
            depth=len(self._dirty),
            waiting=len(self._delays),
            processing=len(self._processing),
            adds=self._adds,
            retries=self._retries,
            unfinished_seconds=sum(ages),
            longest_seconds=max(ages, default=0.0),
            failing={str(key): failures for key, failures in worst.items()},
        )

    def _mark(self, key: Key, pending: Pending) -> None:
        known = self._dirty.get(key)
        if known is not None:
            higher = pending.lane < known.lane
            known.merge(pending)
            if higher and key not in self._processing:
                self._append(key)
            return
        self._dirty[key] = pending
        self._adds += 1
        if key not in self._processing:
            self._append(key)

    def _append(self, key: Key) -> None:
        self._lanes.push(key, self._dirty[key].lane)
        self._wake_one()

    def _stands(self, key: Key, lane: Lane) -> bool:
        pending = self._dirty.get(key)
        return pending is not None and pending.lane == lane and key not in self._processing

    async def _wait_for_key(self) -> None:
        getter = self._loop.create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            # Woken and cancelled in the same turn: the wake-up belongs to somebody else now.
            if getter.done() and not getter.cancelled() and self._lanes:
                self._wake_one()
            raise

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return
