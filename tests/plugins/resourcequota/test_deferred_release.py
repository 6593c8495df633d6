"""The deferred release: deletions are subtracted at once, stale usage after the settle time."""

import asyncio

import pytest
from plugins.resourcequota.quota_cluster import QuotaCluster, started
from plugins.resourcequota.quota_manifests import pod
from plugins.tables import row

from kcm_host.api import ApiError, Conflict, Key, Unreachable
from kcm_host_resourcequota.evaluators.pods import POD
from kcm_host_resourcequota.models import RESOURCE_QUOTA


def with_pods(count: int, *names: str, settle: float = 10.0) -> tuple[QuotaCluster, Key]:
    """Return a running cluster with a number of pods and a quota with a right status."""
    pods = [pod(f"p{number}", requests={"cpu": "1"}) for number in range(count)]
    cluster, key = started(*(names or ("pods",)), pods=pods, settle=settle)
    cluster.advance(1)
    return cluster, key


def test_requests_in_progress_are_left_alone() -> None:
    """Admission has counted five, the pods appear one by one: never a write (RQ-T138, RQ-B31)."""
    cluster, key = with_pods(0)
    before = len(cluster.updates)
    cluster.admit(key, pods=5)
    for number in range(5):
        cluster.put(POD, pod(f"p{number}"))
        cluster.advance(1)
    cluster.advance(30)
    assert len(cluster.updates) == before
    assert cluster.used(key) == {"pods": "5"}


def test_stale_usage_is_released_after_the_settle_time() -> None:
    """Usage without an object stays for 10 s and not for minutes (RQ-T139, RQ-252, RQ-B32 b)."""
    cluster, key = with_pods(2, "pods", "configmaps")
    cluster.admit(key, pods=1)
    cluster.advance(5)
    cluster.admit(key, configmaps=1)
    cluster.advance(4.9)
    assert cluster.used(key) == {"pods": "3", "configmaps": "1"}
    cluster.advance(0.2)
    assert cluster.used(key) == {"pods": "2", "configmaps": "1"}, "names settle each for itself"
    metrics = cluster.controller._reconciler.metrics
    assert (metrics.leaks_repaired, metrics.writes["drift"]) == (1, 1)


def test_an_increase_whose_event_is_late_is_no_conflict() -> None:
    """A pod whose event arrives before that of admission's write needs no write (RQ-B33)."""
    cluster, key = with_pods(0)
    before = len(cluster.updates)
    cluster.hold(RESOURCE_QUOTA)
    cluster.admit(key, pods=1)
    cluster.put(POD, pod("p"))
    cluster.advance(0.05)
    cluster.release(RESOURCE_QUOTA)
    cluster.advance(30)
    assert len(cluster.updates) == before


def test_a_deletion_releases_its_usage_and_no_more() -> None:
    """
    A creation in progress keeps its usage, so `used` never drops below it.

    RQ-T141, RQ-253: the reference would write 4 here, and 5 later.
    """
    cluster, key = with_pods(5)
    cluster.admit(key, pods=1)
    cluster.delete(POD, Key("p0", "a"))
    cluster.advance(0.1)
    assert cluster.used(key) == {"pods": "5"}
    cluster.put(POD, pod("new"))
    before = len(cluster.updates)
    cluster.advance(30)
    assert cluster.used(key) == {"pods": "5"}
    assert len(cluster.updates) == before


def test_a_deletion_before_the_event_of_its_increase_is_released() -> None:
    """The events of the quota may be later than those of the pods (RQ-B36)."""
    cluster, key = with_pods(1)
    cluster.hold(RESOURCE_QUOTA)
    cluster.admit(key, pods=1)
    cluster.put(POD, pod("brief"))
    cluster.delete(POD, Key("brief", "a"))
    cluster.advance(0.2)
    cluster.release(RESOURCE_QUOTA)
    cluster.advance(0.2)
    assert cluster.used(key) == {"pods": "1"}


def test_a_conflict_keeps_observed_deletions() -> None:
    """Admission raises between read and write: the retry has both changes (RQ-B36)."""
    cluster, key = with_pods(2)
    cluster.hold(RESOURCE_QUOTA)
    cluster.admit(key, pods=1)
    cluster.delete(POD, Key("p0", "a"))
    cluster.advance(0.02)
    assert cluster.controller._reconciler.metrics.conflicts >= 1
    cluster.release(RESOURCE_QUOTA)
    cluster.advance(0.2)
    assert cluster.used(key) == {"pods": "2"}
    cluster.put(POD, pod("new"))
    cluster.advance(30)
    assert cluster.used(key) == {"pods": "2"}


def test_some_names_wait_while_others_are_written() -> None:
    """One write; deferred names keep number and text (RQ-B35)."""
    cluster, key = with_pods(1, "pods", "memory")
    cluster.set_used(key, pods="1", memory="1024Mi")
    cluster.put(POD, pod("more"))
    cluster.advance(0.2)
    assert cluster.used(key) == {"pods": "2", "memory": "1024Mi"}
    cluster.advance(15)
    assert cluster.used(key) == {"pods": "2", "memory": "0"}


def test_a_new_start_waits_before_it_lowers() -> None:
    """Usage above the totals at the start may be a request (RQ-B32; Difference to RQ-15)."""
    cluster, key = started(
        "pods", status={"hard": {"pods": "100"}, "used": {"pods": "3"}}, pods=[pod("p")]
    )
    cluster.advance(9)
    assert cluster.used(key) == {"pods": "3"}
    cluster.advance(2)
    assert cluster.used(key) == {"pods": "1"}


def test_a_resync_releases_the_minimum_excess() -> None:
    """
    In a busy namespace, stale usage stays longer than one period, a request in progress does not.

    RQ-B32: the resync does not wait.
    """
    cluster, key = with_pods(1)
    cluster.admit(key, pods=2)
    for number in range(160):
        cluster.admit(key, pods=1)
        cluster.advance(2)
        cluster.put(POD, pod(f"busy-{number}"))
        cluster.advance(2)
    assert cluster.used(key) == {"pods": "161"}
    assert cluster.controller._reconciler.metrics.writes["resync"] == 1


def test_settle_time_zero_writes_the_totals() -> None:
    """The reference does so with every sync."""
    cluster, key = with_pods(2, settle=0)
    cluster.admit(key, pods=3)
    cluster.advance(0.1)
    assert cluster.used(key) == {"pods": "2"}


def test_many_deletions_are_few_writes() -> None:
    """The first is subtracted at once, the others share a sync (RQ-B11, RQ-B12)."""
    cluster, key = with_pods(100)
    before = len(cluster.updates)
    for number in range(100):
        cluster.delete(POD, Key(f"p{number}", "a"))
        cluster.advance(0.001)
    cluster.advance(0.1)
    assert cluster.used(key) == {"pods": "0"}
    assert len(cluster.updates) - before == 3


@pytest.mark.parametrize(
    "answer",
    [
        row("the sync exceeded its time limit", asyncio.CancelledError()),
        row("no response", Unreachable("no answer")),
        row("the server failed", ApiError("etcd did not answer in time", status=500)),
        row("a proxy failed", ApiError("timeout", status=504)),
        row("it was sent twice", Conflict("changed", status=409)),
        row("retry was refused", Unreachable("no server", refused=True)),
    ],
)
def test_a_write_without_a_response_is_not_repeated_an_hour_later(answer: BaseException) -> None:
    """
    It subtracted the deletion, so nothing is left to subtract when admission raises `used` again.

    F-5: five pods, one is deleted, the response to the write of 4 is lost; later `used` 5 is right.
    """
    cluster, key = with_pods(5)
    cluster.lost_responses.append(answer)
    cluster.delete(POD, Key("p0", "a"))
    cluster.advance(3600.5)
    assert cluster.used(key) == {"pods": "4"}
    cluster.admit(key, pods=1)
    cluster.advance(5)
    assert cluster.used(key) == {"pods": "5"}


def test_a_write_that_was_lost_is_repeated_after_the_settle_time() -> None:
    """Until then the difference could be a request in progress (F-5)."""
    cluster, key = with_pods(5)
    cluster.errors.append(Unreachable("no answer"))
    cluster.delete(POD, Key("p0", "a"))
    cluster.advance(9.9)
    assert cluster.used(key) == {"pods": "5"}
    cluster.advance(0.3)
    assert cluster.used(key) == {"pods": "4"}


def test_what_another_writer_subtracted_first_is_not_subtracted_again() -> None:
    """The event of the quota may be earlier than that of the deleted object (F-5)."""
    cluster, key = with_pods(5)
    cluster.hold(POD)
    cluster.delete(POD, Key("p0", "a"))
    cluster.set_used(key, pods="4")
    cluster.release(POD)
    cluster.admit(key, pods=1)
    cluster.advance(5)
    assert cluster.used(key) == {"pods": "5"}


def test_deletions_after_a_relist_wait_for_the_settle_time() -> None:
    """Another writer may have subtracted it in the changes that the list hides (F-5)."""
    cluster, key = with_pods(5)
    cluster.hold(RESOURCE_QUOTA)
    cluster.hold(POD)
    cluster.delete(POD, Key("p0", "a"))
    cluster.set_used(key, pods="4")
    cluster.admit(key, pods=1)
    cluster.relist(RESOURCE_QUOTA)
    cluster.release(RESOURCE_QUOTA)
    cluster.release(POD)
    cluster.advance(5)
    assert cluster.used(key) == {"pods": "5"}
