"""Ranges of ServiceCIDRs and managed IPAddresses, indexed by address."""

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


class CidrRanges(NamedTuple):
    """The ranges of one ServiceCIDR, and the ip-family labels that match them (SC-93)."""

    prefixes: tuple[Prefix, ...] = ()
    labels: frozenset[str] = frozenset()


class CidrIndex:
    """
    The ranges of all ServiceCIDRs, those being deleted and not ready included (SC-44).

    Ranges of one length never overlap in part, so the ranges around an address or a range are found
    by one lookup for each length in use, of which there are few.
    """

    def __init__(self) -> None:
        self._ranges: dict[str, CidrRanges] = {}
        #: (family, bits) -> first address -> names; a name occurs once for each range (SC-45).
        self._lengths: dict[tuple[int, int], dict[int, list[str]]] = {}

    def put(self, name: str, cidrs: Sequence[str]) -> None:
        """Replace the ranges of one ServiceCIDR (SC-32)."""
        self.remove(name)
        parsed = [parse_prefix(text) for text in cidrs]
        prefixes = tuple(prefix for prefix in parsed if prefix is not None)
        self._ranges[name] = CidrRanges(prefixes, frozenset(map(_label, parsed)))
        for prefix in prefixes:
            length = self._lengths.setdefault((prefix.family, prefix.bits), {})
            length.setdefault(prefix.first, []).append(name)

    def remove(self, name: str) -> None:
        """Remove one ServiceCIDR."""
        for prefix in self._ranges.pop(name, CidrRanges()).prefixes:
            length = self._lengths[prefix.family, prefix.bits]
            length[prefix.first].remove(name)
            if not length[prefix.first]:
                del length[prefix.first]
            if not length:
                del self._lengths[prefix.family, prefix.bits]

    def get(self, name: str) -> CidrRanges:
        """Return the ranges of one ServiceCIDR; none if it does not exist."""
        return self._ranges.get(name, CidrRanges())

    def containing_prefix(self, prefix: Prefix) -> list[str]:
        """Return the ServiceCIDRs with a range that contains all of this one (SC-41, SC-45)."""
        found: list[str] = []
        for other, names in self._around(prefix.family, prefix.first):
            if other.bits <= prefix.bits:
                found += names
        return found

    def containing_address(self, address: Address) -> list[str]:
        """Return the ServiceCIDRs that a Service could have this address from (SC-42, SC-45)."""
        found: list[str] = []
        for prefix, names in self._around(address.family, address.value):
            if prefix.contains(address):
                found += names
        return found

    def _around(self, family: int, value: int) -> Iterator[tuple[Prefix, list[str]]]:
        """Return each range around an address, with the names of its ServiceCIDRs."""
        for (range_family, bits), firsts in self._lengths.items():
            if range_family == family:
                first = first_address(family, value, bits=bits)
                if names := firsts.get(first):
                    yield Prefix(family, first, bits), names


def _label(prefix: Prefix | None) -> str:
    if prefix is None:
        return ""
    return "IPv4" if prefix.family == IPV4 else "IPv6"


class ManagedAddress(NamedTuple):
    """One managed address with its ip-family label, which may be wrong."""

    address: Address
    label: str | None


class AddressIndex:
    """
    The addresses that the API server's allocator manages, in order.

    An IPAddress that the allocator does not manage, or whose name is no address, is not included
    (SC-26, SC-94). Several names may mean one address.
    """

    def __init__(self) -> None:
        self._managed: dict[str, ManagedAddress] = {}
        self._ordered: dict[int, list[tuple[int, str]]] = {IPV4: [], IPV6: []}
        #: Not yet in `_ordered`: the addresses of a long first list are sorted once.
        self._unsorted: set[str] = set()

    def put(self, name: str, state: IPAddress) -> ManagedAddress | None:
        """Replace the state of an IPAddress; return its address, None if it is not managed."""
        self.remove(name)
        address = parse_address(name) if state.managed else None
        if address is None:
            return None
        self._unsorted.add(name)
        return self._managed.setdefault(name, ManagedAddress(address, state.family))

    def remove(self, name: str) -> ManagedAddress | None:
        """Remove an IPAddress; return the address it had, None if it was not managed."""
        managed = self._managed.pop(name, None)
        if managed is None:
            return None
        if name in self._unsorted:
            self._unsorted.remove(name)
        else:
            ordered = self._ordered[managed.address.family]
            del ordered[bisect_left(ordered, (managed.address.value, name))]
        return managed

    def within(self, prefix: Prefix, *, labels: frozenset[str]) -> Iterator[tuple[str, Address]]:
        """Return name and value of each address in a range that has one of the labels."""
        self._sort()
        ordered = self._ordered[prefix.family]
        start = bisect_left(ordered, (prefix.first,))
        end = bisect_left(ordered, (prefix.last + 1,))
        for position in range(start, end):
            name = ordered[position][1]
            managed = self._managed[name]
            if managed.label in labels:
                yield name, managed.address

    def _sort(self) -> None:
        """Sort new addresses in: one by one when there are few, all at once otherwise."""
        few = len(self._unsorted) < len(self._managed) // 100
        for name in self._unsorted:
            address = self._managed[name].address
            ordered = self._ordered[address.family]
            if few:
                insort(ordered, (address.value, name))
            else:
                ordered.append((address.value, name))
        if self._unsorted and not few:
            for ordered in self._ordered.values():
                ordered.sort()
        self._unsorted.clear()

    def __len__(self) -> int:
        return len(self._managed)
