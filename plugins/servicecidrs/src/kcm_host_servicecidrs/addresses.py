"""The IPAddresses that the API server's allocator manages, found by range."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple

from kcm_host_servicecidrs.model import IPAddress
from kcm_host_servicecidrs.prefixes import IPV4, IPV6, Address, Prefix, parse_address


class Managed(NamedTuple):
    """One managed address with its ip-family label, which need not be true."""

    address: Address
    label: str | None


class Addresses:
    """
    Managed addresses in order.

    An object that the allocator does not manage, or whose name is no address, is not in it
    (SC-26, SC-94). Several names may mean one address.
    """

    def __init__(self) -> None:
        self._known: dict[str, Managed] = {}
        self._ordered: dict[int, list[tuple[int, str]]] = {IPV4: [], IPV6: []}
        #: Not yet put in order: a first list of many is sorted once.
        self._fresh: set[str] = set()

    def put(self, name: str, state: IPAddress) -> Managed | None:
        """Take an object's present state and return its address, None if it is not managed."""
        self.remove(name)
        address = parse_address(name) if state.managed else None
        if address is None:
            return None
        self._fresh.add(name)
        return self._known.setdefault(name, Managed(address, state.family))

    def remove(self, name: str) -> Managed | None:
        """Forget an object and return the address it had, None if it was not managed."""
        known = self._known.pop(name, None)
        if known is None:
            return None
        if name in self._fresh:
            self._fresh.remove(name)
        else:
            ordered = self._ordered[known.address.family]
            del ordered[bisect_left(ordered, (known.address.value, name))]
        return known

    def within(self, prefix: Prefix, *, labels: frozenset[str]) -> Iterator[tuple[str, Address]]:
        """Give name and value of each address in a range whose ip-family label is one of these."""
        self._sort()
        ordered = self._ordered[prefix.family]
        start = bisect_left(ordered, (prefix.first,))
        end = bisect_left(ordered, (prefix.last + 1,))
        for position in range(start, end):
            name = ordered[position][1]
            known = self._known[name]
            if known.label in labels:
                yield name, known.address

    def _sort(self) -> None:
        """Put new ones in order: one by one when they are few, all at once otherwise."""
        few = len(self._fresh) < len(self._known) // 100
        for name in self._fresh:
            address = self._known[name].address
            ordered = self._ordered[address.family]
            if few:
                insort(ordered, (address.value, name))
            else:
                ordered.append((address.value, name))
        if self._fresh and not few:
            for ordered in self._ordered.values():
                ordered.sort()
        self._fresh.clear()

    def __len__(self) -> int:
        return len(self._known)
