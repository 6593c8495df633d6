"""Syncs of pods: what is sent for which state."""

from typing import Any

import msgspec
import pytest
from plugins.resourceclaim.fake_cluster import ClaimCluster, refused
from plugins.resourceclaim.objects import (
    by_name,
    by_template,
    claim,
    claim_spec,
    pod,
    template,
    user,
)

from kcm_host.api import ApiError, Conflict, HostError, Key, Unreachable
from kcm_host_resourceclaim.events_metrics import ReconcileError
from kcm_host_resourceclaim.models.claim import Claim

CREATE, APPLY = "create resourceclaims", "apply pods/status"
RESERVE = "update resourceclaims/status"
SUCCESS = ("success", "false", "", "Pod")
GENERATED = {"owner": "p", "entry": "res"}


def applied(cluster: ClaimCluster) -> list[dict[str, str]]:
    """Return the names of each status apply: entry -> claim."""
    return [
        {each["name"]: each["resourceClaimName"] for each in body}
        for verb, _, body in cluster.sent
        if verb == "apply"
    ]


def consumers(cluster: ClaimCluster, name: str = "c") -> list[Any]:
    """Return the consumers of a claim on the server."""
    found: list[Any] = cluster.get("resourceclaims", name)["status"].get("reservedFor", [])
    return found


async def test_a_claim_is_made_and_recorded() -> None:
    """One POST, one apply with its name, one counted (T-1, RC-35, RC-39, RC-44, RC-75)."""
    cluster = ClaimCluster(pod(), template())
    assert await cluster.sync("pod", "p") == [CREATE, APPLY]
    (_, _, body), _ = cluster.sent
    assert body["apiVersion"] == "resource.k8s.io/v1"
    assert body["metadata"]["generateName"] == "p-res-"
    assert body["spec"] == claim_spec()
    (made,) = [key.name for resource, key in cluster.server if resource == "resourceclaims"]
    assert applied(cluster) == [{"res": made}]
    assert cluster.metrics("creates_total") == {SUCCESS: 1}
    assert (cluster.events, cluster.reads) == ([], [])


async def test_nothing_happens_twice() -> None:
    """The events of its own writes lead to no request (RC-20 to RC-23, Difference f)."""
    cluster = ClaimCluster(pod(), template())
    assert await cluster.sync_until_idle() == []
    cluster.put(pod("q"))
    assert await cluster.sync_until_idle() == [CREATE, APPLY]
    assert await cluster.sync("pod", "q") == []
    assert cluster.reads == []


@pytest.mark.parametrize(
    ("switches", "spec", "text"),
    [
        pytest.param(
            {"adminAccess": False},
            {"admin": True},
            "admin access is requested, but the feature is disabled",
            id="T-3",
        ),
        pytest.param(
            {"prioritizedList": False},
            {"alternatives": True},
            "template includes a prioritized list of subrequests, but the feature is disabled",
            id="T-5",
        ),
    ],
)
async def test_what_a_switch_forbids_is_refused(switches: Any, spec: Any, text: str) -> None:
    """An event with its own text, an ordinary error, nothing sent or counted (T-3, T-5, RC-39)."""
    cluster = ClaimCluster(pod(), template(**spec), **switches)
    with pytest.raises(ReconcileError, match=text):
        await cluster.sync("pod", "p")
    assert cluster.events == [f"Pod p: PodResourceClaim res: {text}"]
    assert cluster.sent == []
    assert cluster.metrics("creates_total") == {}


async def test_admin_access_is_passed_on_and_counted() -> None:
    """The request is sent unchanged (T-4, RC-41, RC-75)."""
    cluster = ClaimCluster(pod(), template(admin=True))
    await cluster.sync("pod", "p")
    assert cluster.sent[0][2]["spec"] == claim_spec(admin=True)
    assert cluster.metrics("creates_total") == {("success", "true", "", "Pod"): 1}


async def test_a_missing_template_is_reported() -> None:
    """With the text of the reference; no request, nothing counted (T-6, RC-39, RC-70)."""
    cluster = ClaimCluster(pod())
    with pytest.raises(ReconcileError):
        await cluster.sync("pod", "p")
    (event,) = cluster.events
    assert event == (
        'Pod p: PodResourceClaim res: resource claim template "t": '
        'resourceclaimtemplate.resource.k8s.io "t" not found'
    )
    assert (cluster.sent, cluster.reads, cluster.metrics("creates_total")) == ([], [], {})


async def test_a_recorded_claim_that_exists_is_enough() -> None:
    """Nothing is sent or asked (T-7, RC-36)."""
    cluster = ClaimCluster(pod(names={"res": "c"}), claim(**GENERATED), template())
    assert await cluster.sync("pod", "p") == []
    assert cluster.reads == []


async def test_a_recorded_claim_that_is_gone_is_replaced() -> None:
    """The server is asked first, then POST and an apply of the new name (T-8, RC-36)."""
    cluster = ClaimCluster(pod(names={"res": "c0"}), template())
    assert await cluster.sync("pod", "p") == [CREATE, APPLY]
    assert cluster.reads == ["resourceclaims/c0"]
    assert applied(cluster)[0]["res"] != "c0"


async def test_a_recorded_claim_that_only_the_server_has_is_enough() -> None:
    """One GET, nothing sent (T-9, RC-36)."""
    cluster = ClaimCluster(pod(names={"res": "c0"}), template())
    cluster.set(claim("c0", **GENERATED))
    assert await cluster.sync("pod", "p") == []
    assert cluster.reads == ["resourceclaims/c0"]


async def test_a_failing_check_is_reported() -> None:
    """An answer other than 404 is an error with an event (RC-36, RC-70)."""
    cluster = ClaimCluster(pod(names={"res": "c0"}), template())
    cluster.answers.append(refused(500, "InternalError", "broken"))
    with pytest.raises(ReconcileError):
        await cluster.sync("pod", "p")
    (event,) = cluster.events
    assert event == "Pod p: PodResourceClaim res: checking for claim before creating it: broken"


async def test_a_claim_not_yet_recorded_is_found() -> None:
    """By owner and annotation, without a template; its name is recorded (T-10, RC-38)."""
    cluster = ClaimCluster(pod(), claim("c1", **GENERATED))
    assert await cluster.sync("pod", "p") == [APPLY]
    assert applied(cluster) == [{"res": "c1"}]


async def test_a_claim_just_created_is_found() -> None:
    """It need not be in the informer's cache yet (T-11, T-23, RC-15, RC-38)."""
    cluster = ClaimCluster(pod(), template())
    cluster.answers.extend([None, refused(500, "InternalError")])
    with pytest.raises(ApiError):
        await cluster.sync("pod", "p")
    cluster.remove("resourceclaimtemplates", "t")
    assert await cluster.sync("pod", "p") == [APPLY]
    assert applied(cluster)[0] == applied(cluster)[1]
    assert cluster.metrics("creates_total") == {SUCCESS: 1}
    assert cluster.events == [], "RC-71: a failing apply is no event"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(claim("c1", owner="p", entry="other"), id="T-12: for another entry"),
        pytest.param(claim("c1", owner="p"), id="T-13: without annotation"),
        pytest.param(claim("c1", **GENERATED, namespace="x"), id="T-15: in another namespace"),
        pytest.param(claim("c1", owner="q", entry="res"), id="for another pod"),
        pytest.param(claim("c1", owner="p", owner_uid="old", entry="res"), id="for a predecessor"),
    ],
)
async def test_claims_for_others_are_not_taken(other: Any) -> None:
    """One is made instead, in the pod's namespace (T-12, T-13, T-15, RC-38)."""
    cluster = ClaimCluster(pod(), template(), other)
    assert await cluster.sync("pod", "p") == [CREATE, APPLY]
    assert len([key for of, key in cluster.server if of == "resourceclaims"]) == 2


async def test_names_of_claims_play_no_role() -> None:
    """A claim of the likely name without owner is left alone (T-14)."""
    cluster = ClaimCluster(pod(), claim("p-res"))
    before = cluster.get("resourceclaims", "p-res").copy()
    with pytest.raises(ReconcileError, match="not found"):
        await cluster.sync("pod", "p")
    assert cluster.get("resourceclaims", "p-res") == before


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([], id="T-16: no pod"),
        pytest.param([pod(deleting=True)], id="T-17: deleting"),
        pytest.param([{**pod(), "spec": {}}], id="T-18: no entries"),
        pytest.param([pod(phase="Succeeded")], id="D-1: Succeeded"),
        pytest.param([pod(phase="Failed", node="n")], id="D-1: Failed"),
        pytest.param([pod(names={"res": None})], id="no claim needed"),
    ],
)
async def test_pods_that_need_nothing(objects: Any) -> None:
    """Success without a request, whatever their entries ask for (RC-35, D-1)."""
    cluster = ClaimCluster(template(), *objects)
    assert await cluster.sync("pod", "p") == []
    assert cluster.reads == []


async def test_several_entries_are_recorded_at_once() -> None:
    """POSTs in the order of entries, one apply sorted by name (T-19, RC-42)."""
    cluster = ClaimCluster(pod("p", by_template("b"), by_template("a")), template())
    assert await cluster.sync("pod", "p") == [CREATE, CREATE, APPLY]
    bases = [body["metadata"]["generateName"] for verb, _, body in cluster.sent[:2]]
    assert bases == ["p-b-", "p-a-"]
    (names,) = applied(cluster)
    assert list(names) == ["a", "b"]


async def test_recorded_names_are_applied_again() -> None:
    """What an apply leaves out would be removed (T-20, RC-42, Difference a)."""
    cluster = ClaimCluster(
        pod("p", by_template("a"), by_template("b"), names={"a": "ca"}),
        claim("ca", owner="p", entry="a"),
        template(),
    )
    assert await cluster.sync("pod", "p") == [CREATE, APPLY]
    (names,) = applied(cluster)
    assert names["a"] == "ca"
    assert set(names) == {"a", "b"}


async def test_the_first_error_ends_the_sync() -> None:
    """What was made before it is found the next time (T-21, RC-35, RC-38)."""
    cluster = ClaimCluster(pod("p", by_template("a"), by_template("b", "late")), template())
    with pytest.raises(ReconcileError, match="late"):
        await cluster.sync("pod", "p")
    assert cluster.verbs() == [CREATE]
    assert cluster.put(template("late")) == ["pod:ns/p"]
    assert await cluster.sync("pod", "p") == [CREATE, APPLY]
    assert set(applied(cluster)[0]) == {"a", "b"}
    assert cluster.metrics("creates_total") == {SUCCESS: 2}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(refused(409, "AlreadyExists", "it is there"), "it is there", id="T-22"),
        pytest.param(Unreachable("cut"), "the API server did not answer", id="no answer"),
    ],
)
async def test_a_failed_creation_is_counted_and_reported(answer: HostError, text: str) -> None:
    """In the server's own words; nothing is recorded (T-22, RC-70, RC-75)."""
    cluster = ClaimCluster(pod(), template())
    cluster.answers.append(answer)
    with pytest.raises(ReconcileError):
        await cluster.sync("pod", "p")
    assert cluster.verbs() == [CREATE]
    assert cluster.events == [f"Pod p: PodResourceClaim res: create ResourceClaim : {text}"]
    assert cluster.metrics("creates_total") == {("failure", "false", "", "Pod"): 1}


async def test_a_missing_static_claim_is_the_users() -> None:
    """Neither a write nor an event, and the server is not asked either (T-24, RC-37)."""
    cluster = ClaimCluster(pod("p", by_name("res", "c"), node="n"))
    assert await cluster.sync("pod", "p") == []
    assert (cluster.events, cluster.reads) == ([], [])


async def test_an_unsupported_entry_is_reported() -> None:
    """With an event and an ordinary error (T-25, RC-36, RC-70)."""
    cluster = ClaimCluster(pod("p", {"name": "res"}))
    with pytest.raises(ReconcileError):
        await cluster.sync("pod", "p")
    (event,) = cluster.events
    assert event.startswith("Pod p: PodResourceClaim res: checking for claim before creating it: ")
    assert "none of the supported fields are set" in event


async def test_a_scheduled_pod_is_reserved() -> None:
    """One PUT of the status, the consumer without group (T-26, RC-43, RC-61)."""
    cluster = ClaimCluster(
        pod(names={"res": "c"}, node="n"), claim(**GENERATED, allocated=True, protected=True)
    )
    before = cluster.get("resourceclaims", "c")["metadata"].copy()
    assert await cluster.sync("pod", "p") == [RESERVE]
    sent = cluster.sent[0][2]
    assert sent["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": "u-p"}]
    assert "allocation" in sent["status"]
    assert sent["metadata"] == before


@pytest.mark.parametrize(
    ("node", "fields"),
    [
        pytest.param("n", {"allocated": True, "consumers": [user("p")]}, id="T-27: reserved"),
        pytest.param("n", {}, id="T-28: not allocated"),
        pytest.param("", {"allocated": True}, id="T-32: the scheduler's"),
        pytest.param("n", {"allocated": True, "deleting": True}, id="D-9: deleting"),
    ],
)
async def test_no_reservation_is_needed(node: str, fields: Any) -> None:
    """Nothing is sent (T-27, T-28, T-32, RC-43, D-9)."""
    cluster = ClaimCluster(pod(names={"res": "c"}, node=node), claim(**GENERATED, **fields))
    assert await cluster.sync("pod", "p") == []


async def test_a_further_consumer_comes_last() -> None:
    """Those that are there stay as they are (T-29, RC-61)."""
    shared = claim(allocated=True, consumers=[user("q")])
    cluster = ClaimCluster(pod("p", by_name(), node="n"), shared)
    assert await cluster.sync("pod", "p") == [RESERVE]
    assert consumers(cluster) == [user("q"), user("p")]


async def test_a_conflict_is_left_to_the_next_sync() -> None:
    """No second attempt in the sync; with a current cache it succeeds (T-30, RC-33)."""
    cluster = ClaimCluster(pod("p", by_name(), node="n"), claim(allocated=True))
    cluster.set(claim(allocated=True, consumers=[user("q")]))
    with pytest.raises(Conflict):
        await cluster.sync("pod", "p")
    assert cluster.verbs() == [RESERVE]
    cluster.deliver_events()
    assert await cluster.sync("pod", "p") == [RESERVE]
    assert consumers(cluster) == [user("q"), user("p")]
    assert cluster.events == [], "RC-71"


async def test_a_claim_of_somebody_else_is_replaced() -> None:
    """It is left as it is, and another is made and recorded (T-33, RC-36)."""
    foreign = claim("c", owner="q", entry="res", allocated=True)
    cluster = ClaimCluster(pod(names={"res": "c"}, node="n"), foreign, template())
    assert await cluster.sync("pod", "p") == [CREATE, APPLY]
    assert applied(cluster)[0]["res"] != "c"
    assert consumers(cluster) == []


async def test_a_pod_born_with_a_node_meets_no_error() -> None:
    """Made and recorded; reserved when it is allocated, by the next sync (D-4)."""
    cluster = ClaimCluster(pod(node="n"), template())
    assert await cluster.sync("pod", "p") == [CREATE, APPLY]
    cluster.deliver_events()
    (made,) = applied(cluster)[0].values()
    assert cluster.put(claim(made, **GENERATED, allocated=True)) == ["pod:ns/p"]
    assert await cluster.sync("pod", "p") == [RESERVE]


async def test_a_missing_claim_does_not_hide_the_next() -> None:
    """The loop continues with the entry whose claim exists (D-5)."""
    entries = (by_name("a", "missing"), by_name("b", "c"))
    cluster = ClaimCluster(pod("p", *entries, node="n"), claim(allocated=True))
    assert await cluster.sync("pod", "p") == [RESERVE]
    assert consumers(cluster) == [user("p")]


async def test_all_claims_are_reserved_in_one_sync() -> None:
    """Entry after entry (RC-43)."""
    cluster = ClaimCluster(
        pod("p", by_name("a", "ca"), by_name("b", "cb"), node="n"),
        claim("ca", allocated=True),
        claim("cb", allocated=True),
    )
    assert await cluster.sync("pod", "p") == [RESERVE, RESERVE]


async def test_a_stored_claim_of_another_owner_is_not_reserved() -> None:
    """The sync fails while the cache has an older claim of that name (RC-43)."""
    foreign = claim("c", owner="q", entry="res", allocated=True)
    cluster = ClaimCluster(pod(names={"res": "c"}, node="n"), foreign)
    own = msgspec.convert(claim("c", **GENERATED), Claim)
    cluster.controller._state.created.add(Key("c", "ns"), own, "99999")
    with pytest.raises(ReconcileError, match="claim 'ns/c' is not for pod 'ns/p'"):
        await cluster.sync("pod", "p")
    assert cluster.sent == []


async def test_a_key_of_another_sort_is_an_error() -> None:
    """It is retried like any other (RC-34)."""
    with pytest.raises(ValueError, match="of no kind"):
        await ClaimCluster().sync("node", "p")
