"""The rules of the queue, written as plainly as possible: what the real one is compared with."""

from kcm_host.api.kinds import Key


class NaiveQueue:
    """Lists and sets that are searched; no wake-ups, timers or heaps."""

    def __init__(self) -> None:
        self.order: list[Key] = []
        #: Key -> how many adds it stands for.
        self.dirty: dict[Key, int] = {}
        self.processing: list[Key] = []
        #: Key -> when it is due, number of the add that set it, how many adds it stands for.
        self.waiting: dict[Key, tuple[float, int, int]] = {}
        self.getters = 0
        self.handed: list[tuple[Key, int]] = []
        self._number = 0

    def add(self, key: Key, *, adds: int = 1) -> None:
        """IQ-70."""
        if key in self.dirty:
            self.dirty[key] += adds
            return
        self.dirty[key] = adds
        if key not in self.processing:
            self.order.append(key)

    def add_after(self, key: Key, due: float) -> None:
        """IQ-85: the earliest time counts."""
        self._number += 1
        known = self.waiting.get(key)
        if known is None:
            self.waiting[key] = (due, self._number, 1)
        elif known[0] <= due:
            self.waiting[key] = (known[0], known[1], known[2] + 1)
        else:
            self.waiting[key] = (due, self._number, known[2] + 1)

    def done(self, key: Key) -> None:
        """IQ-72."""
        self.processing.remove(key)
        if key in self.dirty:
            self.order.append(key)

    def hand_out(self) -> None:
        """IQ-71: as many keys as there are getters."""
        while self.order and self.getters:
            self.getters -= 1
            key = self.order.pop(0)
            self.processing.append(key)
            self.handed.append((key, self.dirty.pop(key)))

    def advance(self, now: float) -> None:
        """IQ-88: everything due until now, in the order of its time."""
        for due in sorted({due for due, _, _ in self.waiting.values() if due <= now}):
            at_once = [(entry[1], key) for key, entry in self.waiting.items() if entry[0] == due]
            for _, key in sorted(at_once, key=lambda pair: pair[0]):
                self.add(key, adds=self.waiting.pop(key)[2])
            self.hand_out()
