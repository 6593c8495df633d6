"""Events about quotas, status page, metrics, permissions and settings of the controller."""

from collections.abc import Mapping

import pytest
from plugins.resourcequota.quota_cluster import QuotaCluster, started
from plugins.resourcequota.quota_discovery import SECRET, WIDGET, Discovery
from plugins.resourcequota.quota_manifests import pod
from plugins.tables import row

from kcm_host.api import EVENT, Conflict, Key, Permission
from kcm_host_resourcequota import ResourceQuota
from kcm_host_resourcequota.evaluators.base import Contribution
from kcm_host_resourcequota.evaluators.pods import POD
from kcm_host_resourcequota.models import RESOURCE_QUOTA
from kcm_host_resourcequota.settings import QuotaSettings

PREFIX = "kcm_host_resourcequota_"
NOT_SERVED = "nothing counts under {}; check the spelling, and that the resource is installed"
NOT_COUNTED = "names of resources that cannot be counted keep their usage: "


def test_names_without_evaluator_are_reported_once_an_hour() -> None:
    """By a Warning Event, beside status page and metric (RQ-B60; Difference to RQ-7)."""
    cluster = QuotaCluster()
    key = cluster.quota("pods", "limits.example.com/gpu", "nobody")
    cluster.quota("pods", name="fine")
    cluster.start()
    event = (key, "NotServed", NOT_SERVED.format("limits.example.com/gpu, nobody"))
    assert cluster.events == [event]
    # The full resync syncs each quota every five minutes.
    cluster.advance(3500)
    assert cluster.events == [event]
    cluster.advance(400)
    assert cluster.events == [event, event]


def test_a_resource_that_cannot_be_listed_is_reported() -> None:
    """With the reason, until it can be listed (RQ-B60, RQ-63)."""
    cluster = QuotaCluster(discovery=Discovery(WIDGET))
    cluster.unlistable |= {WIDGET: "403 Forbidden: no rights", SECRET: "500"}
    key = cluster.quota("pods", "count/widgets.example.com", "secrets")
    cluster.start()
    text = NOT_COUNTED + "403 Forbidden: no rights; 500"
    assert cluster.events == [(key, "NotCounted", text)]
    assert cluster.controller.kcm_status(cluster.view)["notReady"] == {
        "widgets.example.com": "403 Forbidden: no rights",
        "secrets": "500",
    }
    cluster.make_listable(WIDGET)
    cluster.make_listable(SECRET)
    cluster.advance(1)
    assert exposed(cluster)[-2:] == ["  resource=secrets 0", "  resource=widgets.example.com 0"]
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
    assert message.startswith("the quota counts nothing: the scope selector's requirement on ")


def test_an_undecodable_object_is_reported() -> None:
    """By name, to the quotas of its namespace (RQ-75)."""
    cluster, key = started("pods")
    cluster.put(POD, pod("bad", requests={"cpu": "nonsense"}))
    cluster.sync(key)
    text = "pods 'a/bad' cannot be read; the host's log names the field"
    assert cluster.events == [(key, "NotCounted", NOT_COUNTED + text)]
    assert cluster.controller.kcm_status(cluster.view)["undecodable"] == ["pods in a"]


def test_a_recreated_quota_is_reported_again() -> None:
    """The times of Events are removed with their quota (RQ-B60)."""
    cluster, key = started("nonsense.example.com")
    cluster.delete(RESOURCE_QUOTA, key)
    cluster.advance(1)
    cluster.quota("nonsense.example.com")
    cluster.advance(1)
    assert [each[1] for each in cluster.events] == ["NotServed", "NotServed"]


EXPOSITION = """
counter writes_total: Status writes by cause.
  cause=decrease 2
  cause=drift 3
  cause=hard 1
  cause=new 2
  cause=raise 2
  cause=resync 0
counter conflicts_total: Status writes that ended with a conflict.
  2
counter decreases_total: Status writes that followed deletions.
  2
counter decrease_seconds_total: Sum of the times from the first deletion to the written status.
  0.035
counter leaks_repaired_total: Status writes that removed stale usage.
  3
counter audit_mismatches_total: Records repaired by the audit.
  2
counter evaluations_total: Evaluations of an object.
  10
gauge oldest_drift_seconds: Age of the oldest usage without objects.
  4
gauge quotas_not_served: Quotas with a name that nothing counts under.
  1
gauge quotas_not_ready: Quotas that wait for a resource.
  resource=pods 0
  resource=widgets.example.com 1
"""


def eventful() -> QuotaCluster:
    """Return a cluster in which everything has happened that metrics count."""
    cluster = QuotaCluster(discovery=Discovery(WIDGET))
    cluster.unlistable[WIDGET] = "403"
    for name in "pqrs":
        cluster.put(POD, pod(name))
    key = cluster.quota("pods")
    waiting = ("pods", "count/widgets.example.com", "no.example.com/a", "no.example.com/b")
    cluster.quota(*waiting, name="waiting", namespace="b")
    cluster.start()
    cluster.advance(1)
    # The first deletion is written after two conflicts and their back-off, the second one at once.
    cluster.errors += [Conflict("late", status=409)] * 2
    for name in "pq":
        cluster.delete(POD, Key(name, "a"))
        cluster.advance(1)
    cluster.set_hard(key, pods="7")
    cluster.advance(1)
    cluster.put(POD, pod("more"))
    cluster.advance(1)
    for _ in range(2):
        cluster.admit(key, pods=1)
        cluster.advance(12)
    records = usage_of(cluster, "pods")
    for name in "rs":
        records[name] = Contribution()
    cluster.advance(301)
    cluster.admit(key, pods=1)
    cluster.advance(4)
    return cluster


def usage_of(cluster: QuotaCluster, resource: str) -> dict[str, Contribution]:
    """Return the records of a resource in namespace a."""
    usage = cluster.controller._replenishment.monitor.usage.index.namespace_usage(resource, "a")
    assert usage is not None
    return usage.records


def exposed(cluster: QuotaCluster) -> list[str]:
    """Return a line for each metric and each of its series, without the prefix of all metrics."""
    lines = []
    for metric in cluster.controller.kcm_metrics(cluster.view):
        assert metric.name.startswith(PREFIX)
        lines.append(f"{metric.type} {metric.name.removeprefix(PREFIX)}: {metric.help}")
        for labels, value in metric.series:
            words = (f"{label}={text} " for label, text in labels.items())
            lines.append(f"  {''.join(words)}{value:g}")
    return lines


def test_what_has_happened_is_shown() -> None:
    """
    By the metrics, with a series for every cause and every watched resource, and the status page.

    RQ-B60, RQ-B32, RQ-B41, D-20, F-40.
    """
    cluster = eventful()
    assert exposed(cluster) == EXPOSITION.strip().splitlines()
    assert cluster.controller.kcm_status(cluster.view) == {
        "quotas": 2,
        "objects": {"pods": 3},
        "notReady": {"widgets.example.com": "403"},
        "notServed": ["b/waiting: no.example.com/a, no.example.com/b"],
        "undecodable": [],
        "audit": {"rounds": 1, "mismatches": 2},
    }


def test_lists_on_the_status_page_have_ten_entries() -> None:
    """However many quotas and namespaces there are (RQ-B60, D-20)."""
    cluster = QuotaCluster()
    for number in range(12):
        namespace = f"n{number:02}"
        cluster.quota("no.example.com/a", "pods", namespace=namespace)
        cluster.put(POD, pod("bad", namespace=namespace, requests={"cpu": "nonsense"}))
    cluster.start()
    page = cluster.controller.kcm_status(cluster.view)
    assert page["notServed"] == [f"n{number:02}/q: no.example.com/a" for number in range(10)]
    assert page["undecodable"] == [f"pods in n{number:02}" for number in range(10)]


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
        row("defaults", {}, (300, 10)),
        row("set", {"resyncPeriod": "0s", "settleTime": "1m"}, (0, 60)),
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
