"""The hooks: versions, permissions, workers, metrics and the keys of the periodic resync."""

from typing import Any

import pytest
from plugins.resourceclaim.fake_cluster import GROUPS, ClaimCluster, Served
from plugins.resourceclaim.objects import claim, group, pod, template
from pydantic import ValidationError

from kcm_host.api import Key
from kcm_host_resourceclaim import ResourceClaims
from kcm_host_resourceclaim.api_version import api_for_version
from kcm_host_resourceclaim.cache import State
from kcm_host_resourceclaim.enqueue import EnqueueHandlers
from kcm_host_resourceclaim.events_metrics import ReconcileError
from kcm_host_resourceclaim.models.pod import POD, POD_GROUPS
from kcm_host_resourceclaim.plugin import watches_for
from kcm_host_resourceclaim.settings import ClaimSettings

DEFAULTS = ClaimSettings()


@pytest.mark.parametrize(
    ("served", "used"),
    [
        (["v1", "v1beta2", "v1beta1"], "v1"),
        (["v1beta1", "v1beta2"], "v1beta2"),
        (["v1beta1"], "v1beta1"),
        (["v1alpha3", "v1beta1"], "v1beta1"),
    ],
)
def test_the_newest_supported_version_is_used(served: list[str], used: str) -> None:
    """For watching and for writing (RC-85)."""
    cluster = ClaimCluster(claims=served)
    kinds = [watch.kind for watch in cluster.watches.values()]
    assert {kind.version for kind in kinds if kind.group == "resource.k8s.io"} == {used}
    status = cluster.controller.kcm_status(cluster.view)
    assert status["apiVersion"] == f"resource.k8s.io/{used}"


def test_a_version_must_serve_claims_and_templates() -> None:
    """One that lacks templates is passed over (RC-85)."""
    served = Served(["v1beta2"], [])
    served.known.add(("v1", "resourceclaims"))
    watches = ResourceClaims(DEFAULTS).kcm_watches(served)
    assert [watch.kind.version for watch in watches[1:]] == ["v1beta2", "v1beta2"]


def test_without_any_version_nothing_is_followed() -> None:
    """The controller idles, and status and metrics say so (T-84, RC-86)."""
    cluster = ClaimCluster(claims=["v1alpha3"])
    assert cluster.watches == {}
    assert cluster.controller.kcm_status(cluster.view) == {"apiVersion": None}
    assert cluster.metrics("resource_claims") == {}


async def test_an_old_version_is_written_as_it_is_read() -> None:
    """The claim is made in the version in use, and refused by its own fields (T-83, RC-41)."""
    asks = template(admin=True, flat=True)
    cluster = ClaimCluster(pod(), asks, claims=["v1beta1"], adminAccess=False)
    with pytest.raises(ReconcileError, match="admin access"):
        await cluster.sync("pod", "p")
    cluster.put(template(flat=True))
    assert await cluster.sync("pod", "p") == ["create resourceclaims", "apply pods/status"]
    assert cluster.sent[0][2]["apiVersion"] == "resource.k8s.io/v1beta1"


@pytest.mark.parametrize(
    ("served", "switches", "version"),
    [
        pytest.param(["v1beta1"], GROUPS, "v1beta1", id="1.37"),
        pytest.param(["v1alpha2"], GROUPS, "v1alpha2", id="1.36"),
        pytest.param(["v1alpha2", "v1alpha3", "v1beta1"], GROUPS, "v1beta1", id="newest"),
        pytest.param(["v1beta1"], {}, None, id="switched off"),
        pytest.param(["v1"], GROUPS, None, id="not served"),
    ],
)
def test_the_version_of_groups(served: list[str], switches: Any, version: str | None) -> None:
    """The first that is served; none leaves the features off (RC-88)."""
    cluster = ClaimCluster(groups=served, **switches)
    assert ("podgroups" in cluster.watches) is (version is not None)
    shown = cluster.controller.kcm_status(cluster.view)["podGroups"]
    assert shown == (f"scheduling.k8s.io/{version}" if version else None)


async def test_groups_that_are_not_served_are_off() -> None:
    """A pod in a group is refused as if the switch were off (RC-88, RC-31)."""
    cluster = ClaimCluster(pod(group="g"), template(), groups=["v1"], **GROUPS)
    assert await cluster.sync("pod", "p") == []
    assert cluster.sent == []


CLAIM_VERBS = {
    ("resourceclaims", "get", ""),
    ("resourceclaims", "create", ""),
    ("resourceclaims", "update", ""),
    ("resourceclaims", "delete", ""),
    ("resourceclaims", "update", "status"),
    ("resourceclaims", "update", "binding"),
}
OTHER_VERBS = {
    ("pods", "get", ""),
    ("pods", "patch", "status"),
    ("events", "create", ""),
    ("events", "patch", ""),
}
GROUP_VERBS = {("podgroups", "get", ""), ("podgroups", "patch", "status")}


@pytest.mark.parametrize(
    ("switches", "expected"),
    [
        pytest.param({}, CLAIM_VERBS | OTHER_VERBS, id="default"),
        pytest.param({"genericWorkload": True}, CLAIM_VERBS | OTHER_VERBS, id="lookups"),
        pytest.param(GROUPS, CLAIM_VERBS | OTHER_VERBS | GROUP_VERBS, id="group claims"),
    ],
)
def test_permissions_follow_from_the_switches(switches: Any, expected: Any) -> None:
    """PodGroups are written only with group claims; templates never (RC-80, section 13)."""
    writes = ResourceClaims(ClaimSettings.model_validate(switches)).kcm_writes()
    assert {(one.kind.resource, one.verb, one.subresource) for one in writes} == expected
    versions = {one.kind.version for one in writes if one.kind.resource == "resourceclaims"}
    assert versions == {"v1", "v1beta2", "v1beta1"}


def test_the_defaults_of_the_switches() -> None:
    """As the API server's own in 1.37 (section 1.1)."""
    assert DEFAULTS.model_dump(by_alias=True) == {
        "adminAccess": True,
        "prioritizedList": True,
        "genericWorkload": False,
        "workloadClaims": False,
    }


def test_group_claims_need_lookups() -> None:
    """The one switch without the other is an error with a remedy (section 1.1)."""
    with pytest.raises(ValidationError, match="set 'genericWorkload: true' too"):
        ClaimSettings.model_validate({"workloadClaims": True})


def test_fifty_keys_are_synced_at_a_time() -> None:
    """Where the configuration does not say otherwise (RC-3)."""
    assert ResourceClaims.kcm_info().workers == 50


def test_claims_are_counted_by_what_they_are() -> None:
    """What there is none of has no series; the extended mark wins (T-82, RC-76)."""
    extended = {"resource.kubernetes.io/extended-resource-claim": "true"}
    unmarked = {"resource.kubernetes.io/extended-resource-claim": "false"}
    named = "resource.kubernetes.io/pod-claim-name"
    cluster = ClaimCluster(
        claim("a", entry="res", allocated=True),
        claim("b", entry="res"),
        claim("c", entry="res"),
        claim("d", allocated=True, annotations=extended, entry="res"),
        claim("e", annotations={named: "", **unmarked}),
    )
    assert cluster.metrics("resource_claims") == {
        ("true", "false", "resource_claim_template"): 1,
        ("false", "false", "resource_claim_template"): 2,
        ("true", "false", "extended_resource"): 1,
        ("false", "false", ""): 1,
    }


def test_metrics_have_the_names_of_the_newest_release() -> None:
    """Both exist from the start, with the labels of the reference (RC-75, RC-76)."""
    cluster = ClaimCluster(claim(admin=True))
    creates, claims = cluster.controller.kcm_metrics()
    assert (creates.name, creates.type) == (
        "dynamic_resource_allocation_resourceclaim_creates_total",
        "counter",
    )
    assert (claims.name, claims.type) == ("dynamic_resource_allocation_resource_claims", "gauge")
    ((labels, count),) = claims.series
    assert labels == {"allocated": "false", "admin_access": "true", "source": ""}
    assert count == 1


async def test_the_status_is_small() -> None:
    """Versions, claims, and created claims that are not in the cache (RC-15)."""
    cluster = ClaimCluster(pod(), template(), group(), claim("c"), **GROUPS)
    await cluster.sync("pod", "p")
    assert cluster.controller.kcm_status(cluster.view) == {
        "apiVersion": "resource.k8s.io/v1",
        "podGroups": "scheduling.k8s.io/v1beta1",
        "claims": 1,
        "createdAndNotSeen": 1,
    }
    cluster.deliver_events()
    assert cluster.controller.kcm_status(cluster.view)["createdAndNotSeen"] == 0


def test_claims_are_kept_whole_and_nothing_else() -> None:
    """Only they are written back as a whole (section 10)."""
    cluster = ClaimCluster(**GROUPS)
    whole = {resource for resource, watch in cluster.watches.items() if watch.full_object}
    assert whole == {"resourceclaims"}


OBJECT = Key("a", "ns")


@pytest.mark.parametrize("workload_claims", [False, True])
def test_pods_claims_and_groups_with_claims_are_resynced(*, workload_claims: bool) -> None:
    """A sync of a PodGroup would make claims, so none is resynced without the switch (F-52)."""
    settings = ClaimSettings(genericWorkload=True, workloadClaims=workload_claims)
    api = api_for_version("v1", settings, POD_GROUPS[0])
    found = {
        watch.kind: watch.resync(OBJECT).kind if watch.resync is not None else ""
        for watch in watches_for(api, EnqueueHandlers(api, State()))
    }
    assert found == {
        POD: "pod",
        api.claims: "claim",
        api.templates: "",
        POD_GROUPS[0]: "podgroup" if workload_claims else "",
    }
