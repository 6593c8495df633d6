"""Claims and templates with unusual contents that a tenant creates on a real server."""

import json
from typing import Any

import pytest
from eventually import eventually
from kubernetes import client
from plugins.granted_roles import let_create
from plugins.resourceclaim.objects import by_name, by_template, claim_spec
from plugins.resourceclaim.server_claims import MAIN, STATUS, Claims, WatchedClaims

from kcm_host_resourceclaim.models.claim import FINALIZER

TENANT = "nobody"
#: Deeper than most encoders go (254), and still what the host can decode.
DEEP = 400


def nested(depth: int) -> Any:
    """Return parameters of a driver that are nested so deep."""
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


def compact(body: Any) -> str:
    """Return JSON as the server writes it: it can only take back what has no other text."""
    return json.dumps(body, separators=(",", ":"))


def too_deep(metadata: Any, *, template: bool = False) -> str:
    """Return a claim or template that no decoder of the host reads."""
    depth = 1700
    spec = compact(opaque("HERE")).replace('"HERE"', '{"a":' * depth + "1" + "}" * depth)
    spec = f'{{"spec":{spec}}}' if template else spec
    return f'{{"metadata":{compact(metadata)},"spec":{spec}}}'


def opaque(parameters: Any) -> dict[str, Any]:
    """Return the spec of a claim with parameters for a driver."""
    config = {"opaque": {"driver": "d.example", "parameters": parameters}}
    devices = claim_spec()["devices"]
    return {"devices": {**devices, "config": [config]}}


def tenant(claims: WatchedClaims) -> Claims:
    """Return the namespace with a user who may only create claims and templates in it."""
    resources = ["resourceclaims", "resourceclaimtemplates"]
    let_create(claims.server, TENANT, namespace=claims.namespace, resources=resources)
    seen = claims.seen_by(TENANT)
    eventually(lambda: _may_create(seen), "the tenant's role is known to the server")
    return seen


def _may_create(seen: Claims) -> bool:
    try:
        seen.create("resourceclaims", {"metadata": {"name": "first"}, "spec": claim_spec()})
    except client.ApiException as error:
        if error.status != 403:
            raise
        return False
    return True


def test_a_deeply_nested_claim_is_released(claims: WatchedClaims) -> None:
    """F-9: its status and finalizer are written, with any parameters of a driver."""
    body = {"metadata": {"name": "c"}, "spec": opaque(nested(DEEP))}
    claims.create_text("resourceclaims", compact(body))
    claims.pod("p", by_name(), node="n")
    claims.allocate("c")
    eventually(lambda: claims.consumers("c") == ["p"], "the pod is added")
    claims.phase("p", "Succeeded")
    claims.wait_until_idle()
    assert claims.writes() == [STATUS, STATUS, MAIN]
    found = claims.get("resourceclaims", "c")
    assert not found["metadata"].get("finalizers")
    assert found["spec"]["devices"]["config"][0]["opaque"]["parameters"] == nested(DEEP)


def test_a_deeply_nested_template_gives_a_claim(claims: WatchedClaims) -> None:
    """F-9: the claim has what the template has, to the last level."""
    body = {"metadata": {"name": "t"}, "spec": {"spec": opaque(nested(DEEP))}}
    claims.create("resourceclaimtemplates", body)
    claims.pod()
    made = claims.get("resourceclaims", claims.made()["res"])
    assert made["spec"]["devices"]["config"][0]["opaque"]["parameters"] == nested(DEEP)


@pytest.mark.parametrize("text", ["1e2", "1.10", r'"\u003c\u0026"', "1" * 30])
def test_parameters_keep_their_text(claims: WatchedClaims, text: str) -> None:
    """F-9: the server compares the bytes of what it calls immutable, and refuses other ones."""
    body = {"metadata": {"name": "c", "finalizers": [FINALIZER]}, "spec": opaque({"a": "HERE"})}
    claims.create_text("resourceclaims", compact(body).replace('"HERE"', text))
    claims.delete("resourceclaims", "c")
    claims.wait_until_idle()
    assert claims.writes() == [MAIN]
    assert "c" not in claims.names()


def test_a_tenant_disturbs_nobody(claims: WatchedClaims, begin: Any) -> None:
    """F-9: a user who may only create claims and templates affects only the own namespace."""
    others: WatchedClaims = begin()
    others.template()
    running = others.pod("running")
    others.made("running")
    seen = tenant(claims)
    spec = opaque(nested(DEEP))
    for metadata in ({"name": "deep"}, {"name": "deep-kept", "finalizers": [FINALIZER]}):
        body = compact({"metadata": metadata, "spec": spec})
        seen.create_text("resourceclaims", body)
    seen.create("resourceclaimtemplates", {"metadata": {"name": "t"}, "spec": {"spec": spec}})
    seen.create_text("resourceclaims", too_deep({"name": "deeper"}))
    seen.create_text("resourceclaimtemplates", too_deep({"name": "u"}, template=True))
    # A claim for the pod of somebody else, in another namespace and under another name.
    owner = {"metadata": {"name": "other", "uid": running["metadata"]["uid"]}}
    mark = {"resource.kubernetes.io/pod-claim-name": "res"}
    seen.claim("stolen", owner=owner, annotations=mark, finalizers=[FINALIZER])
    claims.wait_until_idle()
    others.pod("next", by_template())
    others.made("next")
    for name, made in (("running", others.recorded("running")), ("next", others.made("next"))):
        (owner,) = others.get("resourceclaims", made["res"])["metadata"]["ownerReferences"]
        assert owner["name"] == name
    others.phase("running", "Succeeded")
    others.wait_until_idle()
    assert len(others.names()) == 2, "the marker's and that of the pod that goes on"


def test_undecodable_templates_are_reported_to_the_user(claims: WatchedClaims) -> None:
    """F-9: an undecodable template is reported by an Event on the pod."""
    claims.create_text("resourceclaimtemplates", too_deep({"name": "t"}, template=True))
    claims.pod()
    (message,) = eventually(claims.events, "an Event is written")
    assert message.startswith("PodResourceClaim res: ")
    assert "cannot be decoded as" in message
