"""The requests of the controller on a real server: their content, owners, number and order."""

from typing import Any

import pytest
from eventually import eventually
from plugins.resourceclaim.objects import by_name
from plugins.resourceclaim.server_claims import WatchedClaims, bodies, consumer

from kcm_host_resourceclaim.models.claim import FINALIZER
from kcm_host_testing.faults import Answer, Cut, Fault, Stall

CREATE, RECORD = "POST resourceclaims", "PATCH pods/status"
PAGE = b"<html>no route to http://bob:S3CRET@proxy.example:3128/</html>"


def test_only_declared_permissions_are_used(claims: WatchedClaims) -> None:
    """The requests of the catalogue, to the letter (section 10, RC-42, RC-44, RC-58)."""
    claims.template()
    pod = claims.pod()
    name = claims.made()["res"]
    claims.allocate(name, consumer(pod))
    claims.bind()
    claims.wait_until_idle()
    claims.phase("p", "Failed")
    claims.wait_until_idle()
    post, apply, status, main, delete = claims.requests()
    made, names, released, freed, gone = bodies(claims.requests())
    assert made["spec"] == claims.get("resourceclaimtemplates", "t")["spec"]["spec"]
    assert set(made) == {"apiVersion", "kind", "metadata", "spec"}
    assert set(made["metadata"]) == {"generateName", "annotations", "ownerReferences"}
    assert "fieldManager" not in post.query
    assert apply.query == {"fieldManager": "ResourceClaimController", "force": "true"}
    assert apply.headers["content-type"] == "application/apply-patch+yaml"
    assert names == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": claims.namespace},
        "status": {"resourceClaimStatuses": [{"name": "res", "resourceClaimName": name}]},
    }
    assert released["metadata"]["resourceVersion"]
    assert released["status"] == {}
    assert released["metadata"]["finalizers"] == [FINALIZER]
    assert "finalizers" not in freed["metadata"] or freed["metadata"]["finalizers"] == []
    assert (status.query, main.query, delete.query, gone) == ({}, {}, {}, None)


def test_the_server_names_the_host_as_manager(claims: WatchedClaims) -> None:
    """Of what it creates and updates; the records have a manager of their own (Difference t)."""
    claims.template()
    pod = claims.pod(node="n")
    name = claims.made()["res"]
    claims.allocate(name)
    claims.wait_until_idle()
    assert claims.consumers(name) == [pod["metadata"]["name"]]
    managed = claims.get("resourceclaims", name)["metadata"]["managedFields"]
    ours = {(one["operation"], one.get("subresource")) for one in managed if is_ours(one)}
    assert ours == {("Update", None), ("Update", "status")}
    assert not [one for one in claims.get("pods", "p")["metadata"]["managedFields"] if is_ours(one)]


def is_ours(managed: Any) -> bool:
    """Return whether the host is named as manager."""
    return bool(managed["manager"] == "kcm-host")


def test_many_pods_cost_two_writes_each(claims: WatchedClaims) -> None:
    """No claim is made twice, no sync is for nothing; then three writes each (RC-3, D-1)."""
    claims.template()
    before = claims.wait_until_idle()["syncs"]
    pods = [claims.pod(f"p{number}") for number in range(60)]
    state = claims.wait_until_idle()
    assert sorted(claims.writes()) == sorted([CREATE, RECORD] * len(pods))
    assert state["syncs"] - before == len(pods)
    assert state["workers"] == 50
    for pod in pods:
        name = pod["metadata"]["name"]
        claims.allocate(claims.recorded(name)["res"], consumer(pod))
        claims.bind(name)
    claims.wait_until_idle()
    for pod in pods:
        claims.phase(pod["metadata"]["name"], "Succeeded")
    claims.wait_until_idle()
    assert len(claims.writes()) == 5 * len(pods)
    assert claims.names() == {"marker"}


def test_a_claim_is_never_synced_twice_at_a_time(claims: WatchedClaims) -> None:
    """What changes during a sync is found by the one after it (RC-32)."""
    claims.claim()
    pods = [claims.pod(name, by_name(), node="n") for name in ("one", "two", "three")]
    claims.allocate("c", *map(consumer, pods))
    claims.wait_until_idle()
    held = claims.proxy.add(Stall(), method="PUT", path=f"{claims.namespace}/resourceclaims/c/")
    claims.phase("one", "Failed")
    held.wait_until_hit()
    claims.phase("two", "Failed")
    claims.host.wait_until_seen("pods", claims.touch())
    assert len(claims.requests("PUT")) == 1
    held.remove()
    claims.wait_until_idle()
    assert [one.status for one in claims.requests("PUT")] == [200, 200]
    assert claims.consumers("c") == ["three"]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Answer(502, PAGE), "the API server did not answer as expected, but with status 502"),
        (Cut(), "the API server did not answer"),
    ],
    ids=["page of a proxy", "no answer"],
)
def test_events_carry_no_texts_of_the_transport(
    claims: WatchedClaims, fault: Fault, message: str
) -> None:
    """F-2: an Event reports the failure, without addresses and without passwords."""
    path = f"{claims.namespace}/resourceclaims$"
    broken = claims.proxy.add(fault, method="POST", path=path)
    claims.template()
    claims.pod()
    eventually(
        lambda: f"PodResourceClaim res: create ResourceClaim : {message}" in claims.events(),
        "an Event is written",
    )
    broken.remove()
    claims.made()
    assert not any("proxy.example" in text or "127.0.0.1" in text for text in claims.events())
