"""Claims that lose their consumers on a real server, in all their forms."""

from typing import Any

import pytest
from eventually import eventually
from plugins.resourceclaim.objects import FOREIGN, by_name, user
from plugins.resourceclaim.server_claims import WatchedClaims, consumer

from kcm_host_resourceclaim.models.claim import FINALIZER

STATUS, MAIN, DELETE = (
    "PUT resourceclaims/status",
    "PUT resourceclaims",
    "DELETE resourceclaims",
)
A_FINALIZER, B_FINALIZER = "a.example/x", "b.example/y"


def test_a_consumer_that_never_was_is_asked_for_and_dropped(claims: WatchedClaims) -> None:
    """One GET, then the claim is free; finalizers of others stay (T-36, T-56, RC-57, RC-58)."""
    claims.claim(finalizers=[A_FINALIZER, FINALIZER, B_FINALIZER])
    claims.allocate("c", user("never"), protected=False)
    claims.wait_until_idle()
    assert claims.writes() == [STATUS, MAIN]
    assert len(claims.requests("GET")) == 1
    found = claims.get("resourceclaims", "c")
    assert found["metadata"]["finalizers"] == [A_FINALIZER, B_FINALIZER]
    assert "allocation" not in found.get("status", {})


def test_a_replaced_consumer_is_dropped_unasked(claims: WatchedClaims) -> None:
    """The pod of that name is another one (T-38)."""
    claims.plain_pod("p")
    claims.wait_until_idle()
    claims.claim()
    claims.allocate("c", user("p", uid="of-the-old-one"))
    claims.wait_until_idle()
    assert claims.writes() == [STATUS, MAIN]
    assert claims.requests("GET") == []


def test_an_unprotected_claim_keeps_its_devices(claims: WatchedClaims) -> None:
    """Only the consumers go (T-41)."""
    claims.claim()
    claims.allocate("c", user("never"), protected=False)
    claims.wait_until_idle()
    assert claims.writes() == [STATUS]
    assert set(claims.get("resourceclaims", "c")["status"]) == {"allocation"}


def test_foreign_consumers_stay(claims: WatchedClaims) -> None:
    """A consumer of an unknown kind counts as using the claim (T-43, T-44, RC-57)."""
    claims.claim("both")
    claims.allocate("both", user("never"), FOREIGN)
    claims.claim("foreign")
    claims.allocate("foreign", FOREIGN)
    claims.wait_until_idle()
    assert claims.writes() == [STATUS]
    found = claims.get("resourceclaims", "both")["status"]
    assert found["reservedFor"] == [FOREIGN]
    assert "allocation" in found


@pytest.mark.parametrize(
    ("allocated", "writes"),
    [pytest.param(True, [STATUS, MAIN], id="T-52"), pytest.param(False, [MAIN], id="T-53")],
)
def test_a_deleted_claim_that_nobody_uses_goes(
    claims: WatchedClaims, allocated: bool, writes: list[str]
) -> None:
    """Before that it is left alone, allocated or not (T-55, RC-59, RC-60)."""
    claims.claim(finalizers=[] if allocated else [FINALIZER])
    if allocated:
        claims.allocate("c")
    claims.wait_until_idle()
    assert claims.writes() == []
    claims.delete("resourceclaims", "c")
    claims.wait_until_idle()
    assert claims.writes() == writes
    assert "c" not in claims.names()


def test_a_deleted_claim_in_use_stays(claims: WatchedClaims) -> None:
    """Until its pod has ended; a later pod is not added (T-54, D-9, Q-9)."""
    claims.claim()
    pod = claims.pod("p", by_name(), node="n")
    claims.allocate("c", consumer(pod))
    claims.delete("resourceclaims", "c")
    claims.wait_until_idle()
    claims.pod("late", by_name(), node="n")
    claims.wait_until_idle()
    assert claims.writes() == []
    assert claims.consumers("c") == ["p"]
    claims.phase("p", "Succeeded")
    claims.wait_until_idle()
    assert claims.writes() == [STATUS, MAIN], "D-6: no DELETE of what is gone"
    assert "c" not in claims.names()


def test_a_full_claim_is_not_tried(claims: WatchedClaims) -> None:
    """The server takes 256 consumers (D-9, Q-9)."""
    claims.claim()
    others = [FOREIGN | {"name": f"f{number}", "uid": f"u{number}"} for number in range(256)]
    claims.allocate("c", *others)
    claims.pod("p", by_name(), node="n")
    claims.wait_until_idle()
    assert claims.writes() == []
    assert claims.requests("GET") == []


def test_a_claim_of_a_pod_that_never_ran_is_deleted(claims: WatchedClaims) -> None:
    """Whether allocated or not (T-46, RC-62)."""
    claims.template()
    claims.pod()
    name = claims.made()["res"]
    claims.phase("p", "Failed")
    claims.wait_until_idle()
    assert claims.writes()[2:] == [DELETE]
    assert name not in claims.names()


def test_a_claim_for_a_predecessor_is_deleted(claims: WatchedClaims) -> None:
    """The pod of that name has another UID (T-47)."""
    old: Any = {"metadata": {"name": "p", "uid": "of-the-old-one"}}
    claims.plain_pod("p")
    claims.wait_until_idle()
    claims.claim("old", owner=old)
    claims.claim("too-new", owner={"metadata": {"name": "q", "uid": "to-come"}})
    claims.wait_until_idle()
    assert claims.writes() == [DELETE]
    assert claims.names() == {"marker", "too-new"}, "T-48"
    assert claims.requests("GET") == []


def test_a_consumer_too_new_for_the_cache_stays(claims: WatchedClaims) -> None:
    """The server has it already (T-35, RC-57)."""
    claims.wait_until_idle()
    with claims.hidden("pods"):
        pod = claims.plain_pod("p")
        claims.claim()
        claims.allocate("c", consumer(pod))
        eventually(lambda: claims.requests("GET"), "the server is asked for the pod")
    claims.wait_until_idle()
    assert claims.writes() == []
    assert claims.consumers("c") == ["p"]


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
