"""Ranges and managed addresses, found by address and by range."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kcm_host_servicecidrs.models import IPAddress
from kcm_host_servicecidrs.prefixes import (
    IPV4,
    IPV6,
    Address,
    Prefix,
    first_address,
    parse_address,
    parse_prefix,
)


class Owned(NamedTuple):
    """What one ServiceCIDR holds, and the ip-family labels that stand for it (SC-93)."""

    prefixes: tuple[Prefix, ...] = ()
    labels: frozenset[str] = frozenset()


class Ranges:
    """
    What every ServiceCIDR holds, those being deleted and not ready included (SC-44).

    Ranges of one length never overlap in part, so whoever holds an address or a range is found
    by one look for each length in use, of which there are few.
    """

    def __init__(self) -> None:
        self._owned: dict[str, Owned] = {}
        #: (family, bits) -> first address -> names; a name stands once for each range (SC-45).
        self._lengths: dict[tuple[int, int], dict[int, list[str]]] = {}

    def put(self, name: str, cidrs: Sequence[str]) -> None:
        """Take the ranges of one ServiceCIDR in place of those it had (SC-32)."""
        self.remove(name)
        parsed = [parse_prefix(text) for text in cidrs]
        prefixes = tuple(prefix for prefix in parsed if prefix is not None)
        self._owned[name] = Owned(prefixes, frozenset(map(_label, parsed)))
        for prefix in prefixes:
            length = self._lengths.setdefault((prefix.family, prefix.bits), {})
            length.setdefault(prefix.first, []).append(name)

    def remove(self, name: str) -> None:
        """Forget one ServiceCIDR."""
        for prefix in self._owned.pop(name, Owned()).prefixes:
            length = self._lengths[prefix.family, prefix.bits]
            length[prefix.first].remove(name)
            if not length[prefix.first]:
                del length[prefix.first]
            if not length:
                del self._lengths[prefix.family, prefix.bits]

    def of(self, name: str) -> Owned:
        """Give what one ServiceCIDR holds; nothing if it is not known."""
        return self._owned.get(name, Owned())

    def holding(self, prefix: Prefix) -> list[str]:
        """Give who holds all of a range, in one as large or larger (SC-41, SC-45)."""
        found: list[str] = []
        for own, names in self._around(prefix.family, prefix.first):
            if own.bits <= prefix.bits:
                found += names
        return found

    def serving(self, address: Address) -> list[str]:
        """Give whose ranges a Service could have this address from (SC-42, SC-45)."""
        found: list[str] = []
        for own, names in self._around(address.family, address.value):
            if own.serves(address):
                found += names
        return found

    def _around(self, family: int, value: int) -> Iterator[tuple[Prefix, list[str]]]:
        """Give each range that an address lies in, with its owners."""
        for (own_family, bits), firsts in self._lengths.items():
            if own_family == family:
                first = first_address(family, value, bits=bits)
                if names := firsts.get(first):
                    yield Prefix(family, first, bits), names


def _label(prefix: Prefix | None) -> str:
    if prefix is None:
        return ""
    return "IPv4" if prefix.family == IPV4 else "IPv6"


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
