"""Addresses and ranges as numbers, with strict parsing."""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

IPV4, IPV6 = 4, 6
#: Bits of an address.
WIDTH = {IPV4: 32, IPV6: 128}

_BITS = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)


class Address(NamedTuple):
    """One address: its family and its value."""

    family: int
    value: int


class Prefix(NamedTuple):
    """One range: its family, its first address (host bits cleared) and its length in bits."""

    family: int
    first: int
    bits: int

    @property
    def last(self) -> int:
        """The last address of the range."""
        return self.first + (1 << (WIDTH[self.family] - self.bits)) - 1

    def overlaps(self, other: "Prefix") -> bool:
        """Return whether both are of one family and share an address (SC-40)."""
        return self.family == other.family and self.first <= other.last and other.first <= self.last

    def contains(self, address: Address) -> bool:
        """
        Return whether a Service can have this address from this range (SC-43).

        The network address, and in IPv4 the broadcast address, are not contained.
        """
        if self.family != address.family or not self.first < address.value <= self.last:
            return False
        return self.family == IPV6 or address.value < self.last


def first_address(family: int, value: int, *, bits: int) -> int:
    """Return the first address of the range of this length around an address."""
    size = 1 << (WIDTH[family] - bits)
    return value - value % size


def parse_address(text: str) -> Address | None:
    """
    Return the address that a text means, None if it means none (SC-31).

    An address with a zone lies in no range: None.
    """
    parsed = _parsed(text)
    return None if parsed is None else Address(parsed.version, int(parsed))


def parse_prefix(text: str) -> Prefix | None:
    """Return the range `address/bits`, host bits set or not; None for other texts (SC-30)."""
    head, _, tail = text.partition("/")
    parsed = _parsed(head)
    if parsed is None or not _BITS.fullmatch(tail):
        return None
    family, bits = parsed.version, int(tail)
    if bits > WIDTH[family]:
        return None
    return Prefix(family, first_address(family, int(parsed), bits=bits), bits)


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return None if "%" in text else ip_address(text)
    except ValueError:
        return None
