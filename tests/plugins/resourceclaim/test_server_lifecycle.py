"""The ordinary life of claims on a real server, from the template to the end."""

from typing import Any

import pytest
from plugins.resourceclaim.objects import by_name, by_template
from plugins.resourceclaim.server_claims import WatchedClaims, bodies, consumer

from kcm_host_resourceclaim.models.claim import FINALIZER

CREATE, RECORD = "POST resourceclaims", "PATCH pods/status"
STATUS, MAIN, DELETE = (
    "PUT resourceclaims/status",
    "PUT resourceclaims",
    "DELETE resourceclaims",
)


def test_a_claim_lives_from_its_template_to_the_end(claims: WatchedClaims) -> None:
    """Made, recorded, used, released, deleted: five writes in all (T-1, T-45, T-91, D-1)."""
    labels = {"labels": {"a": "b"}, "annotations": {"x": "y"}}
    claims.template(metadata=labels)
    pod = claims.pod()
    name = claims.made()["res"]
    claims.wait_until_idle()
    assert claims.writes() == [CREATE, RECORD]
    made = claims.get("resourceclaims", name)
    assert made["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "d"
    metadata = made["metadata"]
    assert metadata["generateName"] == "p-res-"
    assert metadata["labels"] == {"a": "b"}
    mark = {"resource.kubernetes.io/pod-claim-name": "res"}
    assert metadata["annotations"] == {"x": "y"} | mark
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "controller": True}
    assert metadata["ownerReferences"] == [owner | {"uid": pod["metadata"]["uid"]}]
    assert "finalizers" not in metadata
    claims.allocate(name, consumer(pod))
    claims.bind()
    claims.phase("p", "Running")
    claims.wait_until_idle()
    assert claims.writes() == [CREATE, RECORD], "T-27, T-34, T-49, T-67"
    claims.phase("p", "Succeeded")
    claims.wait_until_idle()
    assert claims.writes() == [CREATE, RECORD, STATUS, MAIN, DELETE]
    assert name not in claims.names()
    claims.change("pods", "p", part="status", status={"message": "still here"})
    claims.wait_until_idle()
    assert len(claims.writes()) == 5


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


def test_all_entries_are_recorded_by_one_owner(claims: WatchedClaims) -> None:
    """A later apply keeps the earlier names (T-19, T-20, RC-42, Difference a)."""
    claims.template()
    claims.pod("p", by_template("b"), by_template("a"))
    first = claims.made(entries=2)
    claims.wait_until_idle()
    assert claims.writes() == [CREATE, CREATE, RECORD]
    claims.delete("resourceclaims", first["a"])
    claims.wait_until_idle()
    second = claims.recorded()
    assert second["b"] == first["b"], "T-92 beside another entry"
    assert second["a"] != first["a"]
    assert claims.names() == {*second.values(), "marker"}
    managed = claims.get("pods", "p")["metadata"]["managedFields"]
    (ours,) = [one for one in managed if one["manager"] == "ResourceClaimController"]
    entries = ours["fieldsV1"]["f:status"]["f:resourceClaimStatuses"]
    assert set(entries) == {'k:{"name":"a"}', 'k:{"name":"b"}'}


def test_a_pod_with_a_node_is_reserved_when_its_claim_is_allocated(claims: WatchedClaims) -> None:
    """The consumer without group, after those that are there (T-26, T-29, T-61, D-4)."""
    other = claims.pod("other", by_name(), node="n")
    claims.template()
    pod = claims.pod("p", by_name("shared"), by_template(), node="n")
    name = claims.made()["res"]
    claims.claim()
    claims.wait_until_idle()
    assert claims.writes() == [CREATE, RECORD], "T-24, T-28, and no error on the way"
    claims.allocate("c", consumer(other))
    claims.allocate(name)
    claims.wait_until_idle()
    assert claims.writes() == [CREATE, RECORD, STATUS, STATUS]
    assert claims.consumers("c") == ["other", "p"]
    (found,) = claims.get("resourceclaims", name)["status"]["reservedFor"]
    assert found == consumer(pod)
    sync_errors = claims.host.log("sync failed", key=f"pod:{claims.namespace}/p")
    assert sync_errors == []


def test_an_ended_pod_is_not_reserved_again(claims: WatchedClaims) -> None:
    """While others keep the shared claim: one write, then silence (T-42, T-90, D-1, Q-1)."""
    claims.claim()
    one = claims.pod("one", by_name(), node="n")
    two = claims.pod("two", by_name(), node="n")
    claims.allocate("c", consumer(one), consumer(two))
    claims.wait_until_idle()
    claims.phase("one", "Succeeded")
    claims.wait_until_idle()
    assert claims.writes() == [STATUS]
    assert claims.consumers("c") == ["two"]
    assert "allocation" in claims.get("resourceclaims", "c")["status"]


def test_deleted_pods_leave_their_claims_to_the_garbage_collector(claims: WatchedClaims) -> None:
    """Released, but not deleted: two writes (T-36, T-37, T-48, RC-62)."""
    claims.template()
    pod = claims.pod(node="n")
    name = claims.made()["res"]
    claims.allocate(name, consumer(pod))
    claims.wait_until_idle()
    claims.delete("pods", "p")
    claims.wait_until_idle()
    assert claims.writes() == [CREATE, RECORD, STATUS, MAIN]
    found = claims.get("resourceclaims", name)
    assert "finalizers" not in found["metadata"]
    assert found.get("status", {}) == {}
    assert not [one for one in claims.requests("GET") if "/pods/p" in one.path]


def test_a_pod_being_deleted_on_a_node_keeps_its_claim(claims: WatchedClaims) -> None:
    """Until its node says that it has ended (T-51, T-57)."""
    claims.template()
    pod = claims.pod(node="n")
    name = claims.made()["res"]
    claims.allocate(name, consumer(pod))
    claims.wait_until_idle()
    claims.delete("pods", "p", grace_seconds=30)
    claims.wait_until_idle()
    assert claims.consumers(name) == ["p"]
    claims.phase("p", "Failed")
    claims.wait_until_idle()
    assert name not in claims.names()
    assert claims.writes() == [CREATE, RECORD, STATUS, MAIN, DELETE]


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


def test_extended_resources_release_their_claim(claims: WatchedClaims) -> None:
    """Its owner is the pod, which names it in its status alone (T-58, T-63, RC-19)."""
    pod = claims.plain_pod("p", **{"example.com/d": "1"})
    marks = {"resource.kubernetes.io/extended-resource-claim": "true"}
    claims.claim("extended", owner=pod, annotations=marks)
    claims.allocate("extended", consumer(pod))
    request = {"containerName": "c", "resourceName": "example.com/d", "requestName": "r"}
    status: Any = {"resourceClaimName": "extended", "requestMappings": [request]}
    claims.change("pods", "p", part="status", status={"extendedResourceClaimStatus": status})
    claims.wait_until_idle()
    assert claims.writes() == []
    claims.phase("p", "Succeeded")
    claims.wait_until_idle()
    assert claims.writes() == [STATUS, MAIN, DELETE]


@pytest.mark.parametrize("length", [30, 40, 200])
def test_long_names_are_accepted(claims: WatchedClaims, length: int) -> None:
    """The server takes the shortened base and appends to it (T-31, RC-45)."""
    claims.template()
    claims.pod("p" * length, by_template("e" * 25))
    name = claims.made("p" * length)["e" * 25]
    assert len(name) <= 63
    assert name.startswith("ppp")


def test_a_short_pod_with_a_long_entry_gets_a_claim(claims: WatchedClaims) -> None:
    """The reference's name for it would be refused for ever (Q-13, D-12)."""
    claims.template()
    entry = "e" * 60
    claims.pod("p", by_template(entry))
    assert claims.made("p")[entry].startswith("p-eee")
