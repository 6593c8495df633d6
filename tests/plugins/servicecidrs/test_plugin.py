"""The hooks with the host's own informers, for cases that no server can produce."""

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from host.reconcile.worker_rig import CAUSE, Rig
from plugins.servicecidrs.fake_cluster import (
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

from kcm_host.api import (
    EVENT,
    ApiError,
    Done,
    Key,
    Later,
    NotFound,
    Outcome,
    Permission,
    Undecodable,
    Unreachable,
    View,
    Writer,
)
from kcm_host_servicecidrs import ServiceCidrs
from kcm_host_servicecidrs.models import IP_ADDRESS, SERVICE_CIDR, IPAddress, ServiceCIDR


@pytest.mark.parametrize(
    ("a", "others", "addresses", "writes"),
    [
        pytest.param(cidr("10.0.0.0/24"), {}, {}, [], id="SC-T3"),
        pytest.param(
            cidr("10.0.0.0/24", ready=None, finalizers=()), {}, {}, [FIN_PLUS, STATUS_T], id="SC-T2"
        ),
        pytest.param(cidr("10.0.0.0/24", ready=None), {}, {}, [STATUS_T], id="SC-T4"),
        pytest.param(cidr("10.0.0.0/24", finalizers=["x/y"]), {}, {}, [FIN_PLUS], id="SC-T5"),
        pytest.param(
            cidr("10.0.0.0/24", ready=IS_READY | {"message": "other"}), {}, {}, [STATUS_T], id="T6"
        ),
        pytest.param(cidr("10.0.0.0/24", ready=IS_TERMINATING), {}, {}, [STATUS_T], id="SC-T30"),
        pytest.param(cidr("10.0.0.0/24", deleted=11), {}, {}, [FIN_MINUS], id="SC-T7"),
        pytest.param(cidr("10.0.0.0/24", deleted=1), {}, SEVEN, [STATUS_F], id="SC-T9"),
        pytest.param(
            cidr("10.0.0.0/24", deleted=1, ready=IS_TERMINATING), {}, SEVEN, [], id="SC-T10"
        ),
        pytest.param(
            cidr("10.0.0.0/24", deleted=30),
            {"b": cidr("10.0.0.0/24")},
            SEVEN,
            [FIN_MINUS],
            id="T13",
        ),
        pytest.param(
            cidr("10.0.0.0/24", deleted=30),
            {"b": cidr("10.0.0.0/24", deleted=30)},
            SEVEN,
            [FIN_MINUS],
            id="SC-92: a parent that is being deleted",
        ),
        pytest.param(
            cidr("10.0.0.0/24", deleted=30),
            {"b": cidr("10.0.0.0/26", ready=None)},
            SEVEN,
            [FIN_MINUS],
            id="SC-T14, SC-44: not ready",
        ),
        pytest.param(
            cidr("10.0.0.0/24", deleted=30),
            {},
            {"10.0.0.0": address(), "10.0.0.255": address()},
            [FIN_MINUS],
            id="SC-T18",
        ),
        pytest.param(
            cidr("10.0.0.0/24", deleted=30), {}, {"not-an-ip": address()}, [FIN_MINUS], id="SC-T22"
        ),
        pytest.param(
            cidr("10.0.0.0/24", deleted=30, finalizers=["x/y"]), {}, {}, [], id="SC-T29, SC-72"
        ),
        pytest.param(
            cidr("10.0.0.0/24", deleted=30, finalizers=["x/y"], ready=None),
            {},
            SEVEN,
            [STATUS_F],
            id="SC-61: whatever the finalizers",
        ),
    ],
)
async def test_a_sync_writes_what_is_missing(
    a: Manifest, others: Mapping[str, Manifest], addresses: Mapping[str, Manifest], writes: Any
) -> None:
    """The state of a ServiceCIDR decides, not what happened to it (SC-51, SC-60 to SC-73, 80)."""
    cluster = Cluster({"a": a, **others}, addresses)
    assert await cluster.sync() == Done()
    assert cluster.written == [("a", sort) for sort in writes]


async def test_a_key_without_object_needs_nothing() -> None:
    """A key without object ends well and without a request (SC-T1, SC-T27, SC-50)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", ready=None)})
    assert cluster.cidrs.deliver("DELETED", "a", cidr("10.0.0.0/24")) == []
    assert await cluster.sync() == Done()
    assert cluster.written == []


@pytest.mark.parametrize(
    ("deleted", "outcome", "writes"),
    [
        pytest.param(4, Later(timedelta(seconds=5, microseconds=321_100)), [], id="SC-T8"),
        pytest.param(-2, Later(timedelta(seconds=11, microseconds=321_100)), [], id="slow clock"),
        pytest.param(9, Later(timedelta(microseconds=321_100)), [], id="whole seconds"),
        pytest.param(10, Done(), [("a", FIN_MINUS)], id="SC-64"),
    ],
)
async def test_a_free_one_stays_for_ten_seconds(
    deleted: float, outcome: Outcome, writes: list[tuple[str, str]]
) -> None:
    """The wait is what is left of 10 s by the local clock; the condition stays (SC-7, 62, 63)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", deleted=deleted, ready=IS_TERMINATING)})
    assert await cluster.sync() == outcome
    assert cluster.written == writes


async def test_the_decision_is_made_again_each_time() -> None:
    """Blocked within the grace, and freed after it, it is treated as it is then (SC-65, SC-104)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", deleted=4)})
    assert await cluster.sync() == Later(timedelta(seconds=5, microseconds=321_100))
    cluster.addresses.deliver("ADDED", "10.0.0.7", address())
    assert await cluster.sync() == Done()
    cluster.cidrs.deliver("MODIFIED", "a", cidr("10.0.0.0/24", deleted=30, ready=IS_TERMINATING))
    cluster.addresses.deliver("DELETED", "10.0.0.7", address())
    assert await cluster.sync() == Done()
    assert cluster.written == [("a", STATUS_F), ("a", FIN_MINUS)]


async def test_the_condition_carries_the_present_time() -> None:
    """Whole seconds in UTC, the same when only the message changes; no generation (SC-82 to 85)."""
    changed = IS_READY | {"message": "other", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    cluster = Cluster({"a": cidr("10.0.0.0/24", ready=changed)})
    await cluster.sync()
    assert cluster.applied == IS_READY | {"lastTransitionTime": "2026-01-02T03:04:05Z"}


async def test_a_vanished_object_needs_no_finalizer() -> None:
    """404 to a finalizer patch is no error; the status apply follows (SC-71, SC-72, SC-T26)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", ready=None, finalizers=())})
    cluster.answers.extend([NotFound("gone", status=404), NotFound("gone", status=404)])
    with pytest.raises(NotFound):
        await cluster.sync()
    assert cluster.written == [("a", FIN_PLUS), ("a", STATUS_T)]
    assert [event[0] for event in cluster.events] == ["a"]
    cluster = Cluster({"a": cidr("10.0.0.0/24", deleted=30)})
    cluster.answers.append(NotFound("gone", status=404))
    assert await cluster.sync() == Done()


async def test_a_lost_connection_is_reported_like_a_refusal() -> None:
    """Whatever kept the condition from being written, there is one Event an attempt (SC-74)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", ready=None)})
    cluster.answers.append(Unreachable("no answer"))
    with pytest.raises(Unreachable):
        await cluster.sync()
    assert cluster.events == [
        (
            "a",
            "KubernetesServiceCIDRError",
            "The ServiceCIDR Status can not be set to Ready=True",
            True,
            "service-cidr-controller",
        )
    ]


@pytest.mark.virtual_time
async def test_a_failure_is_retried_without_end() -> None:
    """18 failures are waited out, 655 s the last; then done (SC-T23, SC-101, SC-102, Diff e)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", ready=None)})
    cluster.answers.extend([ApiError("broken", status=500)] * 18)
    rig = Rig()

    async def sync(key: Key, view: View, writer: Writer) -> Outcome:
        return await cluster.sync(key.name)

    rig.queue.add(Key("a"), CAUSE)
    records = await rig.run(sync, seconds=2000)
    assert [record.outcome for record in records] == ["error"] * 18 + ["done"]
    assert [record.retry_after_seconds for record in records[:-1]] == pytest.approx(
        [0.005 * 2**failures for failures in range(18)]
    )
    assert len(cluster.events) == 18
    assert cluster.written == [("a", STATUS_T)] * 19


async def test_conditions_of_other_types_are_not_looked_at() -> None:
    """Only the one of type Ready counts (SC-80)."""
    complete = cidr("10.0.0.0/24")
    complete["status"]["conditions"].insert(0, IS_TERMINATING | {"type": "Other"})
    cluster = Cluster({"a": complete})
    assert cluster.cidrs.queued == []
    await cluster.sync()
    assert cluster.written == []


UNDECODABLE_CIDR: Manifest = {"metadata": {"finalizers": 7}}
UNDECODABLE_ADDRESS: Manifest = {"metadata": {"labels": 7}}


async def test_nothing_is_written_from_half_read_data(caplog: pytest.LogCaptureFixture) -> None:
    """
    A ServiceCIDR that cannot be read is an error until it can; others go on (Difference d).

    Once it can be read again it is synced at once, whether or not a field has changed (F-20).
    """
    incomplete = cidr("10.0.0.0/24", ready=None)
    cluster = Cluster({"a": incomplete, "b": cidr("10.1.0.0/24", ready=None)})
    with caplog.at_level(logging.ERROR):
        assert cluster.cidrs.deliver("MODIFIED", "a", UNDECODABLE_CIDR) == []
    with pytest.raises(Undecodable, match="servicecidr 'a' does not fit"):
        await cluster.sync("a")
    await cluster.sync("b")
    assert cluster.written == [("b", STATUS_T)]
    assert cluster.status()["undecodable"] == 1
    assert cluster.cidrs.deliver("MODIFIED", "a", incomplete) == ["a"]
    await cluster.sync("a")
    assert cluster.written[1:] == [("a", STATUS_T)]


async def test_an_undecodable_range_still_holds_its_addresses() -> None:
    """With its last good ranges it is a parent, and shares addresses (Difference d)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", deleted=30), "b": cidr("10.0.0.0/26")}, SEVEN)
    cluster.cidrs.deliver("MODIFIED", "b", UNDECODABLE_CIDR)
    cluster.cidrs.deliver("ADDED", "c", UNDECODABLE_CIDR)
    await cluster.sync()
    assert cluster.written == [("a", FIN_MINUS)]


async def test_an_undecodable_address_frees_nothing() -> None:
    """It counts as managed, with a check each minute: there is no event of its end (Diff. d)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", deleted=30)}, {"10.0.0.7": UNDECODABLE_ADDRESS})
    assert await cluster.sync() == Later(timedelta(minutes=1))
    assert cluster.written == [("a", STATUS_F)]
    assert cluster.status()["kept"] == [{"serviceCIDR": "a", "keptBy": "10.0.0.7"}]
    assert cluster.addresses.deliver("DELETED", "10.0.0.7", UNDECODABLE_ADDRESS) == []
    assert await cluster.sync() == Done()
    assert cluster.written[1:] == [("a", FIN_MINUS)]


async def test_an_undecodable_address_does_not_block_a_finalized_one() -> None:
    """
    There is no event of its creation, so an unrelated sync must write nothing either (F-52).

    What is let go has lost the finalizer, and waits for those of others only.
    """
    free = {"a": cidr("10.0.0.0/24", deleted=30, finalizers=["x/y"])}
    cluster = Cluster(free)
    assert cluster.addresses.deliver("ADDED", "10.0.0.7", UNDECODABLE_ADDRESS) == []
    assert await cluster.sync() == Done()
    assert cluster.written == []


async def test_an_undecodable_address_stays_where_readable_ones_go() -> None:
    """The last decodable address queues the key, the sync finds the other one (Difference d)."""
    blocked = cidr("10.0.0.0/24", deleted=30, ready=IS_TERMINATING)
    cluster = Cluster({"a": blocked}, {**SEVEN, "10.0.0.8": UNDECODABLE_ADDRESS})
    assert await cluster.sync() == Done()
    assert cluster.addresses.deliver("DELETED", "10.0.0.7", address()) == ["a"]
    assert await cluster.sync() == Later(timedelta(minutes=1))
    assert cluster.written == []
    assert cluster.addresses.deliver("MODIFIED", "10.0.0.8", address(manager="x")) == []
    assert await cluster.sync() == Done()
    assert cluster.written == [("a", FIN_MINUS)]


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
