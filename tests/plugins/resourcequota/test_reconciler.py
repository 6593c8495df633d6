"""The reconciler: what one sync of a quota writes, and when it writes nothing."""

import pytest
from plugins.resourcequota.quota_cluster import QuotaCluster, started
from plugins.resourcequota.quota_discovery import CONFIG_MAP
from plugins.resourcequota.quota_manifests import named, pod

from kcm_host.api import ApiError, Conflict, Key, NotFound, Unreachable
from kcm_host_resourcequota.evaluators.pods import POD
from kcm_host_resourcequota.models import RESOURCE_QUOTA
from kcm_host_resourcequota.reconciler import may_have_arrived


def test_a_new_quota_gets_its_status_by_one_write() -> None:
    """`hard` is a copy of the spec, every handled name has an entry (RQ-T1, RQ-40 to 47, RQ-77)."""
    cluster, key = started(hard={"pods": "5", "cpu": "3"})
    assert len(cluster.updates) == 1
    sent = cluster.updates[0]
    assert sent["status"] == {"hard": {"pods": "5", "cpu": "3"}, "used": {"pods": "0", "cpu": "0"}}
    assert sent["spec"] == {"hard": {"pods": "5", "cpu": "3"}}
    assert sent["metadata"]["resourceVersion"] == "1", "RQ-45, RQ-B36"
    assert cluster.used(key) == {"pods": "0", "cpu": "0"}


def test_texts_alone_are_no_difference() -> None:
    """Neither in `hard` nor in `used` (RQ-T8, RQ-T9, RQ-25, RQ-49)."""
    cluster = QuotaCluster()
    cluster.put(POD, pod("p", requests={"memory": "1Gi"}))
    status = {
        "hard": {"cpu": "1000m", "memory": "9Gi"},
        "used": {"cpu": "0", "memory": "1024Mi"},
    }
    key = cluster.quota(hard={"cpu": "1", "memory": "9Gi"}, status=status)
    cluster.start()
    assert cluster.updates == []
    cluster.set_hard(key, cpu="1", memory="9Gi", pods="3")
    cluster.advance(0.1)
    assert cluster.used(key) == {"cpu": "0", "memory": "1Gi", "pods": "1"}, "written as well"


@pytest.mark.parametrize("hard", [{}, {"foo.example.com/bar": "1"}], ids=["T15", "T16"])
def test_an_empty_status_is_not_written_again_and_again(hard: dict[str, str]) -> None:
    """Absent and empty are the same; no event would end it (RQ-T15, RQ-T16, RQ-50, RQ-257, D-2)."""
    cluster, key = started(hard=hard, status={"hard": hard} if hard else {})
    cluster.sync(key)
    assert cluster.updates == []


def test_a_deleted_quota_needs_nothing() -> None:
    """Success without a request, also after its delete event (RQ-T13, RQ-T19, RQ-23, RQ-40)."""
    cluster, key = started(hard={"pods": "1"})
    cluster.delete(RESOURCE_QUOTA, key)
    before = len(cluster.updates)
    cluster.run_due()
    cluster.sync(key)
    cluster.sync(Key("never", "a"))
    assert len(cluster.updates) == before


def test_an_undecodable_quota_is_left_alone() -> None:
    """Its present version is newer than the one that is known, so a write would be late (RQ-75)."""
    cluster, key = started(hard={"pods": "9"})
    before = len(cluster.updates)
    manifest = cluster.get(RESOURCE_QUOTA, key)
    cluster.put(RESOURCE_QUOTA, {**manifest, "spec": {"hard": {"pods": "nonsense"}}})
    cluster.put(POD, pod("p"))
    cluster.advance(1)
    assert len(cluster.updates) == before
    cluster.set_hard(key, pods="7")
    cluster.advance(1)
    assert cluster.used(key) == {"pods": "1"}


def test_the_present_format_stays_if_a_part_has_it() -> None:
    """Although most parts have another one (RQ-B26, RQ-304)."""
    cluster = QuotaCluster()
    key = cluster.quota("memory", hard={"memory": "1G"})
    cluster.put(POD, pod("binary", requests={"memory": "1Mi"}))
    cluster.start()
    for number in range(2):
        cluster.put(POD, pod(f"decimal{number}", requests={"memory": "1024k"}))
    cluster.advance(1)
    assert cluster.used(key) == {"memory": "3024Ki"}


def test_conflicts_are_tried_again_on_a_newer_copy() -> None:
    """Twice 409, then right; each try has its version from the store (RQ-T14, RQ-34, RQ-B36)."""
    cluster, key = started(hard={"pods": "9"})
    cluster.put(POD, pod("p"))
    cluster.advance(1)
    cluster.errors += [Conflict("late", status=409), Conflict("late", status=409)]
    before = len(cluster.updates)
    cluster.delete(POD, Key("p", "a"))
    cluster.advance(0.5)
    assert len(cluster.updates) == before + 3
    assert cluster.used(key) == {"pods": "0"}
    assert cluster.failures == {}


def test_a_quota_deleted_during_the_write_needs_nothing() -> None:
    """404 is an error; the retry finds nothing (RQ-53)."""
    cluster, key = started(hard={"pods": "9"})
    cluster.hold(RESOURCE_QUOTA)
    cluster.delete(RESOURCE_QUOTA, key)
    cluster.put(POD, pod("p"))
    cluster.advance(0.1)
    assert isinstance(cluster.sync(key), NotFound)
    cluster.release(RESOURCE_QUOTA)
    before = len(cluster.updates)
    cluster.advance(5)
    assert len(cluster.updates) == before


def test_a_quota_that_was_recreated_unseen_is_another_quota() -> None:
    """The watch has missed the deletion, so that only an update arrives (RQ-53)."""
    cluster, key = started(hard={"pods": "9"})
    cluster.admit(key, pods=1)
    cluster.advance(1)
    replenishment = cluster.controller._replenishment
    before = replenishment.releases[key]
    assert key in replenishment.excess_since
    old = cluster.objects[RESOURCE_QUOTA].pop(key)
    metadata = {**old["metadata"], "uid": "another"}
    cluster.put(RESOURCE_QUOTA, {**old, "metadata": metadata})
    assert replenishment.releases[key] is not before
    assert key not in replenishment.excess_since


def test_a_changed_limit_is_copied_at_once() -> None:
    """Without an evaluation of any object (RQ-21, RQ-T131, RQ-B13)."""
    cluster, key = started(hard={"pods": "10"})
    evaluations = cluster.controller._replenishment.monitor.usage.evaluations
    cluster.set_hard(key, pods="11")
    cluster.run_due()
    assert cluster.get(RESOURCE_QUOTA, key)["status"]["hard"] == {"pods": "11"}
    assert cluster.controller._replenishment.monitor.usage.evaluations == evaluations


def test_a_rejected_entry_does_not_block_the_others(caplog: pytest.LogCaptureFixture) -> None:
    """A 422 that names entries leads to one more write, with their old texts (D-19, RQ-256)."""
    cluster, key = started(hard={"pods": "9", "configmaps": "9"})
    cluster.put(CONFIG_MAP, named("c"))
    message = 'ResourceQuota "q" is invalid: status.used[pods]: Invalid value: must be an integer'
    cluster.errors.append(ApiError(message, status=422))
    cluster.put(POD, pod("p"))
    cluster.advance(0.11)
    assert [sent["status"]["used"] for sent in cluster.updates[-2:]][:2] == [
        {"pods": "1", "configmaps": "1"},
        {"pods": "0", "configmaps": "1"},
    ]
    assert cluster.used(key)["configmaps"] == "1"
    ((text, pairs),) = ((each.msg, each.__dict__["kv"]) for each in caplog.records)
    assert (text, pairs) == ("usage rejected by the server", {"error": message})


def test_another_rejection_is_an_error() -> None:
    """It is raised, and the key is retried (RQ-31, RQ-48)."""
    cluster, key = started(hard={"pods": "9"})
    cluster.put(POD, pod("p"))
    cluster.errors.append(ApiError("no", status=403))
    assert isinstance(cluster.sync(key), ApiError)
    cluster.advance(1)
    assert cluster.used(key) == {"pods": "1"}


@pytest.mark.parametrize(
    ("error", "arrived"),
    [
        (ApiError("invalid", status=422), False),
        (ApiError("a proxy of its own mind", status=499), False),
        (ApiError("etcd is slow", status=500), True),
        (ApiError("no answer", status=504), True),
        (Unreachable("cut off"), True),
        (Unreachable("no server", refused=True), False),
    ],
    ids=str,
)
def test_what_a_failed_request_may_have_stored(
    error: ApiError | Unreachable, arrived: bool
) -> None:
    """Only a server that fails, or no answer at all, leaves that open (RQ-B32, F-5)."""
    assert may_have_arrived(error) is arrived
