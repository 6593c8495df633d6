"""Servers that serve other versions, or other features, than those of today."""

import json
from collections.abc import Callable
from typing import Any

from eventually import eventually
from plugins.resourceclaim.server_claims import (
    CREATE,
    DELETE,
    DISCOVERY,
    MAIN,
    RECORD,
    STATUS,
    Claims,
    claims_host,
    consumer,
)
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import Answer
from kcm_host_testing.proxy import FaultProxy

OLD = {"resource.k8s.io/v1": False, "resource.k8s.io/v1beta1": True}


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
        version = claims.get("resourceclaims", name)["metadata"]["resourceVersion"]
        claims.host.wait_until_seen("resourceclaims", version)
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
