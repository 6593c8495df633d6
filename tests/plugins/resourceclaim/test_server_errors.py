"""Claims that cannot be made on a real server: the Events that users read, and the retries."""

import json
from typing import Any

import pytest
from eventually import eventually
from plugins.resourceclaim.objects import by_name, by_template
from plugins.resourceclaim.server_claims import WatchedClaims, consumer

from kcm_host_testing.faults import Answer, Cut, Fault, Stall

CREATE, RECORD, STATUS = "POST resourceclaims", "PATCH pods/status", "PUT resourceclaims/status"
JSON = {"Content-Type": "application/json"}
BROKEN = Answer(500, b"{}", JSON)


def waits(claims: WatchedClaims, key: str) -> list[str]:
    """Return the waits that the host announced after failures of one key."""
    return [line["retry_in"] for line in claims.host.log("sync failed", key=key)]


def test_a_missing_template_is_reported_and_waited_for(claims: WatchedClaims) -> None:
    """An event on the pod; the claim is made as soon as the template is there (T-6, T-21, T-66)."""
    claims.template("there")
    pod = claims.pod("p", by_template("a", "there"), by_template("b", "late"))
    events = eventually(lambda: claims.all("events"), "an event is there")
    (event,) = events[:1]
    assert event["message"] == (
        'PodResourceClaim b: resource claim template "late": '
        'resourceclaimtemplate.resource.k8s.io "late" not found'
    )
    assert (event["type"], event["reason"]) == ("Warning", "FailedResourceClaimCreation")
    assert event["source"]["component"] == "resource_claim"
    assert event["involvedObject"]["uid"] == pod["metadata"]["uid"]
    assert claims.recorded() == {}
    claims.template("late")
    claims.made(entries=2)
    claims.wait_until_idle()
    assert claims.writes() == [CREATE, CREATE, RECORD]


def test_refused_creations_are_reported_in_the_servers_words(claims: WatchedClaims) -> None:
    """And counted; when the reason is gone the claim is made (T-22, RC-70, RC-75)."""
    refusal = "the way is closed"
    status = {"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden"}
    body = json.dumps(status | {"message": refusal}).encode()
    failures = failed(claims)
    path = f"{claims.namespace}/resourceclaims$"
    closed = claims.proxy.add(Answer(403, body, JSON), method="POST", path=path)
    claims.template()
    claims.pod()
    eventually(
        lambda: f"PodResourceClaim res: create ResourceClaim : {refusal}" in claims.events(),
        "an Event is written",
    )
    closed.remove()
    claims.made()
    tries = len([one for one in claims.writes() if one == CREATE])
    assert failed(claims) - failures == tries - 1 >= 1


def failed(claims: WatchedClaims) -> float:
    """Return how many creations failed since the host began."""
    name = "dynamic_resource_allocation_resourceclaim_creates_total"
    labels = 'admin_access="false",owner_api_group="",owner_api_kind="Pod",status="failure"'
    return claims.host.metrics().get(f"{name}{{{labels}}}", 0.0)


def test_a_failed_apply_makes_no_second_claim(claims: WatchedClaims) -> None:
    """The claim is found, even while the watch does not show it (T-11, T-23, RC-15, RC-71)."""
    claims.wait_until_idle()
    claims.proxy.add(BROKEN, method="PATCH", path=f"{claims.namespace}/pods/p/status", times=2)
    with claims.hidden("resourceclaims"):
        claims.template()
        claims.pod()
        name = claims.made()["res"]
    claims.wait_until_idle()
    assert claims.writes() == [CREATE, RECORD, RECORD, RECORD]
    assert claims.names() == {"marker", name}
    assert claims.events() == []
    assert waits(claims, f"pod:{claims.namespace}/p") == ["0.005s", "0.01s"]


def test_failures_are_retried_with_growing_waits(claims: WatchedClaims) -> None:
    """After 5, 10, 20 ms; success resets this, and the next failure waits 5 ms (T-81, RC-33)."""
    claims.claim()
    pod = claims.pod("p", by_name(), node="n")
    path = f"{claims.namespace}/resourceclaims/c/status"
    claims.proxy.add(BROKEN, method="PUT", path=path, times=3)
    claims.allocate("c", consumer(pod))
    claims.phase("p", "Succeeded")
    claims.wait_until_idle()
    key = f"claim:{claims.namespace}/c"
    assert waits(claims, key) == ["0.005s", "0.01s", "0.02s"]
    again = claims.pod("q", by_name(), node="n")
    claims.allocate("c", consumer(again))
    claims.proxy.add(BROKEN, method="PUT", path=path, times=1)
    claims.phase("q", "Failed")
    claims.wait_until_idle()
    assert waits(claims, key)[3:] == ["0.005s"]


def test_a_conflict_leads_to_a_sync_with_the_newer_claim(claims: WatchedClaims) -> None:
    """Nothing is overwritten, and no event is made of it (T-30, RC-33, RC-71)."""
    claims.claim()
    one, two = (claims.pod(name, by_name(), node="n") for name in ("one", "two"))
    claims.allocate("c", consumer(one), consumer(two))
    claims.wait_until_idle()
    with claims.hidden("resourceclaims"):
        claims.change("resourceclaims", "c", metadata={"labels": {"new": "label"}})
        claims.phase("one", "Succeeded")
        eventually(lambda: claims.requests("PUT"), "it is tried with what is known")
    claims.wait_until_idle()
    *refused, taken = [one.status for one in claims.requests("PUT")]
    assert set(refused) == {409}
    assert taken == 200
    assert claims.consumers("c") == ["two"]
    assert claims.get("resourceclaims", "c")["metadata"]["labels"] == {"new": "label"}
    assert claims.events() == []


def test_a_recorded_claim_that_only_the_server_knows_is_enough(claims: WatchedClaims) -> None:
    """One GET, nothing written (T-9, RC-36)."""
    claims.wait_until_idle()
    mark = {"resource.kubernetes.io/pod-claim-name": "res"}
    record: Any = {"name": "res", "resourceClaimName": "mine"}
    with claims.hidden("resourceclaims"):
        with claims.hidden("pods"):
            claims.claim("mine", owner=claims.pod(), annotations=mark)
            claims.change("pods", "p", part="status", status={"resourceClaimStatuses": [record]})
        eventually(lambda: claims.requests("GET"), "the server is asked for the claim")
    claims.wait_until_idle()
    assert claims.writes() == []
    assert {one.path.rpartition("/")[2] for one in claims.requests("GET")} == {"mine"}


def test_a_recorded_claim_of_somebody_else_is_replaced(claims: WatchedClaims) -> None:
    """The foreign one is left as it is (T-8, T-33, RC-36)."""
    claims.template()
    other = claims.pod("other")
    claims.made("other")
    claims.claim("foreign", owner=other)
    pod = claims.pod("p", by_template("res", "none-yet"))
    record: Any = {"name": "res", "resourceClaimName": "foreign"}
    claims.change("pods", "p", part="status", status={"resourceClaimStatuses": [record]})
    claims.template("none-yet")
    claims.wait_until_idle()
    name = claims.recorded()["res"]
    assert name != "foreign"
    (owner,) = claims.get("resourceclaims", name)["metadata"]["ownerReferences"]
    assert owner["uid"] == pod["metadata"]["uid"]
    assert "foreign" in claims.names()


def test_claims_with_admin_access_are_made_where_the_server_allows_them(
    claims: WatchedClaims,
) -> None:
    """The namespace's label is the server's business (T-4, section 10.1)."""
    claims.label({"resource.kubernetes.io/admin-access": "true"})
    claims.template(admin=True)
    claims.pod()
    made = claims.get("resourceclaims", claims.made()["res"])
    assert made["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] is True
    name = "dynamic_resource_allocation_resource_claims"
    labels = 'admin_access="true",allocated="false",source="resource_claim_template"'
    assert claims.host.metrics()[f"{name}{{{labels}}}"] == 1


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


PAGE = b"<html>no route to http://bob:S3CRET@proxy.example:3128/</html>"


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
