"""Usage tracking: the cost of events, expirations, undecodable objects and the audit."""

from typing import Any

import pytest
from plugins.resourcequota.quota_cluster import START_TIME, QuotaCluster, started
from plugins.resourcequota.quota_manifests import device_claim, pod, timestamp
from plugins.resourcequota.quota_objects import Manifest

from kcm_host.api import Key, QuantityFormat
from kcm_host.api.quantity import NANO
from kcm_host_resourcequota.evaluators.base import Contribution
from kcm_host_resourcequota.evaluators.pods import POD
from kcm_host_resourcequota.evaluators.resourceclaims import RESOURCE_CLAIM
from kcm_host_resourcequota.usage_tracker import Expirations, UsageTracker


def many(count: int) -> tuple[QuotaCluster, Key]:
    """Return a running cluster with a number of equal pods and a quota with a right status."""
    pods = [pod(f"p{number}", requests={"cpu": "100m"}) for number in range(count)]
    cluster, key = started("pods", "cpu", pods=pods)
    # Audits look at objects as well.
    del cluster.timers[0]
    return cluster, key


def usage_tracker(cluster: QuotaCluster) -> UsageTracker:
    """Return the usage tracker of the controller."""
    return cluster.controller._replenishment.monitor.usage


@pytest.mark.parametrize("count", [100, 1000, 10000])
def test_a_deleted_pod_costs_the_same_among_many(count: int) -> None:
    """At most one evaluation, and one write for each quota (RQ-T130, RQ-B5, RQ-B44)."""
    cluster, key = many(count)
    before, updates = usage_tracker(cluster).evaluations, len(cluster.updates)
    cluster.delete(POD, Key("p0", "a"))
    cluster.advance(1)
    assert usage_tracker(cluster).evaluations - before <= 1
    assert len(cluster.updates) - updates == 1
    assert cluster.used(key)["pods"] == str(count - 1)


def test_a_recreated_object_replaces_the_old_one() -> None:
    """Deletion and creation arrive as one update (RQ-T132, RQ-B6)."""
    cluster, key = many(1)
    del cluster.objects[POD][Key("p0", "a")]
    cluster.hold(POD)
    cluster.put(POD, pod("p0", requests={"cpu": "3"}, uid="another"))
    cluster.watch_streams[POD].waiting[-1] = ("MODIFIED", cluster.watch_streams[POD].waiting[-1][1])
    cluster.release(POD)
    cluster.advance(1)
    assert cluster.used(key) == {"pods": "1", "cpu": "3"}


def being_deleted(seconds: int, **fields: Any) -> Manifest:
    """Return pod p with a deletion time so long after the start, and a grace period of 30 s."""
    instant = timestamp(START_TIME + seconds)
    metadata = {"deletionTimestamp": instant, "deletionGracePeriodSeconds": 30}
    return pod("p", metadata=metadata, **fields)


def test_a_deleted_pod_is_charged_until_it_expires() -> None:
    """
    Forty seconds to the end, then not; noticed without any event.

    RQ-T135, RQ-T136, RQ-108 to RQ-110, RQ-B21: a clock set back charges it again.
    """
    cluster, key = started("pods", "count/pods", pods=[being_deleted(10)])
    cluster.advance(39.9)
    assert cluster.used(key) == {"pods": "1", "count/pods": "1"}
    cluster.advance(1.9)
    assert cluster.used(key) == {"pods": "0", "count/pods": "1"}
    cluster.wall -= 20
    cluster.advance(1.2)
    assert cluster.used(key) == {"pods": "1", "count/pods": "1"}


def test_expirations_between_two_checks_are_found_once() -> None:
    """In either direction of the clock, and only strictly after the instant (RQ-108, RQ-B21)."""
    expirations = Expirations(now=0.0)
    p, q, r = (("pods", Key(name, "a")) for name in "pqr")
    assert expirations.crossed(now=5.0) == ()
    for each, instant in ((p, 10.0), (q, 20.0), (r, 3.0)):
        expirations.set(*each, instant)
    checks = (10.0, 10.5, 15.0, 30.0, 12.0, 12.0, 40.0)
    found = [list(expirations.crossed(now=now)) for now in checks]
    assert found == [[], [p], [], [q], [q], [], [q]]
    expirations.set(*q, None)
    expirations.set(*p, 50.0)
    assert list(expirations.crossed(now=60.0)) == [p]
    assert len(expirations) == 2


def test_claims_of_expired_pods_are_charged_again() -> None:
    """The quota is written with the claims of all pods that expire at one time (RQ-191, RQ-B21)."""
    cluster = QuotaCluster()
    cluster.declare("example.com/gpu")
    for namespace in "ab":
        gone = being_deleted(10, namespace=namespace, requests={"example.com/gpu": "1"})
        gone["metadata"]["uid"] = "pod-uid"
        cluster.put(POD, gone)
        cluster.put(RESOURCE_CLAIM, device_claim("c", namespace, pod_uid="pod-uid"))
    keys = [cluster.quota("requests.example.com/gpu", "pods", namespace=each) for each in "ab"]
    cluster.start()
    # Of two devices the pod is charged for one, and the claim for what is left.
    both = {"requests.example.com/gpu": "2"}
    assert [cluster.used(key) for key in keys] == [{**both, "pods": "1"}] * 2
    cluster.advance(42)
    assert [cluster.used(key) for key in keys] == [{**both, "pods": "0"}] * 2


def test_expirations_of_deleted_pods_are_removed() -> None:
    """The usage tracker has expirations of existing pods only (RQ-B21)."""
    cluster = QuotaCluster()
    cluster.put(POD, being_deleted(10))
    cluster.quota("pods")
    cluster.start()
    assert len(usage_tracker(cluster).expirations) == 1
    cluster.delete(POD, Key("p", "a"))
    assert len(usage_tracker(cluster).expirations) == 0


def test_a_claim_before_its_pod_is_charged_once() -> None:
    """First the claim is charged, then the pod, never both (RQ-T137, RQ-T90, RQ-B20)."""
    cluster = QuotaCluster()
    cluster.declare("example.com/gpu")
    key = cluster.quota("requests.example.com/gpu")
    cluster.start()
    cluster.put(RESOURCE_CLAIM, device_claim(pod_uid="pod-uid"))
    cluster.advance(5)
    assert cluster.used(key) == {"requests.example.com/gpu": "2"}
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "c"}}
    cluster.syncs.clear()
    cluster.put(POD, pod("p", requests={"example.com/gpu": "2"}, uid="pod-uid", status=status))
    cluster.advance(1)
    assert cluster.used(key) == {"requests.example.com/gpu": "2"}
    assert cluster.syncs == [], "nothing was released"
    cluster.delete(POD, Key("p", "a"))
    cluster.advance(15)
    assert cluster.used(key) == {"requests.example.com/gpu": "2"}, "the claim still exists"
    cluster.delete(RESOURCE_CLAIM, Key("c", "a"))
    cluster.advance(1)
    assert cluster.used(key) == {"requests.example.com/gpu": "0"}


@pytest.mark.parametrize("what", ["record", "totals", "missing", "stray"])
def test_the_audit_repairs_what_is_wrong(what: str, caplog: pytest.LogCaptureFixture) -> None:
    """Within one period; counted, logged, and the quota written again (RQ-T142, RQ-B40, RQ-B41)."""
    cluster, key = started(
        "cpu", pods=[pod(f"p{number}", requests={"cpu": "1"}) for number in range(5)], resync=60
    )
    usage_index = usage_tracker(cluster).index
    namespace_usage = usage_index.namespace_usage("pods", "a")
    assert namespace_usage is not None
    right = namespace_usage.records["p0"]
    wrong = Contribution((("cpu", 9 * NANO, QuantityFormat.DECIMAL_SI),))
    if what == "record":
        namespace_usage.records["p0"] = wrong
    elif what == "stray":
        usage_index.apply("pods", Key("never", "a"), wrong)
        cluster.set_used(key, cpu="14")
    elif what == "missing":
        usage_index.apply("pods", Key("p0", "a"), None)
        cluster.set_used(key, cpu="4")
    else:
        next(iter(namespace_usage.groups.values())).totals["cpu"].nano += 3 * NANO
        cluster.set_used(key, cpu="8")
    cluster.advance(80)
    assert cluster.controller._audit.mismatches == 1
    assert cluster.used(key) == {"cpu": "5"}
    assert namespace_usage.groups == namespace_usage.recompute()
    where, *values = {
        "record": ("a/p0", wrong, right),
        "missing": ("a/p0", None, right),
        "stray": ("a/never", wrong, None),
        "totals": ("a/", "totals", "sum of the records"),
    }[what]
    recorded, recounted = map(str, values)
    ((level, text, pairs),) = ((e.levelname, e.msg, e.__dict__["kv"]) for e in caplog.records)
    assert (level, text) == ("ERROR", "usage index repaired after a mismatch")
    assert pairs == {
        "resource": "pods",
        "key": where,
        "recorded": recorded,
        "recounted": recounted,
    }


def test_the_audit_finds_nothing_in_normal_operation() -> None:
    """It checks everything once in a period, a few objects at a time (RQ-B40)."""
    cluster = QuotaCluster(resync=100)
    for number in range(1000):
        cluster.put(POD, pod(f"p{number}"))
    cluster.quota("pods")
    cluster.start()
    before = usage_tracker(cluster).evaluations
    cluster.advance(1)
    assert usage_tracker(cluster).evaluations - before <= 11
    cluster.advance(110)
    audit = cluster.controller._audit
    assert (audit.mismatches, audit.rounds) == (0, 1)


def test_only_what_differs_is_compared_beyond_the_records() -> None:
    """Objects without a record and records without an object; the others are steps (RQ-B40)."""
    cluster, _ = many(3)
    tracker = usage_tracker(cluster)
    pods = cluster.controller._replenishment.monitor.pods
    stray, missing = Key("never", "a"), Key("p1", "a")
    tracker.index.apply("pods", stray, Contribution())
    tracker.index.apply("pods", missing, None)
    found = list(tracker.unmatched_keys(pods, cluster.view))
    # Three records, of which one has no object; three objects, of which one has no record.
    assert found == [None, None, stray, None, missing, None]


def test_a_namespace_without_quotas_is_not_audited() -> None:
    """Its totals are never read (RQ-B40)."""
    cluster = QuotaCluster(resync=10)
    for number in range(100):
        cluster.put(POD, pod(f"p{number}", namespace="free"))
    cluster.quota("pods")
    cluster.start()
    before = usage_tracker(cluster).evaluations
    cluster.advance(30)
    assert usage_tracker(cluster).evaluations == before


def test_an_undecodable_object_blocks_only_its_namespace() -> None:
    """Its names keep their numbers there until it is decodable or deleted (RQ-75, RQ-B28, D-15)."""
    cluster = QuotaCluster()
    for namespace in ("a", "b"):
        cluster.put(POD, pod("p", namespace=namespace, requests={"cpu": "1"}))
    keys = [cluster.quota("cpu", "configmaps", namespace=each) for each in ("a", "b")]
    cluster.start()
    good = cluster.get(POD, Key("p", "a"))
    cluster.put(POD, pod("p", requests={"cpu": "nonsense"}))
    for namespace in ("a", "b"):
        cluster.put(POD, pod("more", namespace=namespace, requests={"cpu": "2"}))
    cluster.advance(2)
    assert [cluster.used(key)["cpu"] for key in keys] == ["1", "3"]
    assert cluster.failures == {}
    cluster.put(POD, good)
    cluster.advance(2)
    assert [cluster.used(key)["cpu"] for key in keys] == ["3", "3"]


@pytest.mark.parametrize("how", ["repaired", "deleted"])
def test_a_briefly_undecodable_object_does_not_block_a_quota(how: str) -> None:
    """The quota is enqueued even if no periodic check reads the object (F-52, RQ-B28)."""
    cluster = QuotaCluster()
    cluster.start()
    cluster.advance(0.3)
    cluster.put(POD, {**pod("p"), "spec": {"containers": 7}})
    cluster.put(POD, {**pod("stays", namespace="b"), "spec": {"containers": 7}})
    key = cluster.quota("pods", "configmaps")
    second = cluster.quota("pods", "configmaps", name="second")
    other = cluster.quota("pods", "configmaps", namespace="b")
    cluster.advance(0.3)
    for each in (key, second, other):
        assert cluster.used(each) == {"configmaps": "0"}
    if how == "deleted":
        cluster.delete(POD, Key("p", "a"))
    else:
        cluster.put(POD, pod("p", phase="Failed"))
    cluster.advance(1.1)
    assert cluster.used(key) == cluster.used(second) == {"pods": "0", "configmaps": "0"}
    assert cluster.used(other) == {"configmaps": "0"}
