"""Resources that appear, disappear, change their version, or cannot be listed or counted."""

from typing import Any

import pytest
from plugins.resourcequota.quota_cluster import QuotaCluster, started, watched
from plugins.resourcequota.quota_discovery import ALL_VERBS, CONFIG_MAP, WIDGET, Discovery
from plugins.resourcequota.quota_manifests import named, pod

from kcm_host.api import Change, Key, Kind, Resource
from kcm_host_resourcequota.evaluators.extended_resources import DEVICE_CLASS
from kcm_host_resourcequota.evaluators.pods import POD, PodEvaluator
from kcm_host_resourcequota.evaluators.registry import (
    REQUIRED_VERBS,
    CountedObject,
    EvaluatorRegistry,
    countable,
)
from kcm_host_resourcequota.evaluators.resourceclaims import RESOURCE_CLAIM
from kcm_host_resourcequota.evaluators.services import SERVICE
from kcm_host_resourcequota.models import RESOURCE_QUOTA

NODE = Kind(group="", version="v1", name="Node", resource="nodes", namespaced=False)
EVENT = Kind(group="", version="v1", name="Event", resource="events")
NEW_EVENT = Kind(group="events.k8s.io", version="v1", name="Event", resource="events")
POD_METRICS = Kind(group="metrics.k8s.io", version="v1", name="PodMetrics", resource="pods")
WIDGET_V2 = Kind(group="example.com", version="v2", name="Widget", resource="widgets")


@pytest.mark.parametrize("present_at_start", [False, True], ids=["T117", "T118"])
def test_a_resource_that_cannot_be_listed_affects_only_its_names(present_at_start: bool) -> None:
    """
    Other quotas and other names are right at once, its own names once it can be listed.

    RQ-T117, RQ-T118, RQ-T121, RQ-T122, RQ-13, RQ-14, RQ-32, RQ-219, RQ-225, RQ-236, RQ-237,
    RQ-239, D-1.
    """
    cluster = QuotaCluster(discovery=Discovery(*([WIDGET] if present_at_start else [])))
    cluster.unlistable[WIDGET] = "500: conversion webhook failed"
    cluster.put(POD, pod("p"))
    fine = cluster.quota("pods", name="fine")
    broken = cluster.quota("pods", "count/widgets.example.com", name="broken")
    cluster.start()
    if not present_at_start:
        cluster.discovery.kinds.append(WIDGET)
        cluster.refresh_watches()
        cluster.advance(1)
    assert cluster.used(fine) == {"pods": "1"}
    assert cluster.used(broken) == {"pods": "1"}
    cluster.make_listable(WIDGET)
    cluster.put(WIDGET, named("w"))
    cluster.advance(1)
    assert cluster.used(broken) == {"pods": "1", "count/widgets.example.com": "1"}


def test_a_partial_discovery_is_enough() -> None:
    """
    Discovered resources are counted; the others once their group responds.

    RQ-T120, RQ-12, RQ-211: without any answer the host does not start the controller.
    """
    cluster = QuotaCluster()
    everything, cluster.discovery.kinds = cluster.discovery.kinds, [POD, RESOURCE_QUOTA]
    cluster.put(CONFIG_MAP, named("c"))
    key = cluster.quota("pods", "configmaps")
    cluster.start()
    assert cluster.used(key) == {"pods": "0"}
    cluster.discovery.kinds = everything
    cluster.refresh_watches()
    cluster.advance(0.2)
    assert cluster.used(key) == {"pods": "0", "configmaps": "1"}


def test_names_of_a_vanished_resource_keep_their_usage() -> None:
    """Watch and records are removed; the entry stays (RQ-T119, RQ-44, RQ-203, RQ-220, D-11)."""
    cluster = QuotaCluster(discovery=Discovery(WIDGET))
    for number in range(4):
        cluster.put(WIDGET, named(f"w{number}"))
    key = cluster.quota("count/widgets.example.com")
    cluster.start()
    cluster.discovery.kinds.remove(WIDGET)
    cluster.refresh_watches()
    cluster.advance(400)
    assert cluster.used(key) == {"count/widgets.example.com": "4"}
    assert watched(cluster) == {POD}


def test_a_resource_in_another_version_is_watched_there() -> None:
    """With a new list, and right afterwards (Q-23, D-11)."""
    cluster = QuotaCluster(discovery=Discovery(WIDGET))
    cluster.put(WIDGET, named("w"))
    key = cluster.quota("count/widgets.example.com")
    cluster.start()
    (old,) = [each for (kind, _), each in cluster.handlers.items() if kind == WIDGET]
    cluster.discovery.kinds.remove(WIDGET)
    cluster.discovery.kinds.append(WIDGET_V2)
    cluster.refresh_watches()
    late: Change[Any] = Change(kind=WIDGET, key=Key("late", "a"), old=None, new=CountedObject())
    assert list(old.watch.keys(late, cluster.view)) == [], "an event on its way changes nothing"
    for number in range(2):
        cluster.put(WIDGET_V2, named(f"w{number}"))
    cluster.advance(1)
    assert watched(cluster) == {POD, WIDGET_V2}
    assert cluster.used(key) == {"count/widgets.example.com": "2"}


@pytest.mark.parametrize("change", ["version", "removal"])
def test_an_idle_watch_ends_when_its_kind_is_no_longer_current(change: str) -> None:
    """A quota that comes back needs another watch anyway (D-11, D-12)."""
    cluster, key = started("count/widgets.example.com", "services", discovery=Discovery(WIDGET))
    cluster.delete(RESOURCE_QUOTA, key)
    cluster.advance(61)
    assert watched(cluster) == {POD, WIDGET, SERVICE}
    cluster.discovery.kinds.remove(WIDGET if change == "version" else SERVICE)
    if change == "version":
        older = Resource(kind=WIDGET, verbs=ALL_VERBS, preferred=False)
        cluster.discovery.kinds.append(WIDGET_V2)
        cluster.discovery.extra.append(older)
    cluster.refresh_watches()
    assert watched(cluster) == {POD, SERVICE if change == "version" else WIDGET}


def test_what_can_be_counted_follows_from_discovery() -> None:
    """
    Namespaced, all four verbs, the preferred version, not ignored.

    RQ-T103, RQ-T104, RQ-205, RQ-210, RQ-213.
    """
    read_only = frozenset({"get", "list"})
    resources = [
        Resource(kind=WIDGET, verbs=ALL_VERBS, preferred=False),
        Resource(kind=WIDGET_V2, verbs=REQUIRED_VERBS, preferred=True),
        Resource(kind=POD_METRICS, verbs=read_only, preferred=True),
        Resource(kind=NODE, verbs=ALL_VERBS, preferred=True),
        Resource(kind=EVENT, verbs=ALL_VERBS, preferred=True),
        Resource(kind=NEW_EVENT, verbs=ALL_VERBS, preferred=True),
    ]
    assert countable(resources) == {"widgets.example.com": WIDGET_V2}


def test_a_refresh_replaces_what_has_changed() -> None:
    """
    Special evaluators keep their resources; the version grows with every change (D-11).

    What stays the same, as after a failed discovery, changes nothing (RQ-T115, RQ-T116).
    """
    special = PodEvaluator()
    registry = EvaluatorRegistry([special])

    def refresh(*kinds: Kind) -> int:
        resources = [Resource(kind=kind, verbs=ALL_VERBS, preferred=True) for kind in kinds]
        registry.refresh(resources)
        return registry.version

    first = refresh(POD, WIDGET)
    counter = registry.get("widgets.example.com")
    assert counter is not None
    assert registry.evaluators_for("count/pods") == (special,)
    assert refresh(POD, WIDGET) == first
    assert refresh(POD, WIDGET, CONFIG_MAP) > first
    assert registry.get("widgets.example.com") is counter
    second = refresh(POD, WIDGET_V2, CONFIG_MAP)
    assert registry.evaluators_for("count/widgets.example.com") != (counter,)
    assert refresh(POD, CONFIG_MAP) > second
    assert registry.evaluators_for("count/widgets.example.com") == ()


def test_extended_names_wait_for_the_device_classes() -> None:
    """Their evaluators depend on the device classes (RQ-16, Q-9, D-9)."""
    cluster = QuotaCluster()
    cluster.unlistable[DEVICE_CLASS] = "503"
    key = cluster.quota("requests.example.com/gpu", "pods")
    claims = cluster.quota("count/resourceclaims.resource.k8s.io", name="claims")
    cluster.start()
    assert cluster.used(key) == {"pods": "0"}
    assert cluster.used(claims) == {}
    cluster.make_listable(DEVICE_CLASS)
    cluster.advance(0.2)
    assert cluster.used(key) == {"pods": "0", "requests.example.com/gpu": "0"}
    assert cluster.used(claims) == {"count/resourceclaims.resource.k8s.io": "0"}


def test_a_server_without_device_classes_serves_extended_names() -> None:
    """Then only pods are counted under them; names of claims are not (RQ-187)."""
    cluster = QuotaCluster()
    cluster.discovery.kinds.remove(DEVICE_CLASS)
    cluster.discovery.kinds.remove(RESOURCE_CLAIM)
    cluster.put(POD, pod("p", requests={"example.com/gpu": "1"}))
    key = cluster.quota("requests.example.com/gpu", "count/resourceclaims.resource.k8s.io")
    cluster.start()
    assert cluster.used(key) == {"requests.example.com/gpu": "1"}
