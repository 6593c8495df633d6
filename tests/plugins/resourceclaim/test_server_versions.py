"""Servers that serve other versions, or other features, than those of today."""

import json
from collections.abc import Callable
from typing import Any

from eventually import eventually
from plugins.resourceclaim.server_claims import (
    DISCOVERY,
    Claims,
    WatchedClaims,
    claims_host,
    consumer,
)
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import Answer
from kcm_host_testing.proxy import FaultProxy

OLD = {"resource.k8s.io/v1": False, "resource.k8s.io/v1beta1": True}
GROUP_GATES = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}
GROUPS: Any = {"genericWorkload": True, "workloadClaims": True}
CREATE, RECORD = "POST resourceclaims", "PATCH pods/status"
STATUS, MAIN, DELETE = (
    "PUT resourceclaims/status",
    "PUT resourceclaims",
    "DELETE resourceclaims",
)


def test_an_old_server_is_served_in_its_own_version(
    own_api_server: Callable[..., ApiServer],
) -> None:
    """Watched, created and released as v1beta1, with its admin access (T-83, RC-85, RC-87)."""
    server = own_api_server(runtime_config=OLD)
    with claims_host(server, version="v1beta1", adminAccess=False) as begin:
        claims = begin()
        label = {"resource.kubernetes.io/admin-access": "true"}
        claims.label(label)
        claims.template("plain", flat=True)
        claims.template("admin", flat=True, admin=True)
        pod = claims.pod("p", {"name": "res", "resourceClaimTemplateName": "plain"})
        claims.pod("q", {"name": "res", "resourceClaimTemplateName": "admin"})
        name = claims.made("p")["res"]
        text = "PodResourceClaim res: admin access is requested, but the feature is disabled"
        eventually(lambda: text in claims.events(), "the refusal is reported")
        claims.allocate(name, consumer(pod))
        claims.host.wait_until_seen("resourceclaims", claims.version_of(name))
        claims.phase("p", "Succeeded")
        eventually(lambda: name not in claims.names(), "the claim is gone")
        assert claims.writes() == [CREATE, RECORD, STATUS, MAIN, DELETE]
        assert {"/v1beta1/" in one.path for one in claims.requests() if "claims" in one.path} == {
            True
        }


def test_a_server_without_claims_is_waited_for(own_api_server: Callable[..., ApiServer]) -> None:
    """The controller idles and begins without a restart of the host (T-84, RC-2, RC-86)."""
    server = own_api_server()
    claims = Claims(server)
    claims.template()
    claims.pod()
    with FaultProxy(server) as proxy:
        body = json.dumps(claims.discovery()).replace("resource.k8s.io", "hidden.k8s.io")
        # Not rewritten on its way: the entity tag would be that of the true answer.
        answer = Answer(200, body.encode(), {"Content-Type": DISCOVERY})
        hidden = proxy.add(answer, path="^/apis$")
        config: Any = {"controllers": {"resourceclaim": {}}}
        with RunningHost(config, kubeconfig=proxy.kubeconfig()) as host:
            assert host.controller("resourceclaim")["status"] == {"apiVersion": None}
            assert claims.recorded() == {}
            hidden.remove()
            made = eventually(claims.recorded, "the claim is made", timeout_seconds=60)
            assert claims.names() == set(made.values())


def test_groups_and_their_pods_share_claims(own_api_server: Callable[..., ApiServer]) -> None:
    """Made for the group, recorded for both, reserved once (T-70 to T-75, T-79, RC-50 to RC-56)."""
    server = own_api_server(
        feature_gates=GROUP_GATES, runtime_config={"scheduling.k8s.io/v1alpha2": True}
    )
    with claims_host(server, **GROUPS) as begin:
        claims = begin()
        for name in ("shared", "also", "mine"):
            claims.template(name)
        names = make_group(claims)
        assert {claims.owner(name)["kind"] for name in names.values()} == {"PodGroup"}
        pods = make_members(claims, names)
        live_and_end(claims, pods, names)


SHARED = {"name": "a", "resourceClaimTemplateName": "shared"}
ALSO = {"name": "b", "resourceClaimTemplateName": "also"}
MINE = {"name": "c", "resourceClaimTemplateName": "mine"}


def make_group(claims: WatchedClaims) -> dict[str, str]:
    """Return a group its two claims; a lost one is made again, and the other stays recorded."""
    claims.group("g", SHARED, ALSO)
    first = eventually(lambda: claims.recorded("g", of="podgroups"), "the group has its claims")
    assert claims.writes() == [CREATE, CREATE, "PATCH podgroups/status"]
    claims.delete("resourceclaims", first["a"])
    claims.wait_until_idle()
    second = claims.recorded("g", of="podgroups")
    assert second["b"] == first["b"], "T-94, D-7"
    assert second["a"] != first["a"]
    assert claims.names() == {*second.values(), "marker"}
    return second


def make_members(claims: WatchedClaims, names: dict[str, str]) -> list[str]:
    """Make two pods of the group; one has an entry of its own."""
    member: Any = {"schedulingGroup": {"podGroupName": "g"}}
    claims.pod("one", SHARED, ALSO, **member)
    claims.pod("two", SHARED, MINE, **member)
    claims.wait_until_idle()
    assert claims.recorded("one") == names, "T-72"
    own = claims.recorded("two")
    assert own["a"] == names["a"]
    assert claims.owner(own["c"])["kind"] == "Pod", "T-73"
    return ["one", "two"]


def live_and_end(claims: WatchedClaims, pods: list[str], names: dict[str, str]) -> None:
    """The shared claim is reserved for the group once, and free when the group is gone."""
    claims.allocate(names["a"])
    for name in pods:
        claims.bind(name)
    claims.wait_until_idle()
    assert claims.consumers(names["a"]) == ["g"], "T-74"
    for name in pods:
        claims.phase(name, "Succeeded")
    claims.wait_until_idle()
    assert claims.consumers(names["a"]) == ["g"]
    assert set(names.values()) <= claims.names(), "T-80"
    claims.change("podgroups", "g", metadata={"finalizers": None})
    claims.delete("podgroups", "g")
    claims.wait_until_idle()
    found = claims.get("resourceclaims", names["a"])
    assert found.get("status", {}) == {}, "T-75"
    assert "finalizers" not in found["metadata"]
