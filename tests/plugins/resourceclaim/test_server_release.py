"""Claims on a real server: what releases them, and what users are told when none is made."""

import pytest
from eventually import eventually
from plugins.resourceclaim.server_claims import DELETE, MAIN, STATUS, WatchedClaims, consumer

from kcm_host_testing.faults import Answer, Cut, Fault

PAGE = b"<html>no route to http://bob:S3CRET@proxy.example:3128/</html>"


def test_a_consumer_that_does_not_name_the_claim_releases_it(claims: WatchedClaims) -> None:
    """F-50: a deleted claim is removed when its last consumer has ended, in any way."""
    pod = claims.plain_pod("p")
    claims.claim()
    claims.allocate("c", consumer(pod))
    claims.delete("resourceclaims", "c")
    claims.wait_until_idle()
    assert claims.writes() == []
    claims.phase("p", "Succeeded")
    claims.wait_until_idle()
    assert claims.writes() == [STATUS, MAIN]
    assert "c" not in claims.names()


def test_a_namesake_ends_the_claim_of_its_predecessor(claims: WatchedClaims) -> None:
    """F-51: an allocated claim with a finalizer is deleted when the next pod p is created."""
    pod = claims.plain_pod("p")
    claims.claim(owner=pod)
    claims.allocate("c")
    claims.wait_until_idle()
    claims.delete("pods", "p")
    claims.wait_until_idle()
    assert claims.writes() == []
    claims.plain_pod("p")
    claims.wait_until_idle()
    assert claims.writes() == [DELETE, STATUS, MAIN]
    assert "c" not in claims.names()


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
