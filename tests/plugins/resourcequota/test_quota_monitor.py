"""The quota monitor: which resources are watched, and which quotas an object's change enqueues."""

import pytest
from plugins.resourcequota.quota_cluster import QuotaCluster, started, watched
from plugins.resourcequota.quota_discovery import WIDGET, Discovery
from plugins.resourcequota.quota_manifests import device_claim, named, pod
from plugins.tables import row

from kcm_host.api import Key
from kcm_host_resourcequota.evaluators.extended_resources import DEVICE_CLASS
from kcm_host_resourcequota.evaluators.pods import POD
from kcm_host_resourcequota.evaluators.resourceclaims import RESOURCE_CLAIM
from kcm_host_resourcequota.evaluators.services import SERVICE
from kcm_host_resourcequota.models import RESOURCE_QUOTA


def test_only_needed_resources_are_watched() -> None:
    """Pods always, other resources as names need them (D-12, RQ-10, RQ-11, RQ-214, RQ-B51)."""
    cluster = QuotaCluster(discovery=Discovery(WIDGET))
    cluster.start()
    assert watched(cluster) == {POD}
    cluster.quota("count/widgets.example.com")
    cluster.run_due()
    assert watched(cluster) == {POD, WIDGET}
    cluster.quota("gpu.deviceclass.resource.k8s.io/devices", name="gpu")
    cluster.run_due()
    assert watched(cluster) == {POD, WIDGET, RESOURCE_CLAIM, DEVICE_CLASS}
    handlers = [each.watch for each in cluster.handlers.values() if each.watch.kind != DEVICE_CLASS]
    assert [each.kind for each in handlers if each.required] == [RESOURCE_QUOTA]


def test_names_that_admission_still_enforces_count_too() -> None:
    """A name that is only in `status.hard` is needed as well (RQ-226)."""
    cluster = QuotaCluster()
    cluster.quota("pods", status={"hard": {"services": "1"}, "used": {"services": "0"}})
    cluster.start()
    assert watched(cluster) == {POD, SERVICE}


def test_a_resource_is_kept_for_some_minutes() -> None:
    """Then its watch and its records are removed (D-12)."""
    cluster = QuotaCluster()
    key = cluster.quota("count/services")
    cluster.put(SERVICE, named("s"))
    cluster.start()
    cluster.delete(RESOURCE_QUOTA, key)
    cluster.advance(200)
    assert watched(cluster) == {POD, SERVICE}
    cluster.advance(200)
    assert watched(cluster) == {POD}
    assert cluster.controller._replenishment.monitor.usage.index.object_count("services") == 0
    again = cluster.quota("count/services")
    cluster.run_due()
    assert cluster.used(again) == {"count/services": "1"}


def test_an_object_enqueues_the_quotas_it_concerns() -> None:
    """
    Those that limit a name whose usage changed, if the object is in scope; no others.

    RQ-T110, RQ-T111, RQ-226, RQ-227, RQ-B10.
    """
    cluster = QuotaCluster()
    cluster.put(POD, pod("p", requests={"cpu": "1"}))
    cluster.quota("services", name="services")
    concerned = [cluster.quota(name, name=f"q{n}") for n, name in enumerate(("pods", "count/pods"))]
    cluster.quota("requests.example.com/gpu", name="gpu")
    cluster.quota("pods", name="scoped", scopes=["BestEffort"])
    cluster.quota("pods", name="elsewhere", namespace="b")
    cluster.start()
    cluster.advance(6)
    cluster.syncs.clear()
    cluster.delete(POD, Key("p", "a"))
    cluster.advance(1)
    assert sorted(cluster.syncs, key=str) == concerned


def test_quotas_count_themselves() -> None:
    """They are watched a second time for that (RQ-T100, RQ-201)."""
    cluster, key = started("resourcequotas", "count/resourcequotas")
    assert cluster.used(key) == {"resourcequotas": "1", "count/resourcequotas": "1"}


def test_a_deletion_that_only_a_list_shows_enqueues_as_well() -> None:
    """The next list has what a failed watch has missed (RQ-T111, RQ-T134, RQ-B23)."""
    cluster, key = started("pods", pods=[pod(f"p{number}") for number in range(10)])
    cluster.hold(POD)
    for number in range(3):
        cluster.delete(POD, Key(f"p{number}", "a"))
    cluster.relist(POD)
    cluster.release(POD)
    cluster.advance(0.1)
    assert cluster.used(key) == {"pods": "7"}


def test_a_creation_that_admission_has_counted_enqueues_nothing() -> None:
    """The status is right, so there is no sync (RQ-T112, RQ-216, D-13)."""
    cluster, key = started("pods")
    cluster.advance(6)
    cluster.admit(key, pods=1)
    cluster.syncs.clear()
    cluster.put(POD, pod("p"))
    cluster.advance(1)
    assert cluster.syncs == []


def running(**amounts: str) -> dict[str, object]:
    """Return the status of a pod whose container has been given these amounts."""
    given = {"allocatedResources": amounts, "resources": {"requests": amounts}}
    return {"phase": "Running", "containerStatuses": [{"name": "c", **given}]}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        row("label", {"metadata": {"labels": {"x": "y"}}}, None),
        row("message", {"status": {"phase": "Running", "message": "hello"}}, None),
        row("ended", {"status": {"phase": "Succeeded"}}, {"cpu": "0", "pods": "0"}),
        row("resized", {"status": running(cpu="2")}, {"cpu": "2", "pods": "1"}),
        row("another-text", {"status": running(cpu="1000m")}, None),
    ],
)
def test_a_pod_update_enqueues_where_usage_changes(
    fields: dict[str, dict[str, object]], expected: dict[str, str] | None
) -> None:
    """Every change of usage enqueues, and nothing else (RQ-T113, RQ-240, D-5)."""
    cluster, key = started("cpu", "pods", pods=[pod("p", requests={"cpu": "1"})])
    before = cluster.used(key)
    cluster.syncs.clear()
    found = cluster.get(POD, Key("p", "a"))
    merged = {name: {**found[name], **more} for name, more in fields.items()}
    cluster.put(POD, {**found, **merged})
    cluster.advance(1)
    assert cluster.used(key) == (expected or before)
    assert bool(cluster.syncs) is (expected is not None)


def test_a_device_class_that_changes_recounts_its_claims() -> None:
    """At once, with all names that have other evaluators (RQ-T96, RQ-174, D-9)."""
    cluster = QuotaCluster()
    cluster.put(RESOURCE_CLAIM, device_claim())
    cluster.declare()
    key = cluster.quota("requests.example.com/gpu")
    cluster.start()
    assert cluster.used(key) == {"requests.example.com/gpu": "0"}
    assert RESOURCE_CLAIM not in watched(cluster)
    cluster.declare("example.com/gpu")
    cluster.advance(0.2)
    assert cluster.used(key) == {"requests.example.com/gpu": "2"}
    cluster.delete(DEVICE_CLASS, Key("gpu"))
    cluster.advance(0.2)
    assert cluster.used(key) == {"requests.example.com/gpu": "0"}


def test_a_class_that_leaves_a_shared_name_is_subtracted_there() -> None:
    """Quotas of the name keep their evaluators, but not the usage; then it comes back (D-9)."""
    cluster = QuotaCluster()
    cluster.put(RESOURCE_CLAIM, device_claim())
    keys = [cluster.quota(f"requests.example.com/{each}", name=each) for each in "ab"]
    cluster.start()
    cluster.declare("example.com/a", name="other")
    for explicit, used in (("a", ["2", "0"]), ("b", ["0", "2"]), ("a", ["2", "0"])):
        cluster.declare(f"example.com/{explicit}")
        cluster.advance(0.2)
        found = [next(iter(cluster.used(key).values())) for key in keys]
        assert found == used


def test_another_resource_that_goes_leaves_claims_and_classes() -> None:
    """What is known of them stays as long as they are watched (D-12)."""
    cluster = QuotaCluster()
    cluster.declare("example.com/gpu")
    cluster.put(RESOURCE_CLAIM, device_claim(pod_uid="uid-p"))
    services = cluster.quota("services", name="services")
    cluster.quota("requests.example.com/gpu")
    cluster.start()
    cluster.delete(RESOURCE_QUOTA, services)
    cluster.advance(400)
    assert watched(cluster) == {POD, DEVICE_CLASS, RESOURCE_CLAIM}
    monitor = cluster.controller._replenishment.monitor
    assert monitor.claims in monitor.registry.evaluators_for("requests.example.com/gpu")
    assert monitor._oldest_claims.of_pod("a", "uid-p") == Key("c", "a")


def test_device_classes_that_are_not_watched_declare_nothing() -> None:
    """One that is deleted meanwhile declares nothing when they are watched again (D-9, D-12)."""
    cluster = QuotaCluster()
    names = ("requests.example.com/gpu", "count/resourceclaims.resource.k8s.io")
    spec = {"extendedResourceName": "example.com/gpu"}
    cluster.put(RESOURCE_CLAIM, device_claim())
    cluster.put(DEVICE_CLASS, {"metadata": {"name": "gpu"}, "spec": spec})
    key = cluster.quota(*names)
    cluster.start()
    assert cluster.used(key) == dict(zip(names, ("2", "1"), strict=True))
    cluster.delete(RESOURCE_QUOTA, key)
    cluster.advance(400)
    assert watched(cluster) == {POD}
    monitor = cluster.controller._replenishment.monitor
    assert monitor.claims not in monitor.registry.evaluators_for(names[0])
    cluster.delete(DEVICE_CLASS, Key("gpu"))
    cluster.quota(*names)
    cluster.advance(1)
    assert cluster.used(key) == dict(zip(names, ("0", "1"), strict=True))
