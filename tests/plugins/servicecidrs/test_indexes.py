"""The indexes and the blocking addresses: tables, and a comparison with a naive search."""

import random
from collections.abc import Mapping, Sequence

import pytest
from plugins.tables import row

from kcm_host_servicecidrs.indexes import AddressIndex, CidrIndex
from kcm_host_servicecidrs.models import ALLOCATOR, AddressMetadata, IPAddress, Labels
from kcm_host_servicecidrs.prefixes import parse_address, parse_prefix
from kcm_host_servicecidrs.state import BlockingAddresses, has_parent

Cidrs = Mapping[str, Sequence[str]]
OTHER_MANAGER = "other.example"


def ranges_of(cidrs: Cidrs) -> CidrIndex:
    """Return the ranges of these ServiceCIDRs."""
    ranges = CidrIndex()
    for name, texts in cidrs.items():
        ranges.put(name, texts)
    return ranges


def labelled(family: str | None, *, manager: str | None = ALLOCATOR) -> IPAddress:
    """Return an IPAddress with these labels."""
    return IPAddress(metadata=AddressMetadata(labels=Labels(managed_by=manager, family=family)))


def addresses_of(*names: str) -> AddressIndex:
    """Return these addresses, labelled as the allocator does."""
    addresses = AddressIndex()
    for name in names:
        addresses.put(name, labelled("IPv6" if ":" in name else "IPv4"))
    return addresses


def blocking_address(cidrs: Cidrs, *names: str) -> str | None:
    """Return which of these addresses keeps ServiceCIDR `a`."""
    return BlockingAddresses(ranges_of(cidrs), addresses_of(*names)).first("a")


NESTED = {
    "large": ["10.0.0.0/16", "2001:db8::/64"],
    "twin": ["10.0.1.0/24"],
    "exact": ["10.0.1.9/24"],
    "small": ["10.0.1.64/26"],
    "far": ["192.168.0.0/16"],
    "broken": ["10.0.1.0", "nonsense/24"],
}


@pytest.mark.parametrize(
    ("cidr", "holders"),
    [
        row("equal ones count", "10.0.1.0/24", {"large", "twin", "exact"}),
        row("larger ones", "10.0.1.64/26", {"large", "twin", "exact", "small"}),
        row("smaller ones do not", "10.0.0.0/16", {"large"}),
        row("nobody", "10.0.0.0/8", set()),
        row("IPv6", "2001:db8::/112", {"large"}),
        row("IPv6 elsewhere", "2001:db9::/112", set()),
    ],
)
def test_who_holds_all_of_a_range(cidr: str, holders: set[str]) -> None:
    """Those with a range that contains it, itself included (SC-41)."""
    prefix = parse_prefix(cidr)
    assert prefix is not None
    assert set(ranges_of(NESTED).containing_prefix(prefix)) == holders


@pytest.mark.parametrize(
    ("address", "holders"),
    [
        row("in all", "10.0.1.70", {"large", "twin", "exact", "small"}),
        row("network address of one", "10.0.1.64", {"large", "twin", "exact"}),
        row("broadcast address of two", "10.0.1.255", {"large"}),
        row("network address of all", "10.0.0.0", set()),
        row("IPv6", "2001:db8::1", {"large"}),
        row("in none", "172.16.0.1", set()),
    ],
)
def test_who_could_give_an_address_to_a_service(address: str, holders: set[str]) -> None:
    """Those with a range in which it is usable (SC-42, SC-43)."""
    parsed = parse_address(address)
    assert parsed is not None
    assert set(ranges_of(NESTED).containing_address(parsed)) == holders


def test_ranges_follow_their_objects() -> None:
    """CidrIndex put in place of others, and forgotten, leave nothing behind (SC-44)."""
    ranges = ranges_of({"a": ["10.0.0.0/24"], "b": ["10.0.0.0/24", "2001:db8::/112"]})
    inside, inside_6 = parse_address("10.0.0.7"), parse_address("2001:db8::7")
    assert inside is not None
    assert inside_6 is not None
    ranges.put("a", ["192.168.0.0/24"])
    assert ranges.containing_address(inside) == ["b"]
    ranges.remove("b")
    assert ranges.containing_address(inside) == ranges.containing_address(inside_6) == []
    ranges.remove("b")
    assert ranges.get("b").prefixes == ()


@pytest.mark.parametrize(
    ("cidrs", "parent"),
    [
        row("alone", {"a": ["10.0.0.0/24"]}, False),
        row("larger", {"a": ["10.0.0.0/24"], "b": ["10.0.0.0/16"]}, True),
        row("SC-T13: equal", {"a": ["10.0.0.0/24"], "b": ["10.0.0.0/24"]}, True),
        row("SC-T14: smaller", {"a": ["10.0.0.0/24"], "b": ["10.0.0.0/26"]}, False),
        row("sum", {"a": ["10.0.0.0/24"], "b": ["10.0.0.0/25", "10.0.0.128/25"]}, False),
        row("SC-T16: half", {"a": ["10.0.0.0/24", "2001:db8::/112"], "b": ["10.0.0.0/16"]}, False),
        row(
            "SC-92: a parent for each",
            {"a": ["10.0.0.0/24", "2001:db8::/112"], "b": ["10.0.0.0/16"], "c": ["2001:db8::/64"]},
            True,
        ),
        row("SC-92: no ranges", {"a": []}, True),
        row("SC-92: none that parses", {"a": ["nonsense", "10.0.0.0"]}, True),
        row("SC-32: one that parses", {"a": ["10.0.0.0/24", "nonsense"]}, False),
        row("SC-45: twice itself", {"a": ["10.0.0.0/24", "10.0.0.9/24"]}, True),
        row("SC-45: the larger is alone", {"a": ["10.0.0.0/24", "10.0.0.0/16"]}, False),
    ],
)
def test_a_parent_holds_every_range(cidrs: Cidrs, parent: bool) -> None:
    """Each range lies in another ServiceCIDR's, not necessarily the same one's (SC-90 to SC-92)."""
    assert has_parent("a", ranges_of(cidrs)) is parent


A24 = {"a": ["10.0.0.0/24"]}
A112 = {"a": ["2001:db8::/112"]}
DUAL = {"a": ["10.0.0.0/24", "2001:db8::/112"], "b": ["10.0.0.0/16"]}


@pytest.mark.parametrize(
    ("cidrs", "names", "blocking"),
    [
        row("SC-97: no address", A24, [], None),
        row("SC-T9", A24, ["10.0.0.7"], "10.0.0.7"),
        row("SC-95: others' addresses", A24, ["10.0.1.7", "192.168.0.1", "::7"], None),
        row("SC-T18", A24, ["10.0.0.0", "10.0.0.255"], None),
        row("SC-T13, SC-91", A24 | {"b": ["10.0.0.0/24"]}, ["10.0.0.7"], None),
        row("SC-T14", A24 | {"b": ["10.0.0.0/26"]}, ["10.0.0.7"], None),
        row("SC-T15", A24 | {"b": ["10.0.0.0/26"]}, ["10.0.0.200"], "10.0.0.200"),
        row("b's broadcast", A24 | {"b": ["10.0.0.0/26"]}, ["10.0.0.63"], "10.0.0.63"),
        row("SC-T16", DUAL, ["2001:db8::5"], "2001:db8::5"),
        row("SC-T17", DUAL, ["10.0.0.9"], None),
        row("SC-T19", A112, ["2001:db8::ffff"], "2001:db8::ffff"),
        row("SC-31: another text form", A112, ["2001:0db8::0:7"], "2001:0db8::0:7"),
        row("SC-T22", A24, ["not-an-ip"], None),
        row("SC-92", {"a": ["nonsense"]}, ["10.0.0.7"], None),
    ],
)
def test_an_address_keeps_its_last_range(
    cidrs: Cidrs, names: Sequence[str], blocking: str | None
) -> None:
    """One that can be had from this ServiceCIDR alone is in the way (SC-93 to SC-97)."""
    assert blocking_address(cidrs, *names) == blocking


@pytest.mark.parametrize(
    ("cidrs", "state", "keeps"),
    [
        row("as the allocator does", ["10.0.0.0/24"], labelled("IPv4"), True),
        row("SC-96: no family", ["10.0.0.0/24"], labelled(None), False),
        row("SC-93: another family", ["10.0.0.0/24"], labelled("IPv6"), False),
        row("SC-93: empty family", ["10.0.0.0/24"], labelled(""), False),
        row("SC-93: empty, an invalid range", ["10.0.0.0/24", "x"], labelled(""), True),
        row("SC-93: missing is not empty", ["10.0.0.0/24", "x"], labelled(None), False),
        row("SC-95: of either range", ["10.0.0.0/24", "::/64"], labelled("IPv6"), True),
        row("SC-T20", ["10.0.0.0/24"], labelled("IPv4", manager=OTHER_MANAGER), False),
        row("unmanaged", ["10.0.0.0/24"], labelled("IPv4", manager=None), False),
        row("no labels", ["10.0.0.0/24"], IPAddress(), False),
    ],
)
def test_labels_decide_which_addresses_count(
    cidrs: Sequence[str], state: IPAddress, keeps: bool
) -> None:
    """Managed by the allocator and of a family that the ServiceCIDR has (SC-8, 26, 93, 96)."""
    addresses = AddressIndex()
    addresses.put("10.0.0.7", state)
    found = BlockingAddresses(ranges_of({"a": cidrs}), addresses).first("a")
    assert found == ("10.0.0.7" if keeps else None)


@pytest.mark.parametrize(
    ("name", "cidrs", "kept"),
    [
        row("in a's range alone", "10.0.0.7", A24, True),
        row("in another's too", "10.0.0.7", A24 | {"b": ["10.0.0.0/26"]}, False),
        row("not usable", "10.0.0.255", A24, False),
        row("no address", "not-an-ip", A24, False),
    ],
)
def test_an_address_without_readable_labels_counts(name: str, cidrs: Cidrs, kept: bool) -> None:
    """It may be managed, so it blocks the range that contains it (Difference d)."""
    found = BlockingAddresses(ranges_of(cidrs), AddressIndex()).first("a", undecodable=[name])
    assert found == (name if kept else None)


def within(addresses: AddressIndex, cidr: str, label: str) -> list[str]:
    """Return the names of the addresses of a range that have this family as label."""
    prefix = parse_prefix(cidr)
    assert prefix is not None
    return [name for name, _ in addresses.within(prefix, labels=frozenset({label}))]


def test_addresses_follow_their_objects() -> None:
    """Labels that change and objects that go are felt, two names of one address are two objects."""
    addresses = addresses_of("2001:db8::7", "2001:db8:0::7")
    assert within(addresses, "::/0", "IPv6") == ["2001:db8:0::7", "2001:db8::7"]
    assert addresses.put("2001:db8::7", labelled("IPv6", manager=OTHER_MANAGER)) is None
    assert within(addresses, "::/0", "IPv6") == ["2001:db8:0::7"]
    assert addresses.remove("2001:db8::7") is None
    gone = addresses.remove("2001:db8:0::7")
    assert gone is not None
    assert gone.address == parse_address("2001:db8::7")
    assert within(addresses, "::/0", "IPv6") == []
    assert len(addresses) == 0


def test_a_range_has_the_addresses_between_its_ends() -> None:
    """From the first to the last, and neither of its neighbours (SC-30, SC-95)."""
    addresses = addresses_of("10.0.0.255", "10.0.1.0", "10.0.1.255", "10.0.2.0", "10.0.2.1")
    assert within(addresses, "10.0.1.0/24", "IPv4") == ["10.0.1.0", "10.0.1.255"]


def test_many_addresses_are_as_easy_as_few() -> None:
    """Put in order at once or one by one, they are found from first to last (SC-95)."""
    names = [f"10.0.{number // 256}.{number % 256}" for number in range(1000)]
    shuffled = random.Random(1).sample(names, len(names))
    addresses = addresses_of(*shuffled[:-7])
    found = within(addresses, "10.0.0.0/8", "IPv4")
    assert found == [name for name in names if name in shuffled[:-7]]
    for name in shuffled[-7:]:
        addresses.put(name, labelled("IPv4"))
    assert within(addresses, "10.0.0.0/8", "IPv4") == names
