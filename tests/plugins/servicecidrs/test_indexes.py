"""The indexes and the blocking addresses: tables, and a comparison with a naive search."""

import random
from collections.abc import Mapping, Sequence
from ipaddress import ip_address, ip_network

import pytest

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
        pytest.param("10.0.1.0/24", {"large", "twin", "exact"}, id="equal ones count"),
        pytest.param("10.0.1.64/26", {"large", "twin", "exact", "small"}, id="larger ones"),
        pytest.param("10.0.0.0/16", {"large"}, id="smaller ones do not"),
        pytest.param("10.0.0.0/8", set(), id="nobody"),
        pytest.param("2001:db8::/112", {"large"}, id="IPv6"),
        pytest.param("2001:db9::/112", set(), id="IPv6 elsewhere"),
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
        pytest.param("10.0.1.70", {"large", "twin", "exact", "small"}, id="in all"),
        pytest.param("10.0.1.64", {"large", "twin", "exact"}, id="network address of one"),
        pytest.param("10.0.1.255", {"large"}, id="broadcast address of two"),
        pytest.param("10.0.0.0", set(), id="network address of all"),
        pytest.param("2001:db8::1", {"large"}, id="IPv6"),
        pytest.param("172.16.0.1", set(), id="in none"),
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
        pytest.param({"a": ["10.0.0.0/24"]}, False, id="alone"),
        pytest.param({"a": ["10.0.0.0/24"], "b": ["10.0.0.0/16"]}, True, id="larger"),
        pytest.param({"a": ["10.0.0.0/24"], "b": ["10.0.0.0/24"]}, True, id="SC-T13: equal"),
        pytest.param({"a": ["10.0.0.0/24"], "b": ["10.0.0.0/26"]}, False, id="SC-T14: smaller"),
        pytest.param(
            {"a": ["10.0.0.0/24"], "b": ["10.0.0.0/25", "10.0.0.128/25"]}, False, id="sum"
        ),
        pytest.param(
            {"a": ["10.0.0.0/24", "2001:db8::/112"], "b": ["10.0.0.0/16"]}, False, id="SC-T16: half"
        ),
        pytest.param(
            {"a": ["10.0.0.0/24", "2001:db8::/112"], "b": ["10.0.0.0/16"], "c": ["2001:db8::/64"]},
            True,
            id="SC-92: a parent for each",
        ),
        pytest.param({"a": []}, True, id="SC-92: no ranges"),
        pytest.param({"a": ["nonsense", "10.0.0.0"]}, True, id="SC-92: none that parses"),
        pytest.param({"a": ["10.0.0.0/24", "nonsense"]}, False, id="SC-32: one that parses"),
        pytest.param({"a": ["10.0.0.0/24", "10.0.0.9/24"]}, True, id="SC-45: twice itself"),
        pytest.param({"a": ["10.0.0.0/24", "10.0.0.0/16"]}, False, id="SC-45: the larger is alone"),
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
        pytest.param(A24, [], None, id="SC-97: no address"),
        pytest.param(A24, ["10.0.0.7"], "10.0.0.7", id="SC-T9"),
        pytest.param(A24, ["10.0.1.7", "192.168.0.1", "::7"], None, id="SC-95: others' addresses"),
        pytest.param(A24, ["10.0.0.0", "10.0.0.255"], None, id="SC-T18"),
        pytest.param(A24 | {"b": ["10.0.0.0/24"]}, ["10.0.0.7"], None, id="SC-T13, SC-91"),
        pytest.param(A24 | {"b": ["10.0.0.0/26"]}, ["10.0.0.7"], None, id="SC-T14"),
        pytest.param(A24 | {"b": ["10.0.0.0/26"]}, ["10.0.0.200"], "10.0.0.200", id="SC-T15"),
        pytest.param(A24 | {"b": ["10.0.0.0/26"]}, ["10.0.0.63"], "10.0.0.63", id="b's broadcast"),
        pytest.param(DUAL, ["2001:db8::5"], "2001:db8::5", id="SC-T16"),
        pytest.param(DUAL, ["10.0.0.9"], None, id="SC-T17"),
        pytest.param(A112, ["2001:db8::ffff"], "2001:db8::ffff", id="SC-T19"),
        pytest.param(A112, ["2001:0db8::0:7"], "2001:0db8::0:7", id="SC-31: another text form"),
        pytest.param(A24, ["not-an-ip"], None, id="SC-T22"),
        pytest.param({"a": ["nonsense"]}, ["10.0.0.7"], None, id="SC-92"),
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
        pytest.param(["10.0.0.0/24"], labelled("IPv4"), True, id="as the allocator does"),
        pytest.param(["10.0.0.0/24"], labelled(None), False, id="SC-96: no family"),
        pytest.param(["10.0.0.0/24"], labelled("IPv6"), False, id="SC-93: another family"),
        pytest.param(["10.0.0.0/24"], labelled(""), False, id="SC-93: empty family"),
        pytest.param(["10.0.0.0/24", "x"], labelled(""), True, id="SC-93: empty, an invalid range"),
        pytest.param(["10.0.0.0/24", "x"], labelled(None), False, id="SC-93: missing is not empty"),
        pytest.param(["10.0.0.0/24", "::/64"], labelled("IPv6"), True, id="SC-95: of either range"),
        pytest.param(["10.0.0.0/24"], labelled("IPv4", manager=OTHER_MANAGER), False, id="SC-T20"),
        pytest.param(["10.0.0.0/24"], labelled("IPv4", manager=None), False, id="unmanaged"),
        pytest.param(["10.0.0.0/24"], IPAddress(), False, id="no labels"),
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
        pytest.param("10.0.0.7", A24, True, id="in a's range alone"),
        pytest.param("10.0.0.7", A24 | {"b": ["10.0.0.0/26"]}, False, id="in another's too"),
        pytest.param("10.0.0.255", A24, False, id="not usable"),
        pytest.param("not-an-ip", A24, False, id="no address"),
    ],
)
def test_an_address_without_readable_labels_counts(name: str, cidrs: Cidrs, kept: bool) -> None:
    """It may be managed, so it blocks the range that contains it (Difference d)."""
    found = BlockingAddresses(ranges_of(cidrs), AddressIndex()).first("a", undecodable=[name])
    assert found == (name if kept else None)


def test_addresses_follow_their_objects() -> None:
    """Labels that change and objects that go are felt, two names of one address are two objects."""
    addresses = addresses_of("2001:db8::7", "2001:db8:0::7")
    everything, labels = parse_prefix("::/0"), frozenset({"IPv6"})
    assert everything is not None

    def names() -> list[str]:
        return [name for name, _ in addresses.within(everything, labels=labels)]

    assert names() == ["2001:db8:0::7", "2001:db8::7"]
    assert addresses.put("2001:db8::7", labelled("IPv6", manager=OTHER_MANAGER)) is None
    assert names() == ["2001:db8:0::7"]
    assert addresses.remove("2001:db8::7") is None
    gone = addresses.remove("2001:db8:0::7")
    assert gone is not None
    assert gone.address == parse_address("2001:db8::7")
    assert names() == []
    assert len(addresses) == 0


def test_a_range_has_the_addresses_between_its_ends() -> None:
    """From the first to the last, and neither of its neighbours (SC-30, SC-95)."""
    middle, labels = parse_prefix("10.0.1.0/24"), frozenset({"IPv4"})
    assert middle is not None
    addresses = addresses_of("10.0.0.255", "10.0.1.0", "10.0.1.255", "10.0.2.0", "10.0.2.1")
    found = [name for name, _ in addresses.within(middle, labels=labels)]
    assert found == ["10.0.1.0", "10.0.1.255"]


def test_many_addresses_are_as_easy_as_few() -> None:
    """Put in order at once or one by one, they are found from first to last (SC-95)."""
    everything, labels = parse_prefix("10.0.0.0/8"), frozenset({"IPv4"})
    assert everything is not None
    names = [f"10.0.{number // 256}.{number % 256}" for number in range(1000)]
    shuffled = random.Random(1).sample(names, len(names))
    addresses = addresses_of(*shuffled[:-7])
    found = [name for name, _ in addresses.within(everything, labels=labels)]
    assert found == [name for name in names if name in shuffled[:-7]]
    for name in shuffled[-7:]:
        addresses.put(name, labelled("IPv4"))
    assert [name for name, _ in addresses.within(everything, labels=labels)] == names


#: Small numbers, so that random ranges and addresses meet.
FAMILIES = {"IPv4": (24, 32, "10.0.0."), "IPv6": (120, 128, "2001:db8::")}


def random_cidr(rnd: random.Random, family: str) -> str:
    """Return a range of one of the families, now and then one that does not parse."""
    lowest, highest, start = FAMILIES[family]
    bits = rnd.choice([lowest, lowest + 1, lowest + 3, highest - 1, highest])
    text = f"{rnd.randrange(256)}" if family == "IPv4" else f"{rnd.randrange(256):x}"
    return rnd.choice(["nonsense", *[f"{start}{text}/{bits}"] * 9])


def naive_containing_address(cidrs: Cidrs, address: str) -> list[str]:
    """Return the result of SC-42 and SC-43 without any index."""
    found, parsed = [], ip_address(address)
    for name, texts in cidrs.items():
        for text in texts:
            if text == "nonsense":
                continue
            network = ip_network(text, strict=False)
            unusable = {network.network_address}
            if network.version == 4:
                unusable.add(network.broadcast_address)
            if parsed in network and parsed not in unusable:
                found.append(name)
    return found


def naive_containing_prefix(cidrs: Cidrs, text: str) -> list[str]:
    """Return the result of SC-41 without any index."""
    wanted = ip_network(text, strict=False)
    others = [
        (name, ip_network(other, strict=False))
        for name, texts in cidrs.items()
        for other in texts
        if other != "nonsense"
    ]
    return [
        name
        for name, network in others
        if network.version == wanted.version
        and network.overlaps(wanted)
        and network.prefixlen <= wanted.prefixlen
    ]


def naive_is_free(cidrs: Cidrs, addresses: Mapping[str, str], name: str) -> bool:
    """Return the result of SC-90 to SC-97 without any index."""
    parent = True
    for text in cidrs[name]:
        if text != "nonsense" and naive_containing_prefix(cidrs, text) in ([], [name]):
            parent = False
    if parent:
        return True
    for text in cidrs[name]:
        family = "" if text == "nonsense" else f"IPv{ip_network(text, strict=False).version}"
        for address, label in addresses.items():
            if label == family and naive_containing_address(cidrs, address) == [name]:
                return False
    return True


@pytest.mark.parametrize("seed", range(12))
def test_random_clusters_end_as_the_rules_say(seed: int) -> None:
    """Random ranges, addresses and labels, changed at random (SC-40 to SC-45, SC-90 to SC-97)."""
    rnd = random.Random(seed)
    cidrs: dict[str, list[str]] = {}
    labels: dict[str, str] = {}
    ranges, addresses = CidrIndex(), AddressIndex()
    for _ in range(150):
        name, family = f"c{rnd.randrange(6)}", rnd.choice(list(FAMILIES))
        start = FAMILIES[family][2]
        address = f"{start}{rnd.randrange(1, 10)}"
        match rnd.randrange(6):
            case 0:
                cidrs[name] = [random_cidr(rnd, rnd.choice(list(FAMILIES))) for _ in range(2)]
                ranges.put(name, cidrs[name])
            case 1:
                cidrs.pop(name, None)
                ranges.remove(name)
            case 2:
                labels.pop(address, None)
                addresses.remove(address)
            case _:
                labels[address] = rnd.choice([family, family, family, "IPv4", ""])
                addresses.put(address, labelled(labels[address]))
        for each in cidrs:
            kept = BlockingAddresses(ranges, addresses).first(each) is not None
            assert kept is not naive_is_free(cidrs, labels, each), (cidrs, labels, each)
