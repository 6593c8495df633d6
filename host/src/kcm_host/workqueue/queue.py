"""The work queue of one controller: deduplicated keys by priority, with their causes."""

import asyncio
from collections import deque
from collections.abc import Callable

import msgspec

from kcm_host.api.kinds import Key
from kcm_host.api.sync import Cause
from kcm_host.api.watch import Priority
from kcm_host.observe.states import QueueState
from kcm_host.workqueue.delaying import DelayingQueue, Pending
from kcm_host.workqueue.rate_limiter import HotKeys, RetryRateLimiter

MOST_FAILING_SHOWN = 10
#: The longest that a debounce defers a key, as a multiple of its interval.
MAX_DEBOUNCE_INTERVALS = 5


class Item(msgspec.Struct, frozen=True):
    """One key handed to a worker, with the causes that led to it."""

    key: Key
    causes: tuple[Cause, ...]
    merged: int
    queued_seconds: float
    priority: Priority = Priority.NORMAL
    #: Whether the key has become hot with this sync, see `HotKeys`.
    is_newly_hot: bool = False


class QueueShutDown(Exception):
    """The queue was shut down: no more keys are handed out."""


class WorkQueue:
    """
    Keys in the order of their first add within their priority, each at most once.

    No two workers have the same key. A key that is added while queued is synced once; one that is
    added while a worker has it is synced exactly once more afterwards (IQ-70 to IQ-73). Everything
    happens on one event loop, whose clock is the clock of the queue.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ready = PriorityQueue()
        self._dirty: dict[Key, Pending] = {}
        self._processing: dict[Key, float] = {}
        self._delayed = DelayingQueue(loop, self._mark_dirty)
        self._getters: deque[asyncio.Future[None]] = deque()
        self._rate_limiter = RetryRateLimiter(loop.time)
        self._hot_keys = HotKeys()
        #: Hot keys that are dirty and wait for the time of their next sync.
        self._deferred: set[Key] = set()
        #: Queued or processing, and requested by nothing but the resync.
        self._resync_only: set[Key] = set()
        #: How many keys of the resync no worker has taken yet.
        self._resync_pending = 0
        self._resync_taken = asyncio.Event()
        self._resync_taken.set()
        self._shut_down = False
        self._adds = 0
        self._retries = 0

    def add(
        self, key: Key, cause: Cause, *, after: float = 0.0, priority: Priority = Priority.NORMAL
    ) -> None:
        """
        Queue `key`, at once or `after` seconds from now.

        Of several delayed adds of one key the earliest counts (IQ-85). A delayed add and an
        immediate one are independent: the key is synced for both (IQ-86).
        """
        if self._shut_down:
            return
        # Before the queue is looked at: a change of the object explains whatever its sync writes.
        self._resync_only.discard(key)
        pending = Pending(since=self._loop.time(), causes=[cause], merged=1, priority=priority)
        if after > 0:
            self._delayed.add(key, pending, due=pending.since + after)
        else:
            self._mark_dirty(key, pending)

    def debounce(
        self, key: Key, cause: Cause, *, seconds: float, priority: Priority = Priority.NORMAL
    ) -> None:
        """
        Queue `key` when no further call has come for `seconds`, so that a burst costs one sync.

        Further calls defer it, to five times `seconds` after the first one at most.
        """
        if self._shut_down:
            return
        self._resync_only.discard(key)
        pending = Pending(since=self._loop.time(), causes=[cause], merged=1, priority=priority)
        due = pending.since + seconds
        latest = pending.since + seconds * MAX_DEBOUNCE_INTERVALS
        self._delayed.debounce(key, pending, due=due, latest=latest)

    def add_resync(self, key: Key, cause: Cause) -> None:
        """
        Queue `key` at the lowest priority, unless it is queued or processing already.

        A key that is delayed, or has failed, is queued too, but not taken as resync only.
        """
        if self._shut_down or key in self._dirty or key in self._processing:
            return
        # Such a key would be synced without the resync too, only later: what it writes is no missed
        # wake-up.
        if key not in self._delayed and not self._rate_limiter.failures(key):
            self._resync_only.add(key)
        self._resync_pending += 1
        self._resync_taken.clear()
        pending = Pending(
            since=self._loop.time(), causes=[cause], merged=1, priority=Priority.IDLE, resync=True
        )
        self._mark_dirty(key, pending)

    def is_resync_only(self, key: Key) -> bool:
        """Return whether nothing but `add_resync` requested `key`, queued or processing."""
        return key in self._resync_only

    def clear_resync_only(self, key: Key) -> None:
        """Treat `key` as requested by more than the resync: its writes are no missed wake-ups."""
        self._resync_only.discard(key)

    async def wait_resync_taken(self) -> None:
        """Return when the workers have taken every key that `add_resync` queued."""
        await self._resync_taken.wait()

    def add_rate_limited(
        self, key: Key, cause: Cause, *, priority: Priority = Priority.NORMAL, error: str = ""
    ) -> float:
        """Queue `key` after a failure and return the seconds until its retry (IQ-87)."""
        delay = self._rate_limiter.next_delay(key, error)
        self._retries += 1
        self.add(key, cause, after=delay, priority=priority)
        return delay

    def add_after(
        self, key: Key, cause: Cause, *, after: float, priority: Priority = Priority.NORMAL
    ) -> None:
        """Queue `key` after the time that its sync requested; counted as a retry (IQ-89)."""
        self._retries += 1
        self.add(key, cause, after=after, priority=priority)

    def forget(self, key: Key) -> None:
        """Reset the failures of `key`; a delayed add of it stays (IQ-86)."""
        self._rate_limiter.forget(key)

    def failures(self, key: Key) -> int:
        """Return the number of failures of `key` since its last success."""
        return self._rate_limiter.failures(key)

    async def get(self) -> Item:
        """
        Return the next key; wait until there is one.

        `done` must be called for it exactly once. Raises `QueueShutDown` after `shut_down`.
        """
        # In a loop: another worker may have taken the key before this one was woken.
        while (key := self._ready.pop(self._is_current)) is None and not self._shut_down:
            await self._wait_for_key()
        if key is None:
            raise QueueShutDown
        pending = self._dirty.pop(key)
        if pending.resync:
            self._resync_pending -= 1
            if not self._resync_pending:
                self._resync_taken.set()
        now = self._loop.time()
        self._processing[key] = now
        queued_seconds = now - pending.since
        causes = tuple(pending.causes)
        is_newly_hot = self._hot_keys.count(key, now)
        return Item(
            key=key,
            causes=causes,
            merged=pending.merged,
            queued_seconds=queued_seconds,
            priority=pending.priority,
            is_newly_hot=is_newly_hot,
        )

    def done(self, key: Key) -> None:
        """Record that the worker has finished `key`; it is queued again if it was added since."""
        del self._processing[key]
        self._resync_only.discard(key)
        if self._hot_keys.due:
            self._hot_keys.ended(key, self._loop.time())
        # It was added while its worker had it: exactly one more sync (IQ-72).
        if key in self._dirty:
            self._push(key)

    def shut_down(self) -> None:
        """Remove all queued and delayed keys, ignore further adds, and end every `get`."""
        self._shut_down = True
        self._ready.clear()
        self._dirty.clear()
        self._delayed.clear()
        self._resync_only.clear()
        while self._getters:
            self._notify_getter()

    def __len__(self) -> int:
        return len(self._dirty.keys() - self._processing.keys())

    def state(self) -> QueueState:
        """Return what the queue holds at this moment, for `/status` and metrics."""
        now = self._loop.time()
        ages = [now - started for started in self._processing.values()]
        failing = self._rate_limiter.most_failing(MOST_FAILING_SHOWN)
        return QueueState(
            depth=len(self._dirty),
            waiting=len(self._delayed),
            processing=len(self._processing),
            adds=self._adds,
            retries=self._retries,
            unfinished_seconds=sum(ages),
            longest_seconds=max(ages, default=0.0),
            failing={str(key): failing_key for key, failing_key in failing.items()},
        )

    def _mark_dirty(self, key: Key, pending: Pending) -> None:
        queued = self._dirty.get(key)
        if queued is not None:
            is_raised = pending.priority < queued.priority
            queued.merge(pending)
            if is_raised and key not in self._processing:
                self._push(key)
            return
        self._dirty[key] = pending
        self._adds += 1
        if key not in self._processing:
            self._push(key)

    def _push(self, key: Key) -> None:
        if self._hot_keys.due and self._defer_hot(key):
            return
        self._ready.push(key, self._dirty[key].priority)
        self._notify_getter()

    def _defer_hot(self, key: Key) -> bool:
        """Return whether `key` is hot and has to wait; it is pushed again after that time."""
        due = self._hot_keys.due.get(key, 0.0)
        if due <= self._loop.time():
            return False
        if key not in self._deferred:
            # Not in the delaying queue: a delayed add of the key is a sync of its own (IQ-86).
            self._deferred.add(key)
            self._loop.call_at(due, self._push_deferred, key)
        return True

    def _push_deferred(self, key: Key) -> None:
        self._deferred.discard(key)
        if key in self._dirty and key not in self._processing:
            self._push(key)

    def _is_current(self, key: Key, priority: Priority) -> bool:
        pending = self._dirty.get(key)
        return pending is not None and pending.priority == priority and key not in self._processing

    async def _wait_for_key(self) -> None:
        getter = self._loop.create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            # Notified and cancelled in the same iteration of the loop: notify another getter.
            if getter.done() and not getter.cancelled() and self._ready:
                self._notify_getter()
            raise

    def _notify_getter(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return


#: After so many keys of higher priorities, one key of a lower priority is next.
STARVATION_LIMIT = 8


class PriorityQueue:
    """
    Keys in FIFO order within each priority, higher priorities first, without starvation.

    A key whose priority was raised keeps a stale entry at its old priority. `pop` asks
    `is_current` to skip stale entries, because that is cheaper than a search for them.
    """

    def __init__(self) -> None:
        self._keys: tuple[deque[Key], ...] = tuple(deque() for _ in Priority)
        # An iteration over the enumeration itself takes longer than the rest of `pop`.
        self._priorities = tuple(Priority)
        #: By priority, how many keys of higher priorities were taken while one waited there.
        self._passed_over = [0] * len(Priority)

    def push(self, key: Key, priority: Priority) -> None:
        """Append a key to those of a priority."""
        self._keys[priority].append(key)

    def pop(self, is_current: Callable[[Key, Priority], bool]) -> Key | None:
        """Remove and return the next key whose entry is current; None when there is none."""
        while (priority := self._next_priority()) is not None:
            key = self._keys[priority].popleft()
            if is_current(key, priority):
                self._count_passed_over(priority, is_current)
                return key
        return None

    def clear(self) -> None:
        """Remove all keys."""
        for keys in self._keys:
            keys.clear()

    def __bool__(self) -> bool:
        return any(self._keys)

    def _next_priority(self) -> Priority | None:
        highest = None
        for priority in self._priorities:
            if self._keys[priority]:
                if self._passed_over[priority] >= STARVATION_LIMIT:
                    return priority
                if highest is None:
                    highest = priority
        return highest

    def _count_passed_over(
        self, taken: Priority, is_current: Callable[[Key, Priority], bool]
    ) -> None:
        self._passed_over[taken] = 0
        for priority in self._priorities[taken + 1 :]:
            keys = self._keys[priority]
            # A stale entry is no key that waits.
            while keys and not is_current(keys[0], priority):
                keys.popleft()
            if keys:
                self._passed_over[priority] += 1
