"""The harness carries controllers of every size: one story of each of the larger plugins."""

from datetime import timedelta
from typing import Any

from kcm_host.api import Kind
from kcm_host_resourceclaim import ResourceClaims
from kcm_host_resourceclaim.models.pod import POD
from kcm_host_resourceclaim.settings import ClaimSettings
from kcm_host_resourcequota import ResourceQuota
from kcm_host_resourcequota.models import RESOURCE_QUOTA
from kcm_host_resourcequota.settings import QuotaSettings
from kcm_host_servicecidrs import ServiceCidrs
from kcm_host_servicecidrs.models import FINALIZER, IP_ADDRESS, SERVICE_CIDR
from kcm_host_testing.harness import ControllerHarness

CLAIM = Kind(group="resource.k8s.io", version="v1", name="ResourceClaim", resource="resourceclaims")
TEMPLATE = Kind(
    group="resource.k8s.io",
    version="v1",
    name="ResourceClaimTemplate",
    resource="resourceclaimtemplates",
)
CONFIG_MAP = Kind(group="", version="v1", name="ConfigMap", resource="configmaps")


def _is_ready(harness: ControllerHarness) -> str:
    (condition,) = harness.get(SERVICE_CIDR, "c")["status"]["conditions"]
    assert condition["type"] == "Ready"
    return str(condition["status"])


def test_servicecidrs() -> None:
    """A range gets finalizer and condition, waits for its last address, and goes after a grace."""
    harness = ControllerHarness(lambda harness: ServiceCidrs(lambda: harness.now))
    harness.put(SERVICE_CIDR, {"metadata": {"name": "c"}, "spec": {"cidrs": ["10.0.0.0/24"]}})
    labels = {
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        "ipaddress.kubernetes.io/ip-family": "IPv4",
    }
    harness.put(IP_ADDRESS, {"metadata": {"name": "10.0.0.7", "labels": labels}})
    harness.run_until_idle()
    assert harness.get(SERVICE_CIDR, "c")["metadata"]["finalizers"] == [FINALIZER]
    assert _is_ready(harness) == "True"
    harness.delete(SERVICE_CIDR, "c")
    harness.run_until_idle()
    assert _is_ready(harness) == "False"
    assert harness.missed_wakeups() == []
    harness.delete(IP_ADDRESS, "10.0.0.7")
    harness.advance(timedelta(seconds=30))
    assert harness.objects(SERVICE_CIDR) == {}


def test_resourceclaim() -> None:
    """A claim is made from its template, recorded in the pod, and goes with the pod."""
    harness = ControllerHarness(ResourceClaims(ClaimSettings()), served=[POD, CLAIM, TEMPLATE])
    harness.put(
        TEMPLATE,
        """
        metadata: {name: t, namespace: ns}
        spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: d}}]}}}
        """,
    )
    pod: dict[str, Any] = {
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"resourceClaims": [{"name": "res", "resourceClaimTemplateName": "t"}]},
        "status": {"phase": "Pending"},
    }
    harness.put(POD, pod)
    harness.run_until_idle()
    ((key, claim),) = harness.objects(CLAIM).items()
    assert key.startswith("ns/p-res-")
    (owner,) = claim["metadata"]["ownerReferences"]
    assert owner["name"] == "p"
    (status,) = harness.get(POD, "ns/p")["status"]["resourceClaimStatuses"]
    assert status == {"name": "res", "resourceClaimName": claim["metadata"]["name"]}
    assert harness.missed_wakeups() == []


def test_resourcequota() -> None:
    """Usage follows the objects, also those of a kind that only discovery has named."""

    def quota(harness: ControllerHarness) -> ResourceQuota:
        def seconds() -> float:
            return harness.now.timestamp()

        settings = QuotaSettings(settle_time=timedelta(seconds=1))
        return ResourceQuota(settings, clock=seconds, wall=seconds)

    harness = ControllerHarness(quota, served=[RESOURCE_QUOTA, CONFIG_MAP])
    hard = {"count/configmaps": "2"}
    harness.put(
        RESOURCE_QUOTA, {"metadata": {"name": "q", "namespace": "ns"}, "spec": {"hard": hard}}
    )
    harness.put(CONFIG_MAP, {"metadata": {"name": "a", "namespace": "ns"}})
    harness.advance(timedelta(seconds=30))
    status = harness.get(RESOURCE_QUOTA, "ns/q")["status"]
    assert status == {"hard": hard, "used": {"count/configmaps": "1"}}
    harness.delete(CONFIG_MAP, "ns/a")
    harness.advance(timedelta(seconds=30))
    used = harness.get(RESOURCE_QUOTA, "ns/q")["status"]["used"]
    assert used == {"count/configmaps": "0"}
    loop = harness._loop
    del harness
    assert loop.is_closed(), "its timers do not keep the harness alive"
