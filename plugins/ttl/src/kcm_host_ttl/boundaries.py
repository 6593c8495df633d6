"""The number of seconds that kubelets may cache, from the number of nodes alone; no I/O."""

import re
from typing import NamedTuple


class Boundary(NamedTuple):
    """One row of the boundary table: a range of cluster sizes and its seconds."""

    size_min: int
    size_max: int
    ttl_seconds: int


#: The rows overlap, so that a cluster whose size is near a boundary does not alternate (TTL-82).
BOUNDARIES = (
    Boundary(0, 100, 0),
    Boundary(90, 500, 15),
    Boundary(450, 1000, 30),
    Boundary(900, 2000, 60),
    Boundary(1800, 2**31 - 1, 300),
)

#: No 64-bit number has more than 19 digits after its leading zeros; longer texts need no parsing.
#: The possessive `0*+` avoids quadratic time for a text of 300 kB of zeros.
_INTEGER = re.compile(r"([+-]?)(?=[0-9])0*+([0-9]{0,19})")
_INT64 = range(-(2**63), 2**63)


class NodeCount:
    """The number of nodes and the boundary step, at most one step per node (TTL-20 to TTL-24)."""

    def __init__(self) -> None:
        self.nodes = 0
        self._boundary_step = 0

    @property
    def ttl_seconds(self) -> int:
        """The value that every node should have at this count."""
        return BOUNDARIES[self._boundary_step].ttl_seconds

    def add(self, nodes: int = 1) -> None:
        """Count so many nodes more, one after the other."""
        for _ in range(nodes):
            self.nodes += 1
            if self.nodes > BOUNDARIES[self._boundary_step].size_max:
                self._boundary_step += 1

    def remove(self) -> None:
        """
        Count one node less.

        Raises `ValueError` below zero, with nothing changed: a step of -1 would mean the last
        row (TTL-29).
        """
        if self.nodes == 0:
            raise ValueError("a node was deleted although none was counted")
        self.nodes -= 1
        if self.nodes < BOUNDARIES[self._boundary_step].size_min:
            self._boundary_step -= 1


def parse_seconds(text: str | None) -> int | None:
    """
    Return the number in an annotation as Go's integer parser reads it; None if there is none.

    A sign and leading zeros are accepted (TTL-40); white space, units, digits other than ASCII and
    values beyond 64 bits are not (TTL-41).
    """
    found = _INTEGER.fullmatch(text) if text is not None else None
    if found is None:
        return None
    value = int(f"{found[1]}0{found[2]}")
    return value if value in _INT64 else None
