"""Hot keys: keys that are synced again and again without an end."""

from kcm_host.api.kinds import Key

#: A key that is synced more often within one window becomes hot. Above what a controller may want:
#: resourcequota coalesces the changes of a quota to at most one sync in 50 ms.
MAX_SYNCS = 250
WINDOW_SECONDS = 10.0
#: The wait between the syncs of a hot key.
WAIT_SECONDS = 0.1
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
        if number <= MAX_SYNCS or key in self.due:
            return False
        self.due[key] = now
        return True

    def ended(self, key: Key, now: float) -> None:
        """Record the end of a sync: if the key is hot, the next one has to wait."""
        if key in self.due:
            self.due[key] = now + WAIT_SECONDS

    def _begin_window(self, now: float) -> None:
        counts = self._counts
        self.due = {key: due for key, due in self.due.items() if counts.get(key, 0) > CALM_SYNCS}
        self._counts = {}
        self._window_end = now + WINDOW_SECONDS

    def __len__(self) -> int:
        """Return the number of keys that are counted."""
        return len(self._counts)
