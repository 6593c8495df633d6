"""How addresses and ranges are read and compared, as tables against pure functions."""

import pytest
from plugins.tables import row

from kcm_host_servicecidrs.prefixes import (
    IPV4,
    IPV6,
    Address,
    Prefix,
    first_address,
    parse_address,
    parse_prefix,
)

#: 10.0.0.0 and 2001:db8:: as numbers.
TEN, DB8 = 10 << 24, 0x2001_0DB8 << 96


@pytest.mark.parametrize(
    ("text", "prefix"),
    [
        row("IPv4", "10.0.0.0/24", Prefix(IPV4, TEN, 24)),
        row("host bits stand for the network", "10.0.0.5/24", Prefix(IPV4, TEN, 24)),
        row("one address", "10.0.0.5/32", Prefix(IPV4, TEN + 5, 32)),
        row("all of IPv4", "10.0.0.5/0", Prefix(IPV4, 0, 0)),
        row("IPv6", "2001:db8::/112", Prefix(IPV6, DB8, 112)),
        row("IPv6 in another text form", "2001:DB8:0:0::7/64", Prefix(IPV6, DB8, 64)),
        row("all of IPv6", "::/0", Prefix(IPV6, 0, 0)),
        row("mapped", "::ffff:10.0.0.0/120", Prefix(IPV6, (0xFFFF << 32) + TEN, 120)),
        row("one IPv6 address", "::1/128", Prefix(IPV6, 1, 128)),
    ],
)
def test_a_range_is_an_address_and_a_length(text: str, prefix: Prefix) -> None:
    """0-32 or 0-128 bits after any address; what lies behind the length is cleared (SC-30)."""
    assert parse_prefix(text) == prefix


@pytest.mark.parametrize(
    "text",
    [
        *("", "/", "/24", "range", "10.0.0.0", "10.0.0.0/"),
        *("10.0.0.0/ 24", " 10.0.0.0/24", "10.0.0.0/24\n", "10.0.0.0/24/24"),
        *("10.0.0.0/+24", "10.0.0.0/-1", "10.0.0.0/024", "10.0.0.0/00", "10.0.0.0/\u0662\u0664"),
        *("10.0.0.0/33", "10.0.0.0/128", "10.0.0.0/1000", "10.0.0.0/255.255.255.0"),
        *("10.00.0.0/24", "010.0.0.0/24", "10.0.0/24", "10.0.0.0.0/24", "10.0.0.256/24"),
        *("2001:db8::/129", "2001:db8::%eth0/64", "2001:db8:::/64", "2001:db8::12345/64"),
        *("1:2:3:4:5:6:7::8/64", "[::1]/64"),
    ],
)
def test_anything_else_is_no_range(text: str) -> None:
    """No slash, netmasks, zones, signs, zeros before the length, wrong addresses (SC-30, SC-32)."""
    assert parse_prefix(text) is None


@pytest.mark.parametrize(
    ("text", "address"),
    [
        row("IPv4", "10.0.0.7", Address(IPV4, TEN + 7)),
        row("IPv6", "2001:db8::7", Address(IPV6, DB8 + 7)),
        row("by value, not by text", "2001:0DB8:0:0::0.0.0.7", Address(IPV6, DB8 + 7)),
        row("mapped", "::ffff:10.0.0.7", Address(IPV6, (0xFFFF << 32) + TEN + 7)),
        row("zero before an octet", "10.0.0.07", None),
        row("too short", "10.0.0", None),
        row("zone", "fe80::1%eth0", None),
        row("SC-T22", "not-an-ip", None),
        row("range", "10.0.0.7/32", None),
        row("number", "167772167", None),
        row("empty", "", None),
    ],
)
def test_an_address_is_read_by_value(text: str, address: Address | None) -> None:
    """Dotted quads and every text form of IPv6 (SC-31)."""
    assert parse_address(text) == address


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        row("equal", "10.0.0.0/24", "10.0.0.0/24", True),
        row("inside", "10.0.0.0/24", "10.0.0.0/16", True),
        row("around, host bits set", "10.0.0.9/24", "10.0.0.128/26", True),
        row("neighbours", "10.0.0.0/24", "10.0.1.0/24", False),
        row("everything", "10.0.0.0/0", "255.255.255.255/32", True),
        row("another family", "0.0.0.0/0", "::/0", False),
        row("mapped is IPv6", "::ffff:10.0.0.0/120", "10.0.0.0/24", False),
    ],
)
def test_ranges_overlap_when_they_share_an_address(one: str, other: str, share: bool) -> None:
    """Of one family only, in both directions (SC-40)."""
    first, second = parse_prefix(one), parse_prefix(other)
    assert first is not None
    assert second is not None
    assert first.overlaps(second) is second.overlaps(first) is share


@pytest.mark.parametrize(
    ("cidr", "address", "serves"),
    [
        ("10.0.0.0/24", "10.0.0.1", True),
        ("10.0.0.0/24", "10.0.0.254", True),
        row("network address", "10.0.0.0/24", "10.0.0.0", False),
        row("network address behind host bits", "10.0.0.9/24", "10.0.0.0", False),
        row("broadcast address", "10.0.0.0/24", "10.0.0.255", False),
        row("outside", "10.0.0.0/24", "10.0.1.1", False),
        row("before", "10.0.0.0/24", "9.255.255.255", False),
        row("last of a /30", "10.0.0.0/30", "10.0.0.2", True),
        row("a /31 holds nothing: first", "10.0.0.0/31", "10.0.0.0", False),
        row("a /31 holds nothing: second", "10.0.0.0/31", "10.0.0.1", False),
        row("a /32 holds nothing", "10.0.0.0/32", "10.0.0.0", False),
        row("IPv6 network address", "2001:db8::/112", "2001:db8::", False),
        row("SC-T19: no IPv6 broadcast", "2001:db8::/112", "2001:db8::ffff", True),
        row("a /127 holds one", "2001:db8::/127", "2001:db8::1", True),
        row("a /127 holds one only", "2001:db8::/127", "2001:db8::", False),
        row("a /128 holds nothing", "2001:db8::/128", "2001:db8::", False),
        row("another family", "::/0", "10.0.0.1", False),
    ],
)
def test_usable_addresses_of_a_range(cidr: str, address: str, serves: bool) -> None:
    """All inside but the first, and in IPv4 but the last (SC-43)."""
    prefix, parsed = parse_prefix(cidr), parse_address(address)
    assert prefix is not None
    assert parsed is not None
    assert prefix.contains(parsed) is serves


def test_a_range_ends_where_the_next_begins() -> None:
    """The first address of the range around an address is the same for all in it (SC-30)."""
    assert first_address(IPV4, TEN + 255, bits=24) == TEN
    assert first_address(IPV4, TEN + 256, bits=24) == TEN + 256
    assert Prefix(IPV4, TEN, 24).last == TEN + 255
    assert Prefix(IPV6, 0, 0).last == 2**128 - 1
