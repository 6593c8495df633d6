"""Events about quotas, status page, metrics, permissions and settings of the controller."""

from collections.abc import Mapping

import pytest
from plugins.resourcequota.quota_cluster import QuotaCluster
from plugins.resourcequota.quota_discovery import CONFIG_MAP, WIDGET, Discovery
from plugins.resourcequota.quota_manifests import named, pod

from kcm_host.api import EVENT, Key, Permission
from kcm_host_resourcequota import ResourceQuota
from kcm_host_resourcequota.evaluators.pods import POD
from kcm_host_resourcequota.models import RESOURCE_QUOTA
from kcm_host_resourcequota.settings import QuotaSettings

PREFIX = "kcm_host_resourcequota_"


def metrics(cluster: QuotaCluster) -> dict[tuple[str, str], float]:
    """Return the value of each series by name and the value of its label, empty without label."""
    found: dict[tuple[str, str], float] = {}
    for metric in cluster.controller.kcm_metrics(cluster.view):
        assert metric.name.startswith(PREFIX)
        assert (metric.type == "counter") is metric.name.endswith("_total")
        for labels, value in metric.series:
            found[metric.name.removeprefix(PREFIX), next(iter(labels.values()), "")] = value
    return found


def test_names_without_evaluator_are_reported_once_an_hour() -> None:
    """By a Warning Event, on the status page and in a metric (RQ-B60; Difference to RQ-7)."""
    cluster = QuotaCluster()
    key = cluster.quota("pods", "limits.example.com/gpu")
    cluster.quota("pods", name="fine")
    cluster.start()
    assert [(each[0], each[1]) for each in cluster.events] == [(key, "NotServed")]
    assert "limits.example.com/gpu" in cluster.events[0][2]
    cluster.advance(3500)
    assert len(cluster.events) == 1
    cluster.advance(400)
    assert len(cluster.events) == 2
    assert cluster.controller.kcm_status(cluster.view)["notServed"] == [
        "a/q: limits.example.com/gpu"
    ]
    assert metrics(cluster)["quotas_not_served", ""] == 1


def test_a_resource_that_cannot_be_listed_is_reported() -> None:
    """With the reason, until it can be listed (RQ-B60, RQ-63)."""
    cluster = QuotaCluster(discovery=Discovery(WIDGET))
    cluster.unlistable[WIDGET] = "403 Forbidden: no rights"
    key = cluster.quota("pods", "count/widgets.example.com")
    cluster.start()
    ((reported, reason, message),) = cluster.events
    assert (reported, reason) == (key, "NotCounted")
    assert "403 Forbidden: no rights" in message
    assert metrics(cluster)["quotas_not_ready", "widgets.example.com"] == 1
    assert cluster.controller.kcm_status(cluster.view)["notReady"] == {
        "widgets.example.com": "403 Forbidden: no rights"
    }
    cluster.make_listable(WIDGET)
    cluster.advance(1)
    assert metrics(cluster)["quotas_not_ready", "widgets.example.com"] == 0
    assert cluster.controller.kcm_status(cluster.view)["notReady"] == {}


def test_a_malformed_selector_is_reported() -> None:
    """The numbers are 0, as in the reference, and an Event has the reason (RQ-73, D-3)."""
    cluster = QuotaCluster()
    cluster.put(POD, pod("p", priorityClassName="high"))
    wanted = {"scopeName": "PriorityClass", "operator": "In", "values": ["a b"]}
    key = cluster.quota("pods", scopeSelector={"matchExpressions": [wanted]})
    cluster.start()
    assert cluster.used(key) == {"pods": "0"}
    ((reported, reason, message),) = cluster.events
    assert (reported, reason) == (key, "InvalidScopeSelector")
    assert "'a b'" in message


def test_an_undecodable_object_is_reported() -> None:
    """By name, to the quotas of its namespace (RQ-75)."""
    cluster = QuotaCluster()
    key = cluster.quota("pods")
    cluster.start()
    cluster.put(POD, pod("bad", requests={"cpu": "nonsense"}))
    cluster.sync(key)
    ((reported, reason, message),) = cluster.events
    assert (reported, reason) == (key, "NotCounted")
    assert "'a/bad'" in message
    assert cluster.controller.kcm_status(cluster.view)["undecodable"] == ["pods in a"]


def test_a_recreated_quota_is_reported_again() -> None:
    """The times of Events are removed with their quota (RQ-B60)."""
    cluster = QuotaCluster()
    key = cluster.quota("nonsense.example.com")
    cluster.start()
    cluster.delete(RESOURCE_QUOTA, key)
    cluster.advance(1)
    cluster.quota("nonsense.example.com")
    cluster.advance(1)
    assert [each[1] for each in cluster.events] == ["NotServed", "NotServed"]


@pytest.mark.parametrize(
    ("cause", "happens"),
    [
        ("new", lambda cluster, key: cluster.quota("pods", name="new")),
        ("hard", lambda cluster, key: cluster.set_hard(key, pods="7")),
        ("decrease", lambda cluster, key: cluster.delete(POD, Key("p", "a"))),
        ("drift", lambda cluster, key: cluster.admit(key, pods=1)),
        ("raise", lambda cluster, key: cluster.put(POD, pod("more"))),
    ],
)
def test_writes_are_counted_by_cause(cause: str, happens) -> None:
    """Every cause has a series from the start, with 0 (RQ-B60)."""
    cluster = QuotaCluster()
    cluster.put(POD, pod("p"))
    key = cluster.quota("pods")
    cluster.start()
    cluster.advance(1)
    before = metrics(cluster)
    happens(cluster, key)
    cluster.advance(20)
    after = metrics(cluster)
    changed = {name: after[name] - before[name] for name in after if name[0] == "writes_total"}
    expected = dict.fromkeys(("new", "hard", "decrease", "drift", "raise", "resync"), 0.0)
    assert {name[1]: value for name, value in changed.items()} == {**expected, cause: 1.0}


def test_the_time_from_deletion_to_write_is_measured() -> None:
    """Decreases and the seconds they took (RQ-B60)."""
    cluster = QuotaCluster()
    cluster.put(POD, pod("p"))
    cluster.quota("pods")
    cluster.start()
    cluster.advance(1)
    cluster.delete(POD, Key("p", "a"))
    cluster.advance(1)
    found = metrics(cluster)
    assert found["decreases_total", ""] == 1
    assert found["decrease_seconds_total", ""] == pytest.approx(0.01)


def test_the_age_of_the_oldest_drift_is_a_metric() -> None:
    """The time since a number is above its total (RQ-B60)."""
    cluster = QuotaCluster()
    key = cluster.quota("pods")
    cluster.start()
    cluster.advance(1)
    cluster.admit(key, pods=1)
    cluster.advance(4)
    assert metrics(cluster)["oldest_drift_seconds", ""] == pytest.approx(4.0)
    cluster.advance(10)
    assert metrics(cluster)["oldest_drift_seconds", ""] == 0
    assert metrics(cluster)["leaks_repaired_total", ""] == 1


def test_the_status_page_lists_what_is_counted() -> None:
    """Quotas, objects by resource, and the audit (D-20)."""
    cluster = QuotaCluster()
    cluster.put(CONFIG_MAP, named("c"))
    cluster.quota("configmaps")
    cluster.start()
    assert cluster.controller.kcm_status(cluster.view) == {
        "quotas": 1,
        "objects": {"pods": 0, "configmaps": 1},
        "notReady": {},
        "notServed": [],
        "undecodable": [],
        "audit": {"rounds": 0, "mismatches": 0},
    }


def test_only_status_and_events_are_written() -> None:
    """No `get`, no `patch` of quotas (RQ-321 to RQ-323)."""
    assert ResourceQuota(QuotaSettings()).kcm_writes() == [
        Permission(kind=RESOURCE_QUOTA, verb="update", subresource="status"),
        Permission(kind=EVENT, verb="create"),
        Permission(kind=EVENT, verb="patch"),
    ]


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        pytest.param({}, (300, 10), id="defaults"),
        pytest.param({"resyncPeriod": "0s", "settleTime": "1m"}, (0, 60), id="set"),
    ],
)
def test_settings(given: Mapping[str, str], seconds: tuple[float, float]) -> None:
    """Durations as Go writes them, camelCase (RQ-4)."""
    settings = QuotaSettings.model_validate(given)
    found = (settings.resync_period.total_seconds(), settings.settle_time.total_seconds())
    assert found == seconds
    assert ResourceQuota.kcm_settings() is QuotaSettings


@pytest.mark.parametrize("given", [{"resyncPeriod": "-1s"}, {"settleTime": "5"}, {"other": "1s"}])
def test_invalid_settings_are_rejected(given: Mapping[str, str]) -> None:
    """Negative, without a unit, unknown."""
    with pytest.raises(ValueError, match=next(iter(given))):
        QuotaSettings.model_validate(given)
