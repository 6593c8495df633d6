"""Which ServiceCIDRs are woken by a change of one of them, or of an address."""

import pytest
from plugins.servicecidrs.cidr_cluster import (
    IS_TERMINATING,
    SEVEN,
    STATUS_F,
    Cluster,
    Manifest,
    address,
    cidr,
)
from plugins.tables import row

from kcm_host_servicecidrs.models import IP_ADDRESS, SERVICE_CIDR

NEIGHBOURS = {
    "a": cidr("10.0.0.0/24", deleted=4),
    "b": cidr("10.0.0.0/16", deleted=4),
    "c": cidr("192.168.0.0/16", deleted=4),
    "alive": cidr("10.0.0.0/8"),
}


def test_an_address_queues_the_deleted_that_could_serve_it() -> None:
    """Coming, changing its labels and going: two of three, no living one (SC-T21, SC-23, SC-25)."""
    cluster = Cluster(NEIGHBOURS)
    put, drop = cluster.put_address, cluster.drop
    assert put("10.0.0.7", address()) == ["a", "b"]
    assert put("10.0.0.7", address(manager="x")) == ["a", "b"], "Difference c"
    assert drop("10.0.0.7") == []
    assert put("10.0.0.0", address()) == [], "SC-43: the network address"
    assert put("10.0.1.0", address()) == ["b"]
    assert drop("10.0.1.0") == ["b"]


@pytest.mark.parametrize(
    ("name", "state"),
    [
        row("SC-T22", "not-an-ip", address()),
        row("SC-T20", "10.0.0.7", address(manager="other.example")),
        row("no labels", "10.0.0.7", {}),
    ],
)
def test_an_unmanaged_address_queues_nothing(name: str, state: Manifest) -> None:
    """Neither when it is created nor when it is deleted (SC-26)."""
    cluster = Cluster(NEIGHBOURS)
    assert cluster.put_address(name, state) == []
    assert cluster.drop(name) == []


def test_an_address_queues_only_those_it_changes() -> None:
    """A blocked one is queued only when its last address is deleted (Difference b)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", deleted=4, ready=IS_TERMINATING)}, SEVEN)
    assert cluster.put_address("10.0.0.8", address()) == []
    assert cluster.drop("10.0.0.7") == []
    assert cluster.drop("10.0.0.8") == ["a"]
    assert cluster.put_address("10.0.0.9", address()) == []


def test_an_address_that_blocked_nothing_changes_nothing() -> None:
    """Addresses of other ranges and with another family's label do not count (SC-93)."""
    cidrs = {"a": cidr("10.0.0.0/24", deleted=30), "alive": cidr("10.1.0.0/24")}
    others = {"10.0.0.6": address("IPv6"), "10.1.0.7": address()}
    cluster = Cluster(cidrs, {**others, **SEVEN})
    cluster.sync("a")
    for name in others:
        assert cluster.drop(name) == []
    assert cluster.status()["kept"] == [{"serviceCIDR": "a", "keptBy": "10.0.0.7"}]


def test_a_first_list_queues_what_has_something_to_do() -> None:
    """Complete ones not at all (SC-T31, Difference a), deleted ones once, in whichever order."""
    complete = {"a": cidr("10.0.0.0/24"), "b": cidr("10.0.0.0/16")}
    assert Cluster(complete, SEVEN).at_start == []
    cluster = Cluster({"new": cidr("10.1.0.0/24", ready=None), **NEIGHBOURS}, SEVEN)
    assert cluster.at_start == ["a", "b", "c", "new"]


def test_a_new_range_queues_the_deleted_it_overlaps() -> None:
    """Of a new object or added to an old one, a smaller one or a parent (SC-T12, SC-20, SC-21)."""
    blocked = {"a": cidr("10.0.0.0/24", "2001:db8::/112", deleted=4, ready=IS_TERMINATING)}
    cluster = Cluster(blocked, {**SEVEN, "2001:db8::7": address("IPv6")})
    new = cidr("10.0.0.0/16", ready=None, finalizers=())
    assert cluster.put_cidr("b", new) == ["b"], "a is kept by its IPv6 address"
    both = cidr("10.0.0.0/16", "2001:db8::/64")
    assert cluster.put_cidr("b", both) == ["a"], "Difference c"
    cluster = Cluster(blocked, {"2001:db8::7": address("IPv6")})
    assert cluster.put_cidr("b", cidr("2001:db8::/120")) == ["a"]
    assert cluster.put_cidr("c", cidr("192.168.0.0/16")) == []


def test_a_range_that_goes_queues_the_deleted_it_leaves_alone() -> None:
    """It is now blocked by an address, and its condition has to report that (Difference c)."""
    held = cidr("10.0.0.0/24", deleted=30, finalizers=["x/y"])
    parent = cidr("10.0.0.0/16")
    cluster = Cluster({"a": held, "b": parent, "c": cidr("192.168.0.0/16", deleted=4)}, SEVEN)
    assert cluster.put_cidr("b", cidr("10.1.0.0/16")) == ["a"]
    assert cluster.put_cidr("b", parent) == []
    assert cluster.drop("b", SERVICE_CIDR) == ["a"]


def test_only_changes_that_leave_something_to_do_queue() -> None:
    """The event of an own write does not, a deletion does (SC-T28, Difference a)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", finalizers=(), ready=None)})
    put = cluster.put_cidr
    assert put("a", cidr("10.0.0.0/24", ready=None)) == ["a"], "half of it"
    complete = cidr("10.0.0.0/24")
    assert put("a", complete) == []
    complete["metadata"]["labels"] = {"a": "b"}
    assert put("a", complete) == [], "SC-21: a field that is not read"
    assert cluster.put_address("10.0.0.7", address()) == [], "SC-23, Difference b"
    assert put("a", cidr("10.0.0.0/24", finalizers=())) == ["a"], "taken away"
    assert put("a", cidr("10.0.0.0/24", deleted=0)) == ["a"]
    assert cluster.drop("a", SERVICE_CIDR) == []


def test_a_list_read_again_is_like_its_changes() -> None:
    """What only a relist shows is felt: addresses gone, ranges that came (SC-25, SC-27, IQ-51)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", deleted=4, ready=IS_TERMINATING)}, SEVEN)
    with cluster.disconnected():
        pass
    assert cluster.queued() == []
    with cluster.disconnected():
        cluster.delete(IP_ADDRESS, "10.0.0.7")
        cluster.put_address("10.0.1.7", address())
    assert cluster.queued() == ["a"]
    with cluster.disconnected():
        cluster.drop("a", SERVICE_CIDR)
        cluster.put_cidr("b", cidr("10.0.0.0/16", deleted=4))
    assert cluster.queued() == ["b"]
    assert cluster.status()["kept"] == [{"serviceCIDR": "b", "keptBy": "10.0.1.7"}]


def test_a_deleted_one_is_removed_from_the_state() -> None:
    """It shares no address any more, and is woken by none, not even as its namesake (SC-44)."""
    both = {"a": cidr("10.0.0.0/24", deleted=30), "b": cidr("10.0.0.0/24", deleted=4)}
    cluster = Cluster(both, SEVEN)
    assert cluster.drop("b", SERVICE_CIDR) == ["a"], "kept by its address now"
    assert cluster.status()["deleting"] == 1
    cluster.sync("a")
    assert cluster.written() == [("a", STATUS_F)]
    assert cluster.put_address("10.0.0.8", address()) == []
    cluster.drop("a", SERVICE_CIDR)
    assert cluster.put_cidr("a", cidr("10.0.0.0/24")) == []
    assert cluster.drop("10.0.0.7") == []
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
    assert cluster.at_start == ["a"]
