"""The reconciler: what one sync of a quota writes, and when it writes nothing."""

from datetime import timedelta

import pytest
from plugins.resourcequota.quota_cluster import QuotaCluster
from plugins.resourcequota.quota_discovery import CONFIG_MAP
from plugins.resourcequota.quota_manifests import named, pod

from kcm_host.api import (
    ApiError,
    Conflict,
    EnqueueRequest,
    Key,
    Later,
    NotFound,
    Priority,
    Unreachable,
)
from kcm_host_resourcequota.evaluators.pods import POD
from kcm_host_resourcequota.evaluators.services import SERVICE
from kcm_host_resourcequota.models import RESOURCE_QUOTA
from kcm_host_resourcequota.reconciler import may_have_arrived

BIG = {"cpu": "100m", "memory": "1Gi"}


def started(**hard: str) -> tuple[QuotaCluster, Key]:
    """Return a running cluster with one quota and nothing else."""
    cluster = QuotaCluster()
    key = cluster.quota(hard=hard)
    cluster.start()
    return cluster, key


def test_a_new_quota_gets_its_status_by_one_write() -> None:
    """`hard` is a copy of the spec, every handled name has an entry (RQ-T1, RQ-40 to 47, RQ-77)."""
    cluster, key = started(pods="5", cpu="3")
    assert len(cluster.updates) == 1
    sent = cluster.updates[0]
    assert sent["status"] == {"hard": {"pods": "5", "cpu": "3"}, "used": {"pods": "0", "cpu": "0"}}
    assert sent["spec"] == {"hard": {"pods": "5", "cpu": "3"}}
    assert sent["metadata"]["resourceVersion"] == "1", "RQ-45, RQ-B36"
    assert cluster.used(key) == {"pods": "0", "cpu": "0"}


def test_a_right_quota_is_not_written() -> None:
    """A sync of a right status sends nothing (RQ-T2, RQ-47)."""
    cluster, key = started(pods="5", cpu="3")
    cluster.sync(key)
    assert len(cluster.updates) == 1


def test_usage_is_the_sum_over_the_namespace() -> None:
    """All forms of a name, and only objects of the same namespace (RQ-T3, T4, T5)."""
    names = ("requests.cpu", "requests.memory", "limits.cpu", "limits.memory", "pods")
    cluster, key = started(**dict.fromkeys(names, "100"))
    for number in range(3):
        limits = {"cpu": "200m", "memory": "2Gi"}
        cluster.put(POD, pod(f"p{number}", requests=BIG, limits=limits))
    cluster.put(POD, pod("elsewhere", namespace="b", requests=BIG))
    cluster.advance(1)
    assert cluster.used(key) == {
        "requests.cpu": "300m",
        "requests.memory": "3Gi",
        "limits.cpu": "600m",
        "limits.memory": "6Gi",
        "pods": "3",
    }
    short = cluster.quota("cpu", "memory", "requests.cpu", name="short")
    cluster.advance(1)
    assert cluster.used(short) == {"cpu": "300m", "memory": "3Gi", "requests.cpu": "300m"}


def test_a_name_without_evaluator_has_no_usage() -> None:
    """It stays in `hard` (RQ-T6, RQ-61)."""
    cluster, key = started(pods="9", **{"foobars.example.com": "1"})
    assert cluster.used(key) == {"pods": "0"}
    assert set(cluster.get(RESOURCE_QUOTA, key)["status"]["hard"]) == {
        "pods",
        "foobars.example.com",
    }


def test_the_entry_of_a_removed_limit_is_removed() -> None:
    """Only names that are still limited have an entry (RQ-T7, RQ-44)."""
    cluster = QuotaCluster()
    for name in ("p", "q"):
        cluster.put(POD, pod(name))
    status = {"hard": {"pods": "5", "cpu": "1"}, "used": {"pods": "2", "cpu": "1"}}
    key = cluster.quota(hard={"pods": "5"}, status=status)
    cluster.start()
    assert len(cluster.updates) == 1
    assert cluster.used(key) == {"pods": "2"}


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
    """Absent and empty are the same (RQ-T15, RQ-T16, RQ-50, D-2)."""
    cluster = QuotaCluster()
    key = cluster.quota(hard=hard, status={"hard": hard} if hard else {})
    cluster.start()
    cluster.sync(key)
    assert cluster.updates == []


def test_a_deleted_quota_needs_nothing() -> None:
    """Success without a request, also after its delete event (RQ-T13, RQ-T19, RQ-23, RQ-40)."""
    cluster, key = started(pods="1")
    cluster.delete(RESOURCE_QUOTA, key)
    before = len(cluster.updates)
    cluster.run_due()
    cluster.sync(key)
    cluster.sync(Key("never", "a"))
    assert len(cluster.updates) == before


def test_an_undecodable_quota_is_left_alone() -> None:
    """Its present version is newer than the one that is known, so a write would be late (RQ-75)."""
    cluster, key = started(pods="9")
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
    cluster, key = started(pods="9")
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
    cluster, key = started(pods="9")
    cluster.hold(RESOURCE_QUOTA)
    cluster.delete(RESOURCE_QUOTA, key)
    cluster.put(POD, pod("p"))
    cluster.advance(0.1)
    assert isinstance(cluster.sync(key), NotFound)
    cluster.release(RESOURCE_QUOTA)
    before = len(cluster.updates)
    cluster.advance(5)
    assert len(cluster.updates) == before


def test_a_recreated_quota_is_another_quota() -> None:
    """The state of the deleted quota does not apply to the new one (RQ-53)."""
    cluster, key = started(pods="9")
    cluster.put(POD, pod("p"))
    cluster.advance(1)
    cluster.delete(RESOURCE_QUOTA, key)
    cluster.quota(hard={"pods": "3"})
    cluster.run_due()
    assert cluster.used(key) == {"pods": "1"}


def test_a_quota_that_was_recreated_unseen_is_another_quota() -> None:
    """The watch has missed the deletion, so that only an update arrives (RQ-53)."""
    cluster, key = started(pods="9")
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


def test_usage_above_the_limit_is_reported() -> None:
    """It reports, it does not evict (RQ-T22, RQ-52)."""
    cluster, key = started(pods="10")
    for number in range(12):
        cluster.put(POD, pod(f"p{number}"))
    cluster.advance(1)
    assert cluster.used(key) == {"pods": "12"}


def test_a_changed_limit_is_copied_at_once() -> None:
    """Without an evaluation of any object (RQ-21, RQ-B13)."""
    cluster, key = started(pods="10")
    evaluations = cluster.controller._replenishment.monitor.usage.evaluations
    cluster.set_hard(key, pods="11")
    cluster.run_due()
    assert cluster.get(RESOURCE_QUOTA, key)["status"]["hard"] == {"pods": "11"}
    assert cluster.controller._replenishment.monitor.usage.evaluations == evaluations


def test_urgent_quotas_are_first() -> None:
    """
    Quotas without present limits or usage for admission have priority over all others.

    RQ-T17 a, c, e, f are urgent, d is not, b is not even queued; RQ-24 to RQ-26, RQ-B52.
    """
    cluster = QuotaCluster()
    extended = "requests.example/foobars.example.com"
    cases = {
        "a": ({"cpu": "4"}, {}),
        "b": ({"cpu": "4"}, {"hard": {"cpu": "4"}, "used": {"cpu": "0"}}),
        "c": ({"cpu": "4"}, {"hard": {"cpu": "4"}, "used": {}}),
        "d": (
            {"cpu": "4", "foobars.example.com": "4"},
            {"hard": {"cpu": "4", "foobars.example.com": "4"}, "used": {"cpu": "0"}},
        ),
        "e": (
            {"cpu": "4", extended: "4"},
            {"hard": {"cpu": "4", extended: "4"}, "used": {"cpu": "0"}},
        ),
        "f": ({"cpu": "4"}, {"hard": {"cpu": "6"}, "used": {"cpu": "0"}}),
    }
    for name, (hard, status) in cases.items():
        cluster.quota(hard=hard, status=status, name=name, namespace=name)
    cluster.start()
    wanted = {}
    for name in cases:
        replenishment = cluster.controller._replenishment
        quota = replenishment.quotas.get(Key(name, name))
        assert quota is not None
        wanted[name] = replenishment.desired_status(quota, cluster.view)
    assert not any(each.is_dirty for each in wanted.values())
    written = [sent["metadata"]["name"] for sent in cluster.updates]
    assert sorted(written) == ["a", "c", "e", "f"]


def test_an_urgent_quota_overtakes() -> None:
    """A new quota is synced before one that only has to be lowered (RQ-27, RQ-29, RQ-B52)."""
    cluster = QuotaCluster()
    for name in ("a", "b"):
        cluster.put(POD, pod("p", namespace=name))
    low = cluster.quota("pods", namespace="a")
    cluster.start()
    cluster.advance(1)
    cluster.delete(POD, Key("p", "a"))
    cluster.later.clear()
    cluster.enqueue([low])
    new = cluster.quota("pods", namespace="b")
    assert cluster.run_due() == [new, low]


@pytest.mark.parametrize(
    ("fields", "queued"),
    [
        pytest.param({"metadata": {"labels": {"x": "y"}}}, False, id="labels"),
        pytest.param({"spec": {"hard": {"cpu": "1000m"}}}, False, id="another-text"),
        pytest.param({"spec": {"hard": {"cpu": "1", "pods": "1"}}}, True, id="an-added-name"),
        pytest.param({"spec": {"hard": {"cpu": "2"}}}, True, id="another-value"),
        pytest.param({"spec": {"hard": {}}}, True, id="a-removed-name"),
    ],
)
def test_only_another_limit_is_written(fields: dict[str, dict[str, object]], queued: bool) -> None:
    """A change of no number sends nothing (RQ-T18, RQ-21, RQ-22)."""
    cluster, key = started(cpu="1")
    before = len(cluster.updates)
    cluster.advance(1)
    manifest = cluster.get(RESOURCE_QUOTA, key)
    merged = {name: {**manifest.get(name, {}), **more} for name, more in fields.items()}
    cluster.put(RESOURCE_QUOTA, {**manifest, **merged})
    if "spec" in fields:
        assert cluster.due == {key: Priority.URGENT if queued else Priority.NORMAL}
    cluster.run_due()
    assert (len(cluster.updates) > before) is queued


def test_changes_within_a_short_time_are_one_sync() -> None:
    """The first is copied at once, the others 0.05 s after it (RQ-B12)."""
    cluster, key = started(pods="9")
    cluster.advance(1)
    cluster.set_hard(key, pods="10")
    assert cluster.run_due() == [key]
    for limit in range(11, 14):
        cluster.set_hard(key, pods=str(limit))
        assert cluster.run_due() == []
    cluster.syncs.clear()
    cluster.advance(0.049)
    assert cluster.syncs == []
    cluster.advance(0.002)
    assert cluster.syncs == [key]
    cluster.set_used(key)
    assert (cluster.run_due(), cluster.later[key][1]) == ([], Priority.URGENT)
    cluster.advance(0.051)
    assert cluster.used(key) == {"pods": "0"}


def test_only_new_names_refresh_the_watches() -> None:
    """At once, not with the next periodic refresh (D-12, RQ-226)."""
    cluster, key = started(pods="9")
    cluster.set_hard(key, pods="10")
    assert not cluster.needs_refresh
    cluster.set_hard(key, pods="10", services="3")
    assert cluster.needs_refresh
    cluster.advance(0.1)
    assert cluster.used(key) == {"pods": "0", "services": "0"}


def test_a_deleted_quota_leaves_nothing_behind() -> None:
    """Whatever was going on (section 20.3)."""
    cluster, key = started(pods="9")
    cluster.advance(1)
    cluster.admit(key, pods=1)
    cluster.advance(1)
    replenishment = cluster.controller._replenishment
    assert list(replenishment.resync()) != []
    states = (
        replenishment.releases,
        replenishment.excess_since,
        replenishment._synced_at,
        replenishment._resyncing,
    )
    assert all(key in state for state in states)
    cluster.delete(RESOURCE_QUOTA, key)
    assert not any(states)


def test_a_full_resync_queues_every_quota_last() -> None:
    """In any state; a right status costs no request and no evaluation (RQ-T20, RQ-B53)."""
    cluster, key = started(pods="9", configmaps="9")
    other = cluster.quota("pods", name="other", namespace="b")
    cluster.put(CONFIG_MAP, named("c"))
    cluster.advance(1)
    before = len(cluster.updates)
    replenishment = cluster.controller._replenishment
    last = [EnqueueRequest(each, Priority.IDLE) for each in (key, other)]
    assert list(replenishment.resync()) == last
    del cluster.timers[0]
    evaluations = cluster.controller._replenishment.monitor.usage.evaluations
    cluster.syncs.clear()
    cluster.advance(300)
    assert {key, other} <= set(cluster.syncs)
    assert len(cluster.updates) == before
    assert cluster.controller._replenishment.monitor.usage.evaluations == evaluations


def test_without_a_period_nothing_is_resynced() -> None:
    """Events still work (RQ-T21, RQ-4)."""
    cluster = QuotaCluster(resync=0)
    key = cluster.quota("pods")
    cluster.start()
    assert len(cluster.controller.kcm_timers()) == 2
    cluster.syncs.clear()
    cluster.advance(1000)
    assert cluster.syncs == []
    assert cluster.controller._audit.rounds == 0
    cluster.put(POD, pod("p"))
    cluster.advance(1)
    assert cluster.used(key) == {"pods": "1"}


def test_a_rejected_entry_does_not_block_the_others(caplog: pytest.LogCaptureFixture) -> None:
    """A 422 that names entries leads to one more write, with their old texts (D-19, RQ-256)."""
    cluster, key = started(pods="9", configmaps="9")
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
    cluster, key = started(pods="9")
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


def test_what_may_have_been_stored_is_not_subtracted_twice() -> None:
    """A missing response could have been a success (RQ-B32)."""
    cluster, key = started(pods="9")
    for name in ("p", "q"):
        cluster.put(POD, pod(name))
    cluster.advance(1)
    cluster.hold(RESOURCE_QUOTA)
    cluster.delete(POD, Key("p", "a"))
    cluster.set_used(key, pods="1")
    cluster.admit(key, pods=1)
    cluster.errors.append(Unreachable("cut off"))
    cluster.advance(0.04)
    cluster.release(RESOURCE_QUOTA)
    cluster.advance(3)
    assert cluster.used(key) == {"pods": "2"}, "1 and the request in progress"


def test_a_resource_that_is_not_synced_keeps_its_names() -> None:
    """
    Other names are written; without a change nothing is sent (RQ-T10, T11, T12, RQ-71).

    The quota is synced again when the resource is synced, and not retried before (D-15).
    """
    cluster = QuotaCluster()
    cluster.unlistable[POD] = "403 Forbidden"
    for number in range(2):
        cluster.put(SERVICE, named(f"s{number}", spec={"type": "ClusterIP"}))
    cluster.put(POD, pod("p"))
    hard = {"pods": "5", "services": "5"}
    old = cluster.quota(hard=hard, status={"hard": hard, "used": {"pods": "3", "services": "1"}})
    new = cluster.quota(hard=hard, status={"hard": hard, "used": {"services": "1"}}, name="new")
    right = cluster.quota(
        hard=hard, status={"hard": hard, "used": {"pods": "3", "services": "2"}}, name="right"
    )
    other = cluster.quota("services", name="other")
    cluster.start()
    assert cluster.used(old) == {"pods": "3", "services": "2"}
    assert cluster.used(new) == {"services": "2"}
    assert len(cluster.updates) == 3
    assert cluster.failures == {}
    cluster.advance(30)
    cluster.syncs.clear()
    cluster.make_listable(POD)
    cluster.run_due()
    assert other not in cluster.syncs
    cluster.advance(9)
    assert cluster.used(old) == {"pods": "3", "services": "2"}, "it may be a request in progress"
    cluster.advance(6)
    for key in (old, new, right):
        assert cluster.used(key) == {"pods": "1", "services": "2"}


def test_a_starting_resource_is_waited_for() -> None:
    """A quota is not written without a name whose resource is about to be synced (D-1, RQ-254)."""
    cluster = QuotaCluster()
    cluster.unlistable[POD] = ""
    key = cluster.quota("pods", "configmaps")
    cluster.start()
    assert cluster.updates == []
    cluster.make_listable(POD)
    cluster.run_due()
    assert [sent["status"]["used"] for sent in cluster.updates] == [
        {"pods": "0", "configmaps": "0"}
    ]
    assert cluster.used(key) == {"pods": "0", "configmaps": "0"}


def test_a_watch_that_the_host_has_not_started_is_waited_for() -> None:
    """The sync may come before the host has refreshed the watches (D-1, D-12)."""
    cluster = QuotaCluster()
    cluster.start()
    key = cluster.quota("services")
    assert cluster.sync(key) == Later(timedelta(seconds=5))
    assert cluster.updates == []


def test_the_wait_for_a_resource_is_bounded() -> None:
    """After 5 s the other names are written (D-1)."""
    cluster = QuotaCluster()
    cluster.unlistable[POD] = ""
    key = cluster.quota("pods", "configmaps")
    cluster.start()
    cluster.advance(6)
    assert cluster.used(key) == {"configmaps": "0"}
    assert set(cluster.get(RESOURCE_QUOTA, key)["status"]["hard"]) == {"pods", "configmaps"}


def test_one_key_is_one_sync() -> None:
    """An urgent and a normal request for one key are one sync (RQ-T23, RQ-30, D-14)."""
    cluster, key = started(pods="9")
    cluster.enqueue([key])
    cluster.set_hard(key, pods="10")
    assert cluster.run_due() == [key]
