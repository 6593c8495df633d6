"""Trouble between the host and the server is not told to the users of a namespace."""

import pytest
from eventually import eventually
from plugins.resourceclaim.claims_on_server import WatchedClaims

from kcm_host_testing.faults import Answer, Cut, Fault

PAGE = b"<html>no route to http://bob:S3CRET@proxy.example:3128/</html>"


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (Answer(502, PAGE), "the API server did not answer as expected, but with status 502"),
        (Cut(), "the API server did not answer"),
    ],
    ids=["page of a proxy", "no answer"],
)
def test_events_carry_no_texts_of_the_transport(
    claims: WatchedClaims, fault: Fault, told: str
) -> None:
    """F-2: an Event says that there is trouble, without addresses and without passwords."""
    path = f"{claims.namespace}/resourceclaims$"
    broken = claims.proxy.add(fault, method="POST", path=path)
    claims.template()
    claims.pod()
    eventually(
        lambda: f"PodResourceClaim res: create ResourceClaim : {told}" in claims.events(),
        "users are told",
    )
    broken.remove()
    claims.made()
    assert not any("proxy.example" in text or "127.0.0.1" in text for text in claims.events())
