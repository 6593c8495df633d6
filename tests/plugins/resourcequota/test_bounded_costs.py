"""Caches are bounded; status, metrics and the audit use running counts."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from plugins.resourcequota.quota_cluster import QuotaCluster
from plugins.resourcequota.quota_discovery import CONFIG_MAP
from plugins.resourcequota.quota_manifests import named, pod

from kcm_host.api import Key
from kcm_host_resourcequota import quota_monitor
from kcm_host_resourcequota.evaluators.base import Contribution
from kcm_host_resourcequota.evaluators.persistentvolumeclaims import PersistentVolumeClaimEvaluator
from kcm_host_resourcequota.evaluators.pods import POD
from kcm_host_resourcequota.models import (
    MAX_CACHED_MATCHES,
    RESOURCE_QUOTA,
    ParsedSpec,
    QuotaIndex,
    QuotaObject,
    Spec,
)
from kcm_host_resourcequota.scopes import Requirement, ScopeAttributes
from kcm_host_resourcequota.usage_index import UsageIndex


class NotIterable(dict[Any, Any]):
    """A dict that cannot be iterated."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("this dict is iterated")

    items = keys = values = __iter__  # type: ignore[assignment]


def forbid_iteration(usage_index: UsageIndex) -> None:
    """Forbid iteration over the namespaces of a usage index."""
    usage: Mapping[str, Any] = usage_index._usage
    usage_index._usage = {resource: NotIterable(each) for resource, each in usage.items()}


@pytest.fixture
def cluster() -> QuotaCluster:
    """Return a cluster with some objects in three namespaces, each with a quota."""
    cluster = QuotaCluster()
    for namespace in "abc":
        cluster.put(POD, pod("p", namespace=namespace))
        cluster.put(CONFIG_MAP, named("m", namespace))
        cluster.quota("pods", "configmaps", "nobody/counts", namespace=namespace)
    cluster.start()
    cluster.advance(5)
    return cluster


def test_status_and_metrics_iterate_over_nothing(cluster: QuotaCluster) -> None:
    """They are running counts, so the number of namespaces and quotas does not matter (F-40)."""
    controller = cluster.controller
    replenishment = controller._replenishment
    forbid_iteration(replenishment.monitor.usage.index)
    replenishment.releases = NotIterable(replenishment.releases)
    quotas = replenishment.quotas
    quotas._by_namespace = NotIterable(quotas._by_namespace)
    status = controller.kcm_status(cluster.view)
    assert (status["quotas"], status["objects"]) == (3, {"pods": 3, "configmaps": 3})
    assert len(status["notServed"]) == 3
    metrics = {each.name: each.series for each in controller.kcm_metrics(cluster.view)}
    assert metrics["kcm_host_resourcequota_quotas_not_served"] == (({}, 3),)


def test_the_reported_drift_is_the_oldest(cluster: QuotaCluster) -> None:
    """It is 0 once the last quota with drift is right or deleted (F-40)."""
    keys = [Key("q", namespace) for namespace in "abc"]
    ages = []
    for key in keys:
        cluster.admit(key, pods=1)
        cluster.advance(3)
    for key in keys[:2]:
        ages.append(_oldest_drift(cluster))
        cluster.delete(RESOURCE_QUOTA, key)
        cluster.run_due()
    assert ages == [pytest.approx(9), pytest.approx(6)]
    assert _oldest_drift(cluster) == pytest.approx(3)
    cluster.advance(8)
    assert _oldest_drift(cluster) == 0


def test_an_audit_starts_without_an_iteration(cluster: QuotaCluster) -> None:
    """The number of steps is known; the first slice is no longer than the others (F-41)."""
    audit = cluster.controller._audit
    usage_index = cluster.controller._replenishment.monitor.usage.index
    forbid_iteration(usage_index)
    # Three pods and as many config maps, in three namespaces each.
    assert audit._count_steps(cluster.view) == 13


@pytest.mark.parametrize("unmatched", [False, True])
def test_the_steps_of_an_audit_are_as_many_as_were_counted(
    cluster: QuotaCluster, unmatched: bool
) -> None:
    """In namespaces with quotas and without, and when objects and records differ (F-41)."""
    for number in range(4):
        cluster.put(POD, pod(f"p{number}", namespace=f"free{number // 2}"))
    if unmatched:
        usage = cluster.controller._replenishment.monitor.usage
        usage.index.apply("pods", Key("p", "a"), None)
    audit = cluster.controller._audit
    counted = audit._count_steps(cluster.view)
    steps = sum(count for _, count in audit._steps(cluster.view))
    # The last step finds that the round is over.
    assert steps + 1 == counted


def test_a_namespace_that_goes_during_a_round_is_left_out(cluster: QuotaCluster) -> None:
    """The others are audited nevertheless (RQ-B40, F-41)."""
    audit = cluster.controller._audit
    usage = cluster.controller._replenishment.monitor.usage.index
    steps = audit._steps(cluster.view)
    assert next(steps) == (None, 1)
    cluster.delete(POD, Key("p", "b"))
    wrong = usage.namespace_usage("pods", "c")
    assert wrong is not None
    wrong.records["p"] = Contribution()
    assert [repair for repair, _ in steps if repair is not None] == [("pods", "c")]


def test_a_slice_is_no_longer_than_its_share(cluster: QuotaCluster) -> None:
    """The steps of a round are the same in all slices (RQ-B40, F-41)."""
    audit = cluster.controller._audit
    audit._round = None
    share = 1 / audit._count_steps(cluster.view)
    slices = 0
    rounds = audit.rounds
    while audit.rounds == rounds:
        audit.run_slice(cluster.view, share=share)
        slices += 1
    assert slices == audit._count_steps(cluster.view)


def test_namespaces_without_quotas_count_as_audit_steps(cluster: QuotaCluster) -> None:
    """So a round takes its period, and no slice does more than another (F-41)."""
    for number in range(200):
        cluster.put(POD, pod(f"p{number}", namespace="free"))
    audit = cluster.controller._audit
    rounds = audit.rounds
    cluster.advance(600)
    assert audit.rounds - rounds == 2


@pytest.mark.parametrize("elsewhere", [0, 500])
def test_undecodable_objects_of_other_namespaces_cost_nothing(
    cluster: QuotaCluster, elsewhere: int
) -> None:
    """A sync reads those of its own namespace, always the same set (F-43)."""
    for number in range(elsewhere):
        cluster.put(POD, {**pod(f"p{number}", namespace="far"), "spec": {"containers": 7}})
    cluster.put(POD, {**pod("bad", namespace="b"), "spec": {"containers": 7}})
    monitor = cluster.controller._replenishment.monitor
    pods = cluster.view.of(POD, monitor.pods.model)
    assert pods.undecodable("a") == frozenset()
    assert pods.undecodable("b") == {Key("bad", "b")}
    assert pods.undecodable("b") is pods.undecodable("b")
    assert len(pods.undecodable()) == elsewhere + 1
    assert monitor.problem(monitor.pods, "a", cluster.view) == ""
    assert "'b/bad'" in monitor.problem(monitor.pods, "b", cluster.view)


def test_cached_matches_are_bounded() -> None:
    """A tenant may use an unlimited number of attributes classes (F-46)."""
    spec = ParsedSpec(Spec(hard={"persistentvolumeclaims": "1"}, scopes=("VolumeAttributesClass",)))
    selects = spec.selects(PersistentVolumeClaimEvaluator())
    for number in range(3 * MAX_CACHED_MATCHES):
        attributes = ScopeAttributes(
            named_scope="VolumeAttributesClass", names=frozenset({f"c{number}"})
        )
        assert selects(attributes)
        assert len(spec._matches_cache) <= MAX_CACHED_MATCHES


def test_matches_are_cached() -> None:
    """Objects with equal attributes are compared with the selector once (F-46)."""
    compared: list[ScopeAttributes] = []

    class Counting(PersistentVolumeClaimEvaluator):
        def matches(self, attributes: ScopeAttributes, requirement: Requirement) -> bool:
            compared.append(attributes)
            return super().matches(attributes, requirement)

    spec = ParsedSpec(Spec(scopes=("VolumeAttributesClass",)))
    gold = ScopeAttributes(named_scope="VolumeAttributesClass", names=frozenset({"gold"}))
    for attributes, expected in ((gold, True), (ScopeAttributes(), False)) * 3:
        assert spec.selects(Counting())(attributes) is expected
    assert compared == [gold, ScopeAttributes()]


def test_quotas_of_a_namespace_leave_nothing_behind() -> None:
    """Also when a quota goes that was never decodable, so that it is not known (RQ-23)."""
    quotas = QuotaIndex()
    first, second = Key("q", "a"), Key("r", "a")
    quotas.remove(first)
    for key in (first, second):
        quotas.put(key, QuotaObject(spec=Spec(hard={"pods": "1"})))
    quotas.remove(Key("never", "a"))
    quotas.remove(first)
    assert list(quotas.namespaces()) == ["a"]
    assert {names: list(keys) for names, keys in quotas.by_names().items()} == {
        frozenset({"pods"}): [second]
    }
    quotas.remove(second)
    assert (len(quotas), list(quotas.namespaces()), quotas.by_names()) == (0, [], {})


def test_cached_plans_are_bounded(cluster: QuotaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant may limit an unlimited number of names (F-46)."""
    monkeypatch.setattr(quota_monitor, "MAX_CACHED_PLANS", 20)
    monitor = cluster.controller._replenishment.monitor
    key = Key("q", "a")
    for number in range(50):
        cluster.set_hard(key, **{f"count/c{number}.example.com": "1"})
        assert len(monitor._plans) <= 20


def _oldest_drift(cluster: QuotaCluster) -> float:
    metrics = {each.name: each.series for each in cluster.controller.kcm_metrics(cluster.view)}
    ((_, value),) = metrics["kcm_host_resourcequota_oldest_drift_seconds"]
    return value
