"""The priority queue: which of the queued keys is next."""

from collections import deque
from collections.abc import Callable

from kcm_host.api.kinds import Key
from kcm_host.api.watch import Priority

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
                self._count_passed_over(priority)
                return key
        return None

    def clear(self) -> None:
        """Remove all keys."""
        for keys in self._keys:
            keys.clear()

    def __bool__(self) -> bool:
        return any(self._keys)

    def _next_priority(self) -> Priority | None:
        non_empty = [priority for priority in Priority if self._keys[priority]]
        for priority in non_empty:
            if self._passed_over[priority] >= STARVATION_LIMIT:
                return priority
        return non_empty[0] if non_empty else None

    def _count_passed_over(self, taken: Priority) -> None:
        self._passed_over[taken] = 0
        for priority in Priority:
            if priority > taken and self._keys[priority]:
                self._passed_over[priority] += 1
