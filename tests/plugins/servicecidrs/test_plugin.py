"""The hooks in the harness: what a sync writes, when it ends, and what goes wrong on the way."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from plugins.servicecidrs.cidr_cluster import (
    FIN_MINUS,
    FIN_PLUS,
    IS_READY,
    IS_TERMINATING,
    SEVEN,
    STATUS_F,
    STATUS_T,
    Cluster,
    Manifest,
    address,
    cidr,
)
from plugins.tables import row

from kcm_host.api import EVENT, ApiError, Done, Key, Later, Outcome, Permission, Undecodable
from kcm_host_servicecidrs import ServiceCidrs
from kcm_host_servicecidrs.models import IP_ADDRESS, SERVICE_CIDR, IPAddress, ServiceCIDR

BROKEN = ApiError("broken", status=500)


@pytest.mark.parametrize(
    ("a", "others", "addresses", "writes"),
    [
        row("SC-T3", cidr("10.0.0.0/24"), {}, {}, []),
        row("SC-T2", cidr("10.0.0.0/24", ready=None, finalizers=()), {}, {}, [FIN_PLUS, STATUS_T]),
        row("SC-T4", cidr("10.0.0.0/24", ready=None), {}, {}, [STATUS_T]),
        row("SC-T5", cidr("10.0.0.0/24", finalizers=["x/y"]), {}, {}, [FIN_PLUS]),
        row("T6", cidr("10.0.0.0/24", ready=IS_READY | {"message": "other"}), {}, {}, [STATUS_T]),
        row("SC-T30", cidr("10.0.0.0/24", ready=IS_TERMINATING), {}, {}, [STATUS_T]),
        row("SC-T7", cidr("10.0.0.0/24", deleted=11), {}, {}, [FIN_MINUS]),
        row("SC-T9", cidr("10.0.0.0/24", deleted=1), {}, SEVEN, [STATUS_F]),
        row("SC-T10", cidr("10.0.0.0/24", deleted=1, ready=IS_TERMINATING), {}, SEVEN, []),
        row("T13", cidr("10.0.0.0/24", deleted=30), {"b": cidr("10.0.0.0/24")}, SEVEN, [FIN_MINUS]),
        row(
            "SC-92: a parent that is being deleted",
            cidr("10.0.0.0/24", deleted=30),
            {"b": cidr("10.0.0.0/24", deleted=30)},
            SEVEN,
            [FIN_MINUS],
        ),
        row(
            "SC-T14, SC-44: not ready",
            cidr("10.0.0.0/24", deleted=30),
            {"b": cidr("10.0.0.0/26", ready=None)},
            SEVEN,
            [FIN_MINUS],
        ),
        row(
            "SC-T18",
            cidr("10.0.0.0/24", deleted=30),
            {},
            {"10.0.0.0": address(), "10.0.0.255": address()},
            [FIN_MINUS],
        ),
        row("SC-T22", cidr("10.0.0.0/24", deleted=30), {}, {"not-an-ip": address()}, [FIN_MINUS]),
        row("SC-T29, SC-72", cidr("10.0.0.0/24", deleted=30, finalizers=["x/y"]), {}, {}, []),
        row(
            "SC-61: whatever the finalizers",
            cidr("10.0.0.0/24", deleted=30, finalizers=["x/y"], ready=None),
            {},
            SEVEN,
            [STATUS_F],
        ),
    ],
)
def test_a_sync_writes_what_is_missing(
    a: Manifest, others: Mapping[str, Manifest], addresses: Mapping[str, Manifest], writes: Any
) -> None:
    """The state of a ServiceCIDR decides, not what happened to it (SC-51, SC-60 to SC-73, 80)."""
    cluster = Cluster({"a": a, **others}, addresses)
    assert cluster.sync("a") == Done()
    assert cluster.written() == [("a", sort) for sort in writes]
    assert cluster.sync("a") == Done()
    assert cluster.written() == [], "SC-75: nothing twice"
    assert cluster.events == [], "SC-121"


def test_a_key_without_object_needs_nothing() -> None:
    """A key without object ends well and without a request (SC-T1, SC-T27, SC-50)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", ready=None)})
    assert cluster.drop("a", SERVICE_CIDR) == []
    assert cluster.sync("a") == Done()
    assert cluster.written() == []


@pytest.mark.parametrize(
    ("deleted", "outcome", "writes"),
    [
        row("SC-T8", 4, Later(timedelta(seconds=5, microseconds=321_100)), []),
        row("slow clock", -2, Later(timedelta(seconds=11, microseconds=321_100)), []),
        row("whole seconds", 9, Later(timedelta(microseconds=321_100)), []),
        row("SC-64", 10, Done(), [("a", FIN_MINUS)]),
    ],
)
def test_a_free_one_stays_for_ten_seconds(
    deleted: float, outcome: Outcome, writes: list[tuple[str, str]]
) -> None:
    """The wait is what is left of 10 s by the local clock; the condition stays (SC-7, 62, 63)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", deleted=deleted, ready=IS_TERMINATING)})
    assert cluster.sync("a") == outcome
    assert cluster.written() == writes
    cluster.advance(timedelta(seconds=12))
    assert cluster.objects(SERVICE_CIDR) == {}


def test_the_decision_is_made_again_each_time() -> None:
    """Blocked within the grace, and freed after it, it is treated as it is then (SC-65, SC-104)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", deleted=4)})
    assert cluster.sync("a") == Later(timedelta(seconds=5, microseconds=321_100))
    cluster.put_address("10.0.0.7", address())
    cluster.advance(timedelta(seconds=26))
    assert cluster.written() == [("a", STATUS_F)]
    assert cluster.drop("10.0.0.7") == ["a"]
    cluster.run_until_idle()
    assert cluster.written() == [("a", FIN_MINUS)]


def test_the_condition_carries_the_present_time() -> None:
    """Whole seconds in UTC, the same when only the message changes; no generation (SC-82 to 85)."""
    changed = IS_READY | {"message": "other", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    cluster = Cluster({"a": cidr("10.0.0.0/24", ready=changed)})
    cluster.sync("a")
    (write,) = cluster.writes
    condition = IS_READY | {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    assert write.body["status"] == {"conditions": [condition]}


@pytest.mark.parametrize("finalizer", [FIN_PLUS, FIN_MINUS])
def test_a_vanished_object_needs_no_finalizer(finalizer: str) -> None:
    """404 to a finalizer patch is no error; a status apply follows (SC-71, SC-72, SC-86, T26)."""
    is_new = finalizer == FIN_PLUS
    new, freed = cidr("10.0.0.0/24", ready=None, finalizers=()), cidr("10.0.0.0/24", deleted=30)
    cluster = Cluster({"a": new if is_new else freed})
    cluster.answer("NotFound", verb="patch")
    assert cluster.sync("a") == Done()
    assert cluster.written() == [("a", finalizer), ("a", STATUS_T)][: 1 + is_new]


@pytest.mark.parametrize("error", ["Unreachable", "NotFound", "Conflict", "Forbidden"])
def test_a_condition_that_cannot_be_written_is_reported(error: Any) -> None:
    """Whatever kept it from being written, there is one Event an attempt (SC-10, SC-74, 120)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", ready=None)})
    cluster.answer(error, verb="apply")
    cluster.run_until_idle()
    (event,) = cluster.events
    assert (event.kind, event.key, event.warning) == (SERVICE_CIDR, Key("a"), True)
    assert event.reason == "KubernetesServiceCIDRError"
    assert event.message == "The ServiceCIDR Status can not be set to Ready=True"
    assert event.component == "service-cidr-controller"
    assert cluster.written() == [("a", STATUS_T)] * 2


def test_a_failure_is_retried_without_end() -> None:
    """18 failures are waited out, 655 s the last (SC-T23, SC-T24, SC-100 to SC-102, Diff. e)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", ready=None), "b": cidr("10.1.0.0/24", ready=None)})
    for failures in (18, 2):
        cluster.answer(BROKEN, verb="apply", key="a", times=failures)
        cluster.put_cidr("a", cidr("10.0.0.0/24", ready=None))
        before = cluster.now
        cluster.run_until_idle(attempts=20)
        waited = sum(0.005 * 2**number for number in range(failures))
        assert (cluster.now - before).total_seconds() == pytest.approx(waited)
    assert len(cluster.events) == 20
    written = cluster.written()
    assert written.index(("b", STATUS_T)) == 1, "SC-101: it holds up no other"
    assert len(written) == 1 + 19 + 3


@pytest.mark.parametrize("error", ["Conflict", "Forbidden", BROKEN])
def test_a_finalizer_that_is_refused_ends_the_sync(error: Any) -> None:
    """No status request and no Event before it is there (SC-T25, SC-70, SC-105)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", ready=None, finalizers=())})
    cluster.answer(error, verb="patch", times=2)
    cluster.run_until_idle()
    assert cluster.written() == [("a", FIN_PLUS)] * 3 + [("a", STATUS_T)]
    assert cluster.events == []


def test_a_deletion_not_seen_yet_is_an_ordinary_error() -> None:
    """The server adds no finalizer to what is being deleted; the retry succeeds (SC-106, SC-66)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", finalizers=["x/y"])})
    with cluster.disconnected():
        cluster.delete(SERVICE_CIDR, "a")
        with pytest.raises(ApiError, match="no new finalizers"):
            cluster.sync("a")
    cluster.run_until_idle()
    assert cluster.written() == [("a", FIN_PLUS)]
    assert cluster.events == []


def test_a_failed_report_of_a_blocked_deletion_is_no_event() -> None:
    """The write of the condition is the result of the sync; it is retried (SC-61, SC-121)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", deleted=1)}, SEVEN)
    cluster.answer(BROKEN, verb="apply", times=2)
    cluster.run_until_idle()
    assert cluster.written() == [("a", STATUS_F)] * 3
    assert cluster.events == []


def test_conditions_of_other_types_are_not_looked_at() -> None:
    """Only the one of type Ready counts (SC-80)."""
    complete = cidr("10.0.0.0/24")
    complete["status"]["conditions"].insert(0, IS_TERMINATING | {"type": "Other"})
    cluster = Cluster({"a": complete})
    assert cluster.at_start == []
    cluster.sync("a")
    assert cluster.written() == []


UNDECODABLE_CIDR: Manifest = {"metadata": {"finalizers": 7}}
UNDECODABLE_ADDRESS: Manifest = {"metadata": {"labels": 7}}


def test_nothing_is_written_from_half_read_data() -> None:
    """
    A ServiceCIDR that cannot be read is an error until it can; others go on (Difference d).

    Once it can be read again it is synced at once, whether or not a field has changed (F-20).
    """
    incomplete = cidr("10.0.0.0/24", ready=None)
    cluster = Cluster({"a": incomplete, "b": cidr("10.1.0.0/24", ready=None)})
    assert cluster.put_cidr("a", UNDECODABLE_CIDR) == []
    with pytest.raises(Undecodable, match="servicecidr 'a' does not fit"):
        cluster.sync("a")
    cluster.sync("b")
    assert cluster.written() == [("b", STATUS_T)]
    assert cluster.status()["undecodable"] == 1
    assert cluster.put_cidr("a", incomplete) == ["a"]
    cluster.sync("a")
    assert cluster.written() == [("a", STATUS_T)]


def test_an_undecodable_range_still_holds_its_addresses() -> None:
    """With its last good ranges it is a parent, and shares addresses (Difference d)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", deleted=30), "b": cidr("10.0.0.0/26")}, SEVEN)
    cluster.put_cidr("b", UNDECODABLE_CIDR)
    cluster.put_cidr("c", UNDECODABLE_CIDR)
    cluster.sync("a")
    assert cluster.written() == [("a", FIN_MINUS)]


def test_an_undecodable_address_frees_nothing() -> None:
    """It counts as managed, with a check each minute: there is no event of its end (Diff. d)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", deleted=30)}, {"10.0.0.7": UNDECODABLE_ADDRESS})
    assert cluster.sync("a") == Later(timedelta(minutes=1))
    assert cluster.written() == [("a", STATUS_F)]
    assert cluster.status()["kept"] == [{"serviceCIDR": "a", "keptBy": "10.0.0.7"}]
    assert cluster.drop("10.0.0.7") == []
    cluster.advance(timedelta(minutes=1))
    assert cluster.written() == [("a", FIN_MINUS)]


def test_an_undecodable_address_does_not_block_a_finalized_one() -> None:
    """
    There is no event of its creation, so an unrelated sync must write nothing either (F-52).

    What is let go has lost the finalizer, and waits for those of others only.
    """
    cluster = Cluster({"a": cidr("10.0.0.0/24", deleted=30, finalizers=["x/y"])})
    assert cluster.put_address("10.0.0.7", UNDECODABLE_ADDRESS) == []
    assert cluster.missed_wakeups() == []
    assert cluster.outcomes[-1].result == Done()


def test_an_undecodable_address_stays_where_readable_ones_go() -> None:
    """The last decodable address queues the key, the sync finds the other one (Difference d)."""
    blocked = cidr("10.0.0.0/24", deleted=30, ready=IS_TERMINATING)
    cluster = Cluster({"a": blocked}, {**SEVEN, "10.0.0.8": UNDECODABLE_ADDRESS})
    assert cluster.sync("a") == Done()
    assert cluster.drop("10.0.0.7") == ["a"]
    assert cluster.sync("a") == Later(timedelta(minutes=1))
    assert cluster.written() == []
    assert cluster.put_address("10.0.0.8", address(manager="x")) == []
    assert cluster.sync("a") == Done()
    assert cluster.written() == [("a", FIN_MINUS)]


def test_the_status_names_what_is_in_the_way() -> None:
    """Counts, and the first ten of those that are kept, with an address of each."""
    cidrs = {f"c{number:02}": cidr(f"10.0.{number}.0/24", deleted=4) for number in range(12)}
    addresses = {f"10.0.{number}.7": address() for number in range(11)}
    status = dict(Cluster({"alive": cidr("10.1.0.0/16"), **cidrs}, addresses).status())
    assert status.pop("kept") == [
        {"serviceCIDR": f"c{number:02}", "keptBy": f"10.0.{number}.7"} for number in range(10)
    ]
    assert status == {"serviceCIDRs": 13, "managedAddresses": 11, "undecodable": 0, "deleting": 12}


def test_permissions_are_the_least_that_works() -> None:
    """Patches of the object and of its status, and Events; no update, no get (SC-110)."""
    assert set(ServiceCidrs().kcm_writes()) == {
        Permission(kind=SERVICE_CIDR, verb="patch"),
        Permission(kind=SERVICE_CIDR, verb="patch", subresource="status"),
        Permission(kind=EVENT, verb="create"),
        Permission(kind=EVENT, verb="patch"),
    }


def test_the_watches_are_of_all_objects_and_compare_only_fields_read() -> None:
    """Two cluster-wide watches without selectors; no repeats (SC-9, SC-28)."""
    watches = ServiceCidrs().kcm_watches()
    assert [(watch.kind, watch.model) for watch in watches] == [
        (SERVICE_CIDR, ServiceCIDR),
        (IP_ADDRESS, IPAddress),
    ]
    for watch in watches:
        assert watch.kind.api_version == "networking.k8s.io/v1"
        assert (watch.namespace, watch.label_selector, watch.field_selector) == ("", "", "")
        assert watch.notify_unchanged is False
