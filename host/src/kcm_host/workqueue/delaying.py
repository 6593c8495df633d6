"""The delaying queue: keys that wait for their time, each with the causes gathered for it."""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

import msgspec

from kcm_host.api.kinds import Key
from kcm_host.api.records import Cause
from kcm_host.api.wakes import Lane

MAX_CAUSES = 16


class Pending(msgspec.Struct):
    """
    Causes gathered for one key; `merged` counts those not kept too, `since` is loop time.

    `lane` is the highest it was asked for. `swept` says that the slow sweep was the first to ask.
    """

    since: float
    causes: list[Cause]
    merged: int
    lane: Lane = Lane.NORMAL
    swept: bool = False

    def merge(self, other: "Pending") -> None:
        """Add the causes of `other`, keeping the first 16, and take the higher lane."""
        self.causes.extend(other.causes[: MAX_CAUSES - len(self.causes)])
        self.merged += other.merged
        self.lane = min(self.lane, other.lane)


class Waiting(msgspec.Struct):
    """
    One waiting key: when it is due now, and until when further changes may put that off.

    `pushed` is the time under which it stands in the heap; other entries of it there are stale.
    """

    due: float
    latest: float
    pending: Pending
    pushed: float = 0.0


class DelayingQueue:
    """Hands keys to `release` when they are due, in order of due times (IQ-88)."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, release: Callable[[Key, Pending], None]
    ) -> None:
        self._loop = loop
        self._release = release
        self._waiting: dict[Key, Waiting] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None

    def put(self, key: Key, pending: Pending, *, due: float) -> None:
        """Let `key` wait until `due`; if it waits already, until the earlier of both (IQ-85)."""
        known = self._waiting.get(key)
        if known is None:
            self._enter(key, Waiting(due, due, pending))
            return
        known.pending.merge(pending)
        known.latest = min(known.latest, due)
        self._move(key, known, min(known.due, due))

    def debounce(self, key: Key, pending: Pending, *, due: float, latest: float) -> None:
        """
        Let `key` wait until `due`, later again at each further call, but not beyond `latest`.

        `latest` counts from the first call; a `put` meanwhile bounds it too.
        """
        known = self._waiting.get(key)
        if known is None:
            self._enter(key, Waiting(due, latest, pending))
            return
        known.pending.merge(pending)
        self._move(key, known, min(due, known.latest))

    def __contains__(self, key: Key) -> bool:
        return key in self._waiting

    def clear(self) -> None:
        """Forget everything that waits."""
        self._waiting.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()

    def __len__(self) -> int:
        return len(self._waiting)

    def _enter(self, key: Key, waiting: Waiting) -> None:
        self._waiting[key] = waiting
        self._push(key, waiting)

    def _move(self, key: Key, known: Waiting, due: float) -> None:
        known.due = due
        # A later time is noticed when the earlier one comes: bursts cost no heap operations.
        if due < known.pushed:
            self._push(key, known)

    def _push(self, key: Key, waiting: Waiting) -> None:
        waiting.pushed = waiting.due
        heapq.heappush(self._heap, (waiting.due, next(self._numbers), key))
        if self._heap[0][0] == waiting.due:
            self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._heap[0][0], self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._heap and self._heap[0][0] <= now:
            pushed, _, key = heapq.heappop(self._heap)
            waiting = self._waiting.get(key)
            if waiting is None or waiting.pushed != pushed:
                continue
            if waiting.due > now:
                self._push(key, waiting)
                continue
            del self._waiting[key]
            waiting.pending.since = now
            self._release(key, waiting.pending)
        if self._heap:
            self._arm()
