"""Which resources are followed, and which quotas an object's change wakes."""

import pytest
from quota_cluster import (
    ALL_VERBS,
    CONFIG_MAP,
    DEVICE_CLASS,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_QUOTA,
    SERVICE,
    VOLUME_CLAIM,
    WIDGET,
    Discovery,
    QuotaCluster,
    named,
    pod,
)

from kcm_host.api import Key, Kind, Resource, Timer
from kcm_host_resourcequota.catalog import countable

NODE = Kind("", "v1", "Node", "nodes", namespaced=False)
EVENT = Kind("", "v1", "Event", "events")
NEW_EVENT = Kind("events.k8s.io", "v1", "Event", "events")
POD_METRICS = Kind("metrics.k8s.io", "v1", "PodMetrics", "pods")
WIDGET_V2 = Kind("example.com", "v2", "Widget", "widgets")


def followed(cluster: QuotaCluster) -> set[Kind]:
    """Give what is followed beside the quotas."""
    return set(cluster.streams) - {RESOURCE_QUOTA}


def test_only_mentioned_resources_are_followed() -> None:
    """Pods always, other things as names need them (D-12, RQ-10, RQ-11, RQ-214, RQ-B51)."""
    cluster = QuotaCluster(discovery=Discovery(WIDGET))
    cluster.start()
    assert followed(cluster) == {POD}
    cluster.quota("count/widgets.example.com")
    cluster.settle()
    assert followed(cluster) == {POD, WIDGET}
    cluster.quota("gpu.deviceclass.resource.k8s.io/devices", name="gpu")
    cluster.settle()
    assert followed(cluster) == {POD, WIDGET, RESOURCE_CLAIM, DEVICE_CLASS}


def test_names_that_admission_still_enforces_count_too() -> None:
    """A name in `status.hard` alone is mentioned as well (RQ-226)."""
    cluster = QuotaCluster()
    cluster.quota("pods", status={"hard": {"services": "1"}, "used": {"services": "0"}})
    cluster.start()
    assert followed(cluster) == {POD, SERVICE}


def test_a_resource_is_kept_for_some_minutes() -> None:
    """Then it is followed no longer, and its records go (D-12)."""
    cluster = QuotaCluster()
    key = cluster.quota("count/services")
    cluster.put(SERVICE, named("s"))
    cluster.start()
    cluster.delete(RESOURCE_QUOTA, key)
    cluster.advance(200)
    assert followed(cluster) == {POD, SERVICE}
    cluster.advance(200)
    assert followed(cluster) == {POD}
    assert cluster.controller._routing.counting.books.ledger.objects("services") == 0
    again = cluster.quota("count/services")
    cluster.settle()
    assert cluster.used(again) == {"count/services": "1"}


def test_an_object_wakes_the_quotas_it_concerns() -> None:
    """
    Those whose limits name something that changed and whose scopes it meets; no others.

    RQ-T110, RQ-T111, RQ-226, RQ-227, RQ-B10.
    """
    cluster = QuotaCluster()
    cluster.put(POD, pod("p", requests={"cpu": "1"}))
    concerned = [cluster.quota(name, name=f"q{n}") for n, name in enumerate(("pods", "count/pods"))]
    cluster.quota("services", name="services")
    cluster.quota("requests.example.com/gpu", name="gpu")
    cluster.quota("pods", name="scoped", scopes=["BestEffort"])
    cluster.quota("pods", name="elsewhere", namespace="b")
    cluster.start()
    cluster.advance(6)
    cluster.syncs.clear()
    cluster.delete(POD, Key("p", "a"))
    cluster.advance(1)
    assert sorted(cluster.syncs, key=str) == concerned


def test_a_delete_that_only_a_list_shows_wakes_as_well() -> None:
    """What a broken watch has missed is found by the next list (RQ-T111, RQ-T134, RQ-B23)."""
    cluster = QuotaCluster()
    for number in range(10):
        cluster.put(POD, pod(f"p{number}"))
    key = cluster.quota("pods")
    cluster.start()
    cluster.hold(POD)
    for number in range(3):
        cluster.delete(POD, Key(f"p{number}", "a"))
    cluster.relist(POD)
    cluster.release(POD)
    cluster.advance(0.1)
    assert cluster.used(key) == {"pods": "7"}


def test_a_create_that_admission_has_counted_wakes_nobody() -> None:
    """It is compared, found right, and costs no sync (RQ-T112, RQ-216, D-13)."""
    cluster = QuotaCluster()
    key = cluster.quota("pods")
    cluster.start()
    cluster.advance(6)
    cluster.admit(key, pods=1)
    cluster.syncs.clear()
    cluster.put(POD, pod("p"))
    cluster.advance(1)
    assert cluster.syncs == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"metadata": {"labels": {"x": "y"}}}, None, id="label"),
        pytest.param({"status": {"phase": "Running", "message": "hello"}}, None, id="message"),
        pytest.param({"status": {"phase": "Succeeded"}}, {"cpu": "0", "pods": "0"}, id="ended"),
        pytest.param(
            {
                "status": {
                    "phase": "Running",
                    "containerStatuses": [
                        {
                            "name": "c",
                            "allocatedResources": {"cpu": "2"},
                            "resources": {"requests": {"cpu": "2"}},
                        }
                    ],
                }
            },
            {"cpu": "2", "pods": "1"},
            id="resized",
        ),
        pytest.param(
            {
                "status": {
                    "phase": "Running",
                    "containerStatuses": [
                        {"name": "c", "resources": {"requests": {"cpu": "1000m"}}}
                    ],
                }
            },
            None,
            id="another-text",
        ),
    ],
)
def test_a_pod_update_wakes_where_usage_changes(
    fields: dict[str, dict[str, object]], expected: dict[str, str] | None
) -> None:
    """Whatever changes the usage is followed, and nothing else (RQ-T113, RQ-240, D-5)."""
    cluster = QuotaCluster()
    cluster.put(POD, pod("p", requests={"cpu": "1"}))
    key = cluster.quota("cpu", "pods")
    cluster.start()
    before = cluster.used(key)
    cluster.syncs.clear()
    found = cluster.get(POD, Key("p", "a"))
    merged = {name: {**found[name], **more} for name, more in fields.items()}
    cluster.put(POD, {**found, **merged})
    cluster.advance(1)
    assert cluster.used(key) == (expected or before)
    assert bool(cluster.syncs) is (expected is not None)


def test_an_update_of_what_is_counted_wakes_nobody() -> None:
    """Config maps, custom resources, claims whose amounts stay (RQ-T114, RQ-243, RQ-242, D-8)."""
    cluster = QuotaCluster(discovery=Discovery(WIDGET))
    volume = {"spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    claim = {"spec": {"devices": {"requests": []}}}
    kinds = {CONFIG_MAP: {}, WIDGET: {}, VOLUME_CLAIM: volume, RESOURCE_CLAIM: claim}
    for kind, fields in kinds.items():
        cluster.put(kind, named("x", **fields))
    cluster.quota(
        "configmaps",
        "count/widgets.example.com",
        "requests.storage",
        "count/resourceclaims.resource.k8s.io",
    )
    cluster.start()
    cluster.advance(6)
    cluster.syncs.clear()
    for kind in kinds:
        found = cluster.get(kind, Key("x", "a"))
        cluster.put(kind, {**found, "metadata": {**found["metadata"], "labels": {"x": "y"}}})
    cluster.advance(1)
    assert cluster.syncs == []


def test_scopes_that_change_are_noticed() -> None:
    """A pod that gets a deadline leaves one quota for another (RQ-T64, RQ-B25)."""
    cluster = QuotaCluster()
    cluster.put(POD, pod("p"))
    ending = cluster.quota("pods", name="ending", scopes=["Terminating"])
    lasting = cluster.quota("pods", name="lasting", scopes=["NotTerminating"])
    cluster.start()
    assert (cluster.used(ending), cluster.used(lasting)) == ({"pods": "0"}, {"pods": "1"})
    found = cluster.get(POD, Key("p", "a"))
    cluster.put(POD, {**found, "spec": {**found["spec"], "activeDeadlineSeconds": 60}})
    cluster.advance(1)
    assert (cluster.used(ending), cluster.used(lasting)) == ({"pods": "1"}, {"pods": "0"})


def test_a_service_that_needs_fewer_ports_is_noticed() -> None:
    """Also without a change of its type (RQ-T70, RQ-241, D-5)."""
    cluster = QuotaCluster()
    ports = [{"port": number, "nodePort": 30000 + number} for number in range(3)]
    key = cluster.put(SERVICE, named("s", spec={"type": "NodePort", "ports": ports}))
    quota = cluster.quota("services.nodeports")
    cluster.start()
    assert cluster.used(quota) == {"services.nodeports": "3"}
    cluster.put(SERVICE, named("s", spec={"type": "NodePort", "ports": ports[:1]}))
    cluster.advance(1)
    assert cluster.used(quota) == {"services.nodeports": "1"}
    assert cluster.get(SERVICE, key)["spec"]["type"] == "NodePort"


def test_a_resource_whose_group_is_missing_stays() -> None:
    """
    The host keeps what it knew of a group that does not answer; nothing begins anew.

    RQ-T115, RQ-T116, RQ-231 to RQ-233.
    """
    cluster = QuotaCluster(discovery=Discovery(WIDGET))
    key = cluster.quota("count/widgets.example.com")
    cluster.start()
    cluster.watch_more()
    cluster.put(WIDGET, named("w"))
    cluster.advance(1)
    assert cluster.used(key) == {"count/widgets.example.com": "1"}


@pytest.mark.parametrize("present_at_start", [False, True], ids=["T117", "T118"])
def test_a_resource_that_cannot_be_listed_hurts_only_its_names(present_at_start: bool) -> None:
    """
    Other quotas and other names are right at once, and its own once it can be listed.

    RQ-T117, RQ-T118, RQ-T121, RQ-T122, RQ-13, RQ-14, RQ-32, RQ-219, RQ-225, RQ-236, RQ-237, D-1.
    """
    cluster = QuotaCluster(discovery=Discovery(*([WIDGET] if present_at_start else [])))
    cluster.unlistable[WIDGET] = "500: conversion webhook failed"
    cluster.put(POD, pod("p"))
    fine = cluster.quota("pods", name="fine")
    broken = cluster.quota("pods", "count/widgets.example.com", name="broken")
    cluster.start()
    if not present_at_start:
        cluster.discovery.kinds.append(WIDGET)
        cluster.watch_more()
        cluster.advance(1)
    assert cluster.used(fine) == {"pods": "1"}
    assert cluster.used(broken) == {"pods": "1"}
    cluster.make_listable(WIDGET)
    cluster.put(WIDGET, named("w"))
    cluster.advance(1)
    assert cluster.used(broken) == {"pods": "1", "count/widgets.example.com": "1"}


def test_a_partial_discovery_is_enough() -> None:
    """
    What is known is counted; the rest is when its group answers.

    RQ-T120, RQ-12, RQ-211: without any answer the host does not start the controller.
    """
    cluster = QuotaCluster()
    everything, cluster.discovery.kinds = cluster.discovery.kinds, [POD, RESOURCE_QUOTA]
    cluster.put(CONFIG_MAP, named("c"))
    key = cluster.quota("pods", "configmaps")
    cluster.start()
    assert cluster.used(key) == {"pods": "0"}
    cluster.discovery.kinds = everything
    cluster.watch_more()
    cluster.advance(0.2)
    assert cluster.used(key) == {"pods": "0", "configmaps": "1"}


def test_a_new_resource_is_counted_as_soon_as_it_is_known() -> None:
    """Not at the next resync (RQ-238, D-18, RQ-B14, RQ-202, RQ-T102)."""
    cluster = QuotaCluster()
    for number in range(4):
        cluster.put(WIDGET, named(f"w{number}"))
    key = cluster.quota("count/widgets.example.com")
    cluster.start()
    assert cluster.used(key) == {}
    cluster.discovery.kinds.append(WIDGET)
    cluster.watch_more()
    cluster.advance(0.2)
    assert cluster.used(key) == {"count/widgets.example.com": "4"}


def test_names_of_a_vanished_resource_keep_their_usage() -> None:
    """Watch, records and evaluator go; the entry stays (RQ-T119, RQ-44, RQ-203, RQ-220, D-11)."""
    cluster = QuotaCluster(discovery=Discovery(WIDGET))
    for number in range(4):
        cluster.put(WIDGET, named(f"w{number}"))
    key = cluster.quota("count/widgets.example.com")
    cluster.start()
    cluster.discovery.kinds.remove(WIDGET)
    cluster.watch_more()
    cluster.advance(400)
    assert cluster.used(key) == {"count/widgets.example.com": "4"}
    assert followed(cluster) == {POD}


def test_a_resource_in_another_version_is_followed_there() -> None:
    """With a new list, and right afterwards (Q-23, D-11)."""
    cluster = QuotaCluster(discovery=Discovery(WIDGET))
    cluster.put(WIDGET, named("w"))
    key = cluster.quota("count/widgets.example.com")
    cluster.start()
    cluster.discovery.kinds.remove(WIDGET)
    cluster.discovery.kinds.append(WIDGET_V2)
    cluster.watch_more()
    for number in range(2):
        cluster.put(WIDGET_V2, named(f"w{number}"))
    cluster.advance(1)
    assert followed(cluster) == {POD, WIDGET_V2}
    assert cluster.used(key) == {"count/widgets.example.com": "2"}


def test_what_can_be_counted_follows_from_discovery() -> None:
    """
    Namespaced, all four verbs, the preferred version, not ignored.

    RQ-T103, RQ-T104, RQ-205, RQ-210, RQ-213.
    """
    read_only = frozenset({"get", "list"})
    resources = [
        Resource(WIDGET, ALL_VERBS, False),
        Resource(WIDGET_V2, ALL_VERBS, True),
        Resource(POD_METRICS, read_only, True),
        Resource(NODE, ALL_VERBS, True),
        Resource(EVENT, ALL_VERBS, True),
        Resource(NEW_EVENT, ALL_VERBS, True),
    ]
    assert countable(resources) == {"widgets.example.com": WIDGET_V2}


def test_names_of_ignored_resources_have_no_usage() -> None:
    """Nobody serves them (RQ-T101, RQ-T104, RQ-205)."""
    cluster = QuotaCluster()
    discovery = cluster.discovery
    discovery.kinds += [EVENT, NEW_EVENT, NODE, Kind("apps", "v1", "Deployment", "deployments")]
    key = cluster.quota(
        "count/events",
        "count/events.events.k8s.io",
        "count/nodes",
        "count/deployments.apps",
        "count/deployments.extensions",
    )
    cluster.start()
    assert cluster.used(key) == {"count/deployments.apps": "0"}


def test_quotas_count_themselves() -> None:
    """By their own names and alias, beside being synced (RQ-T100, RQ-201)."""
    cluster = QuotaCluster()
    key = cluster.quota("resourcequotas", "count/resourcequotas")
    cluster.quota("pods", name="other")
    cluster.start()
    cluster.advance(1)
    assert cluster.used(key) == {"resourcequotas": "2", "count/resourcequotas": "2"}


def test_a_device_class_that_changes_recounts_its_claims() -> None:
    """At once, with all names that are served anew (RQ-T96, RQ-174, D-9)."""
    cluster = QuotaCluster()
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}
    devices = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    cluster.put(RESOURCE_CLAIM, named("c", spec=devices))
    cluster.put(DEVICE_CLASS, {"metadata": {"name": "gpu"}, "spec": {}})
    key = cluster.quota("requests.example.com/gpu")
    cluster.start()
    assert cluster.used(key) == {"requests.example.com/gpu": "0"}
    assert RESOURCE_CLAIM not in followed(cluster)
    spec = {"extendedResourceName": "example.com/gpu"}
    cluster.put(DEVICE_CLASS, {"metadata": {"name": "gpu"}, "spec": spec})
    cluster.advance(0.2)
    assert cluster.used(key) == {"requests.example.com/gpu": "2"}
    cluster.delete(DEVICE_CLASS, Key("gpu"))
    cluster.advance(0.2)
    assert cluster.used(key) == {"requests.example.com/gpu": "0"}


def test_extended_names_wait_for_the_device_classes() -> None:
    """Nobody knows before who serves them (RQ-16, Q-9, D-9)."""
    cluster = QuotaCluster()
    cluster.unlistable[DEVICE_CLASS] = "503"
    key = cluster.quota("requests.example.com/gpu", "pods")
    cluster.start()
    assert cluster.used(key) == {"pods": "0"}
    cluster.make_listable(DEVICE_CLASS)
    cluster.advance(0.2)
    assert cluster.used(key) == {"pods": "0", "requests.example.com/gpu": "0"}


def test_a_server_without_device_classes_serves_extended_names() -> None:
    """Then pods alone do; names of claims are not counted (RQ-187)."""
    cluster = QuotaCluster()
    cluster.discovery.kinds.remove(DEVICE_CLASS)
    cluster.discovery.kinds.remove(RESOURCE_CLAIM)
    cluster.put(POD, pod("p", requests={"example.com/gpu": "1"}))
    key = cluster.quota("requests.example.com/gpu", "count/resourceclaims.resource.k8s.io")
    cluster.start()
    assert cluster.used(key) == {"requests.example.com/gpu": "1"}


def test_discovery_is_not_asked_for_by_a_timer() -> None:
    """The host does that; every minute, only what nobody mentions any more is looked for (RQ-5)."""
    cluster = QuotaCluster()
    cluster.start()
    timers = cluster.controller.kcm_timers(cluster.settings)
    assert [each.every.total_seconds() for each in timers if isinstance(each, Timer)] == [
        1,
        60,
        300,
    ]
