"""Claims on a real server that nothing but the claim itself leads to."""

from plugins.resourceclaim.server_claims import WatchedClaims, consumer

STATUS, MAIN, DELETE = (
    "PUT resourceclaims/status",
    "PUT resourceclaims",
    "DELETE resourceclaims",
)


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
