"""Which ServiceCIDRs are woken by a change of one of them, or of an address."""

import pytest
from plugins.servicecidrs.fake_cluster import (
    IS_TERMINATING,
    SEVEN,
    STATUS_F,
    Cluster,
    Manifest,
    address,
    cidr,
)

NEIGHBOURS = {
    "a": cidr("10.0.0.0/24", deleted=4),
    "b": cidr("10.0.0.0/16", deleted=4),
    "c": cidr("192.168.0.0/16", deleted=4),
    "alive": cidr("10.0.0.0/8"),
}


def test_an_address_queues_the_deleted_that_could_serve_it() -> None:
    """Coming, changing its labels and going: two of three, no living one (SC-T21, SC-23, SC-25)."""
    cluster = Cluster(NEIGHBOURS)
    deliver = cluster.addresses.deliver
    assert deliver("ADDED", "10.0.0.7", address()) == ["a", "b"]
    assert deliver("MODIFIED", "10.0.0.7", address(manager="x")) == ["a", "b"], "Difference c"
    assert deliver("DELETED", "10.0.0.7", address()) == []
    assert deliver("ADDED", "10.0.0.0", address()) == [], "SC-43: the network address"
    assert deliver("ADDED", "10.0.1.0", address()) == ["b"]
    assert deliver("DELETED", "10.0.1.0", address()) == ["b"]


@pytest.mark.parametrize(
    ("name", "state"),
    [
        pytest.param("not-an-ip", address(), id="SC-T22"),
        pytest.param("10.0.0.7", address(manager="other.example"), id="SC-T20"),
        pytest.param("10.0.0.7", {}, id="no labels"),
    ],
)
def test_an_unmanaged_address_queues_nothing(name: str, state: Manifest) -> None:
    """Neither when it is created nor when it is deleted (SC-26)."""
    cluster = Cluster(NEIGHBOURS)
    assert cluster.addresses.deliver("ADDED", name, state) == []
    assert cluster.addresses.deliver("DELETED", name, state) == []


def test_an_address_queues_only_those_it_changes() -> None:
    """A blocked one is queued only when its last address is deleted (Difference b)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", deleted=4, ready=IS_TERMINATING)}, SEVEN)
    assert cluster.addresses.deliver("ADDED", "10.0.0.8", address()) == []
    assert cluster.addresses.deliver("DELETED", "10.0.0.7", address()) == []
    assert cluster.addresses.deliver("DELETED", "10.0.0.8", address()) == ["a"]
    assert cluster.addresses.deliver("ADDED", "10.0.0.9", address()) == []


async def test_an_address_that_blocked_nothing_changes_nothing() -> None:
    """Addresses of other ranges and with another family's label do not count (SC-93)."""
    cidrs = {"a": cidr("10.0.0.0/24", deleted=30), "alive": cidr("10.1.0.0/24")}
    others = {"10.0.0.6": address("IPv6"), "10.1.0.7": address()}
    cluster = Cluster(cidrs, {**others, **SEVEN})
    await cluster.sync()
    for name, state in others.items():
        queued = ["a"] if "10.0.0" in name else []
        assert cluster.addresses.deliver("DELETED", name, state) == queued
    assert cluster.status()["kept"] == [{"serviceCIDR": "a", "keptBy": "10.0.0.7"}]


def test_a_first_list_queues_what_has_something_to_do() -> None:
    """Complete ones not at all (SC-T31, Difference a), deleted ones once, in whichever order."""
    complete = {"a": cidr("10.0.0.0/24"), "b": cidr("10.0.0.0/16")}
    assert Cluster(complete, SEVEN).cidrs.queued == []
    cluster = Cluster({"new": cidr("10.1.0.0/24", ready=None), **NEIGHBOURS}, SEVEN)
    assert cluster.cidrs.queued == ["new", "a", "b", "c"]
    assert cluster.addresses.queued == []


def test_a_new_range_queues_the_deleted_it_overlaps() -> None:
    """Of a new object or added to an old one, a smaller one or a parent (SC-T12, SC-20, SC-21)."""
    blocked = {"a": cidr("10.0.0.0/24", "2001:db8::/112", deleted=4, ready=IS_TERMINATING)}
    cluster = Cluster(blocked, {**SEVEN, "2001:db8::7": address("IPv6")})
    new = cidr("10.0.0.0/16", ready=None, finalizers=())
    assert cluster.cidrs.deliver("ADDED", "b", new) == ["b"], "a is kept by its IPv6 address"
    both = cidr("10.0.0.0/16", "2001:db8::/64")
    assert cluster.cidrs.deliver("MODIFIED", "b", both) == ["a"], "Difference c"
    cluster = Cluster(blocked, {"2001:db8::7": address("IPv6")})
    assert cluster.cidrs.deliver("ADDED", "b", cidr("2001:db8::/120")) == ["a"]
    assert cluster.cidrs.deliver("ADDED", "c", cidr("192.168.0.0/16")) == []


def test_a_range_that_goes_queues_the_deleted_it_leaves_alone() -> None:
    """It is now blocked by an address, and its condition has to report that (Difference c)."""
    held = cidr("10.0.0.0/24", deleted=30, finalizers=["x/y"])
    parent = cidr("10.0.0.0/16")
    cluster = Cluster({"a": held, "b": parent, "c": cidr("192.168.0.0/16", deleted=4)}, SEVEN)
    assert cluster.cidrs.deliver("MODIFIED", "b", cidr("10.1.0.0/16")) == ["a"]
    assert cluster.cidrs.deliver("MODIFIED", "b", parent) == []
    assert cluster.cidrs.deliver("DELETED", "b", parent) == ["a"]


def test_only_changes_that_leave_something_to_do_queue() -> None:
    """The event of an own write does not, a deletion does (SC-T28, Difference a)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", finalizers=(), ready=None)})
    deliver = cluster.cidrs.deliver
    assert deliver("MODIFIED", "a", cidr("10.0.0.0/24", ready=None)) == ["a"], "half of it"
    assert deliver("MODIFIED", "a", cidr("10.0.0.0/24")) == []
    assert deliver("MODIFIED", "a", cidr("10.0.0.0/24", finalizers=())) == ["a"], "taken away"
    assert deliver("MODIFIED", "a", cidr("10.0.0.0/24", deleted=0)) == ["a"]
    assert deliver("DELETED", "a", cidr("10.0.0.0/24", deleted=0)) == []


def test_a_list_read_again_is_like_its_changes() -> None:
    """What only a relist shows is felt: addresses gone, ranges that came (SC-25, SC-27, IQ-51)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", deleted=4, ready=IS_TERMINATING)}, SEVEN)
    cluster.addresses.queued.clear()
    cluster.addresses.relist(SEVEN)
    assert cluster.addresses.queued == []
    cluster.addresses.relist({"10.0.1.7": address()})
    assert cluster.addresses.queued == ["a"]
    cluster.cidrs.queued.clear()
    cluster.cidrs.relist({"b": cidr("10.0.0.0/16", deleted=4)})
    assert cluster.cidrs.queued == ["b"]
    assert cluster.status()["kept"] == [{"serviceCIDR": "b", "keptBy": "10.0.1.7"}]


async def test_a_deleted_one_is_removed_from_the_state() -> None:
    """It shares no address any more, and is woken by none, not even as its namesake (SC-44)."""
    both = {"a": cidr("10.0.0.0/24", deleted=30), "b": cidr("10.0.0.0/24", deleted=4)}
    cluster = Cluster(both, SEVEN)
    assert cluster.cidrs.deliver("DELETED", "b", both["b"]) == ["a"], "kept by its address now"
    assert cluster.status()["deleting"] == 1
    await cluster.sync()
    assert cluster.written == [("a", STATUS_F)]
    assert cluster.addresses.deliver("ADDED", "10.0.0.8", address()) == ["a"]
    cluster.cidrs.deliver("DELETED", "a", both["a"])
    assert cluster.cidrs.deliver("ADDED", "a", cidr("10.0.0.0/24")) == []
    assert cluster.addresses.deliver("DELETED", "10.0.0.7", address()) == []
    assert cluster.status() == {
        "serviceCIDRs": 1,
        "managedAddresses": 1,
        "undecodable": 0,
        "deleting": 0,
        "kept": [],
    }


def test_the_status_names_the_blocking_address() -> None:
    """Without this controller's finalizer a deleted one is looked at all the same (SC-61)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", deleted=30, finalizers=["x/y"])}, SEVEN)
    assert cluster.cidrs.queued == ["a"]
