"""How long kubelets may cache, from the number of nodes alone; no I/O."""

import re
from typing import NamedTuple


class Step(NamedTuple):
    """One row of the boundary table: the node counts it holds for, and its seconds."""

    low: int
    high: int
    seconds: int


#: The rows overlap, so that a cluster at a border does not flap (TTL-82).
STEPS = (
    Step(0, 100, 0),
    Step(90, 500, 15),
    Step(450, 1000, 30),
    Step(900, 2000, 60),
    Step(1800, 2**31 - 1, 300),
)

#: No 64-bit number has more than 19 digits after its zeros; a longer text need not be computed.
#: Zeros once taken are not given back, or 300 kB of them would be tried again and again.
_INTEGER = re.compile(r"([+-]?)(?=[0-9])0*+([0-9]{0,19})")
_INT64 = range(-(2**63), 2**63)


class NodeCount:
    """Counts nodes and walks the table, at most one step for each node (TTL-20 to TTL-24)."""

    def __init__(self) -> None:
        self.nodes = 0
        self._step = 0

    @property
    def seconds(self) -> int:
        """The value every node should carry at this count."""
        return STEPS[self._step].seconds

    def add(self, nodes: int = 1) -> None:
        """Count so many nodes more, one after the other."""
        for _ in range(nodes):
            self.nodes += 1
            if self.nodes > STEPS[self._step].high:
                self._step += 1

    def remove(self) -> None:
        """
        Count one node less.

        Raises `ValueError` below zero, with nothing changed: a step of -1 would mean the last
        row (TTL-29).
        """
        if self.nodes == 0:
            raise ValueError("a node was deleted although none was counted")
        self.nodes -= 1
        if self.nodes < STEPS[self._step].low:
            self._step -= 1


def parse_seconds(text: str | None) -> int | None:
    """
    Read an annotation as Go's integer parser does (TTL-40); None when absent or no number.

    A sign and leading zeros are fine; white space, units, other digits than ASCII and values
    beyond 64 bit are not (TTL-41).
    """
    found = _INTEGER.fullmatch(text) if text is not None else None
    if found is None:
        return None
    value = int(f"{found[1]}0{found[2]}")
    return value if value in _INT64 else None
