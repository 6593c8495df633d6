"""Replenishment: which quotas are synced, how soon, and what they wait for."""

from datetime import timedelta

import pytest
from plugins.resourcequota.quota_cluster import QuotaCluster, started
from plugins.resourcequota.quota_discovery import CONFIG_MAP
from plugins.resourcequota.quota_manifests import named, pod
from plugins.tables import row

from kcm_host.api import EnqueueRequest, Key, Later, Priority
from kcm_host_resourcequota.evaluators.pods import POD
from kcm_host_resourcequota.evaluators.services import SERVICE
from kcm_host_resourcequota.models import RESOURCE_QUOTA


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
    written = [sent["metadata"]["name"] for sent in cluster.updates]
    assert sorted(written) == ["a", "c", "e", "f"]


def test_an_urgent_quota_overtakes() -> None:
    """A new quota is synced before one that only has to be lowered (RQ-27, RQ-29, RQ-B52)."""
    cluster, low = started(
        "pods", namespace="a", pods=[pod("p", namespace=name) for name in ("a", "b")]
    )
    cluster.advance(1)
    cluster.delete(POD, Key("p", "a"))
    cluster.later.clear()
    cluster.enqueue([low])
    new = cluster.quota("pods", namespace="b")
    assert cluster.run_due() == [new, low]


@pytest.mark.parametrize(
    ("fields", "queued"),
    [
        row("labels", {"metadata": {"labels": {"x": "y"}}}, False),
        row("another-text", {"spec": {"hard": {"cpu": "1000m"}}}, False),
        row("an-added-name", {"spec": {"hard": {"cpu": "1", "pods": "1"}}}, True),
        row("another-value", {"spec": {"hard": {"cpu": "2"}}}, True),
        row("a-removed-name", {"spec": {"hard": {}}}, True),
    ],
)
def test_only_another_limit_is_written(fields: dict[str, dict[str, object]], queued: bool) -> None:
    """A change of no number sends nothing (RQ-T18, RQ-21, RQ-22)."""
    cluster, key = started(hard={"cpu": "1"})
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
    cluster, key = started(hard={"pods": "9"})
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
    cluster, key = started(hard={"pods": "9"})
    cluster.set_hard(key, pods="10")
    assert not cluster.needs_refresh
    cluster.set_hard(key, pods="10", services="3")
    assert cluster.needs_refresh
    cluster.advance(0.1)
    assert cluster.used(key) == {"pods": "0", "services": "0"}


def test_a_deleted_quota_leaves_nothing_behind() -> None:
    """Whatever was going on (section 20.3)."""
    cluster, key = started(hard={"pods": "9"})
    cluster.advance(1)
    cluster.admit(key, pods=1)
    cluster.advance(1)
    replenishment = cluster.controller._replenishment
    assert list(replenishment.resync()) != []
    states = (
        replenishment.releases,
        replenishment.excess_since,
        replenishment._synced_at,
        replenishment._written,
        replenishment._resyncing,
    )
    assert all(key in state for state in states)
    cluster.delete(RESOURCE_QUOTA, key)
    assert not any(states)


def test_a_full_resync_queues_every_quota_last() -> None:
    """In any state; a right status costs no request and no evaluation (RQ-T20, RQ-B53)."""
    cluster, key = started(hard={"pods": "9", "configmaps": "9"})
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
    assert not any(map(replenishment.is_resyncing, (key, other)))
    assert len(cluster.updates) == before
    assert cluster.controller._replenishment.monitor.usage.evaluations == evaluations


def test_without_a_period_nothing_is_resynced() -> None:
    """Events still work (RQ-T21, RQ-4)."""
    cluster, key = started("pods", resync=0)
    assert len(cluster.controller.kcm_timers()) == 2
    cluster.syncs.clear()
    cluster.advance(1000)
    assert cluster.syncs == []
    assert cluster.controller._audit.rounds == 0
    cluster.put(POD, pod("p"))
    cluster.advance(1)
    assert cluster.used(key) == {"pods": "1"}


def test_a_resource_that_is_not_synced_keeps_its_names() -> None:
    """
    Other names are written; without a change nothing is sent (RQ-T10, T11, T12, RQ-71).

    The quota is synced again when the resource is synced, and not retried before.
    D-15, RQ-T143, RQ-B22.
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
    cluster, key = started(hard={"pods": "9"})
    cluster.enqueue([key])
    cluster.set_hard(key, pods="10")
    assert cluster.run_due() == [key]
