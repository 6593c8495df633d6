"""The ranges of all ServiceCIDRs, found without looking at each of them."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kcm_host_servicecidrs.prefixes import IPV4, Address, Prefix, first_address, parse_prefix


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
