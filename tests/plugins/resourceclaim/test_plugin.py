"""The hooks: versions, permissions, workers, metrics and the keys of the periodic resync."""

from typing import Any

import pytest
from plugins.resourceclaim.claim_cluster import GROUPS, ClaimCluster
from plugins.resourceclaim.objects import claim, group, pod, template
from plugins.tables import row
from pydantic import ValidationError

from kcm_host.api import Key, Kind, Metric, Resource
from kcm_host_resourceclaim import ResourceClaims
from kcm_host_resourceclaim.api_version import VERSIONS, api_for_version, newest_served_api
from kcm_host_resourceclaim.cache import State
from kcm_host_resourceclaim.enqueue import EnqueueHandlers
from kcm_host_resourceclaim.events_metrics import ReconcileError
from kcm_host_resourceclaim.models.pod import POD, POD_GROUPS
from kcm_host_resourceclaim.plugin import watches_for
from kcm_host_resourceclaim.settings import ClaimSettings

DEFAULTS = ClaimSettings()
CLAIMS, TEMPLATES = "resourceclaims", "resourceclaimtemplates"


class Served:
    """A server of kinds in several versions, which no harness converts: `v1/resourceclaims`."""

    def __init__(self, *served: str) -> None:
        self._served = served

    def serves(self, kind: Kind) -> bool:
        return f"{kind.version}/{kind.resource}" in self._served

    def first_served(self, *kinds: Kind) -> Kind | None:
        return next(filter(self.serves, kinds), None)

    def resources(self) -> list[Resource]:
        raise NotImplementedError("the controller asks for kinds by name")


ALL = [f"{version}/{kind}" for version in VERSIONS for kind in (CLAIMS, TEMPLATES)]
ALL_GROUPS = [f"{version}/podgroups" for version in ("v1alpha2", "v1alpha3", "v1beta1")]


@pytest.mark.parametrize(
    ("served", "used"),
    [
        row("newest", ALL, "v1"),
        row("one must serve claims and templates", ALL[1:], "v1beta2"),
        row("oldest", [f"v1alpha3/{CLAIMS}", *ALL[4:]], "v1beta1"),
        row("none", [f"v1alpha3/{CLAIMS}", f"v1alpha3/{TEMPLATES}"], None),
    ],
)
def test_the_newest_supported_version_is_used(served: list[str], used: str | None) -> None:
    """One that serves both claims and templates (RC-85)."""
    api = newest_served_api(DEFAULTS, Served(*served))
    assert (api and (api.claims.version, api.templates.version)) == (used and (used, used))


def test_without_any_version_nothing_is_followed() -> None:
    """The controller idles, and status and metrics say so (T-84, RC-86)."""
    cluster = ClaimCluster(claims="")
    assert cluster.status() == {"apiVersion": None}
    assert cluster.series("resource_claims") == {}


def test_an_old_version_is_written_as_it_is_read() -> None:
    """The claim is made in the version in use, and refused by its own fields (T-83, RC-41)."""
    asks = template(admin=True, flat=True)
    cluster = ClaimCluster(pod(), asks, claims="v1beta1", adminAccess=False)
    with pytest.raises(ReconcileError, match="admin access"):
        cluster.sent_by("pod", "p")
    cluster.place(template(flat=True))
    assert cluster.sent_by("pod", "p") == ["create resourceclaims", "apply pods/status"]
    assert cluster.writes[0].body["apiVersion"] == "resource.k8s.io/v1beta1"


@pytest.mark.parametrize(
    ("served", "switches", "version"),
    [
        row("1.36", ALL_GROUPS[:1], GROUPS, "v1alpha2"),
        row("newest", ALL_GROUPS, GROUPS, "v1beta1"),
        row("switched off", ALL_GROUPS, {}, None),
        row("not served", ["v1/podgroups"], GROUPS, None),
    ],
)
def test_the_version_of_groups(served: list[str], switches: Any, version: str | None) -> None:
    """The first that is served; none leaves the features off (RC-88)."""
    api = newest_served_api(ClaimSettings.model_validate(switches), Served(*ALL, *served))
    assert api is not None
    assert (api.groups and api.groups.version) == version
    assert api.workload_claims is (version is not None)


CLAIM_VERBS = {
    *(("resourceclaims", verb, "") for verb in ("get", "create", "update", "delete")),
    *(("resourceclaims", "update", part) for part in ("status", "binding")),
}
OTHER_VERBS = {
    *(("pods", "get", ""), ("pods", "patch", "status")),
    *(("events", "create", ""), ("events", "patch", "")),
}
GROUP_VERBS = {("podgroups", "get", ""), ("podgroups", "patch", "status")}


@pytest.mark.parametrize(
    ("switches", "expected"),
    [
        row("default", {}, CLAIM_VERBS | OTHER_VERBS),
        row("lookups", {"genericWorkload": True}, CLAIM_VERBS | OTHER_VERBS),
        row("group claims", GROUPS, CLAIM_VERBS | OTHER_VERBS | GROUP_VERBS),
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
    assert cluster.series("resource_claims") == {
        ("true", "false", "resource_claim_template"): 1,
        ("false", "false", "resource_claim_template"): 2,
        ("true", "false", "extended_resource"): 1,
        ("false", "false", ""): 1,
    }


def test_metrics_have_the_names_of_the_newest_release() -> None:
    """Both exist from the start, with the labels of the reference (RC-75, RC-76)."""
    cluster = ClaimCluster(pod(), template(admin=True))
    assert [each.series for each in cluster.metrics()] == [(), ()]
    cluster.run_until_idle()
    prefix = "dynamic_resource_allocation_resource"
    owner = {"owner_api_group": "", "owner_api_kind": "Pod"}
    source = "resource_claim_template"
    assert list(cluster.metrics()) == [
        Metric(
            name=f"{prefix}claim_creates_total",
            help="Number of ResourceClaims creation requests, by result and owner.",
            type="counter",
            series=(({"status": "success", "admin_access": "true", **owner}, 1),),
        ),
        Metric(
            name=f"{prefix}_claims",
            help="Number of ResourceClaims, by allocation, admin access and source.",
            type="gauge",
            series=(({"allocated": "false", "admin_access": "true", "source": source}, 1),),
        ),
    ]


def test_the_status_is_small() -> None:
    """Versions, claims, and created claims that are not in the cache (RC-15)."""
    cluster = ClaimCluster(pod(), template(), group(), claim("c"), **GROUPS)
    shown = {
        "apiVersion": "resource.k8s.io/v1",
        "podGroups": "scheduling.k8s.io/v1beta1",
        "claims": 1,
    }
    with cluster.disconnected():
        cluster.sent_by("pod", "p")
        assert cluster.status() == {**shown, "createdAndNotSeen": 1}
    assert cluster.status() == {**shown, "claims": 2, "createdAndNotSeen": 0}


OBJECT = Key("a", "ns")


@pytest.mark.parametrize("workload_claims", [False, True])
def test_pods_claims_and_groups_with_claims_are_resynced(*, workload_claims: bool) -> None:
    """A sync of a PodGroup would make claims, so none is resynced without the switch (F-52)."""
    settings = ClaimSettings(generic_workload=True, workload_claims=workload_claims)
    api = api_for_version("v1", settings, POD_GROUPS[0])
    watches = watches_for(api, EnqueueHandlers(api, State()))
    found = {
        watch.kind: str(watch.resync(OBJECT)) if watch.resync is not None else ""
        for watch in watches
    }
    assert found == {
        POD: "pod:ns/a",
        api.claims: "claim:ns/a",
        api.templates: "",
        POD_GROUPS[0]: "podgroup:ns/a" if workload_claims else "",
    }
    full = [watch.kind for watch in watches if watch.full_object]
    assert full == [api.claims], "only they are written back as a whole (section 10)"
    assert all(watch.indexes for watch in watches[3:]) is workload_claims
