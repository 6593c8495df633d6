"""Syncs of pods: what is sent for which state."""

from typing import Any

import pytest
from plugins.resourceclaim.claim_cluster import ClaimCluster, refused
from plugins.resourceclaim.objects import (
    by_name,
    by_template,
    claim,
    claim_spec,
    pod,
    template,
    user,
)

from kcm_host.api import Conflict, HostError, Unreachable
from kcm_host_resourceclaim.events_metrics import ReconcileError

CREATE, APPLY = "create resourceclaims", "apply pods/status"
RESERVE = "update resourceclaims/status"
SUCCESS = ("success", "false", "", "Pod")
GENERATED: Any = {"owner": "p", "entry": "res"}
NOT_FOUND = 'resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found'
CHECKING = "checking for claim before creating it: "
INVALID = "the claim cannot be made from the template, correct it: "
NO_FIELDS = (
    "entry 'res' of resourceClaims: none of the supported fields are set; "
    "set 'resourceClaimName' or 'resourceClaimTemplateName'"
)


def test_a_claim_is_made_and_recorded() -> None:
    """One POST, one apply with its name, one counted (T-1, RC-35, RC-39, RC-44, RC-75)."""
    cluster = ClaimCluster(pod(), template())
    assert cluster.sent_by("pod", "p") == [CREATE, APPLY]
    create, apply = cluster.writes
    assert create.body["apiVersion"] == "resource.k8s.io/v1"
    assert create.body["metadata"]["generateName"] == "p-res-"
    assert create.body["spec"] == claim_spec()
    assert apply.field_manager == "ResourceClaimController"
    assert set(apply.body["status"]) == {"resourceClaimStatuses"}
    assert [cluster.recorded()["res"]] == cluster.names()
    assert cluster.series("creates_total") == {SUCCESS: 1}
    assert (cluster.messages(), cluster.asked_for()) == ([], [])


def test_nothing_happens_twice() -> None:
    """The events of its own writes lead to no request (RC-20 to RC-23, Difference f)."""
    cluster = ClaimCluster(pod(), template())
    assert cluster.sent_until_idle() == [CREATE, APPLY]
    assert cluster.queued() == []
    assert cluster.missed_wakeups() == []
    assert cluster.asked_for() == []


@pytest.mark.parametrize(
    ("switches", "objects", "text"),
    [
        pytest.param(
            {"adminAccess": False},
            [pod(), template(admin=True)],
            "admin access is requested, but the feature is disabled",
            id="T-3, RC-39",
        ),
        pytest.param(
            {"prioritizedList": False},
            [pod(), template(alternatives=True)],
            "template includes a prioritized list of subrequests, but the feature is disabled",
            id="T-5, RC-39",
        ),
        pytest.param({}, [pod()], NOT_FOUND, id="T-6: no template"),
        pytest.param({}, [pod(), claim("p-res")], NOT_FOUND, id="T-14: names play no role"),
        pytest.param({}, [pod("p", {"name": "res"})], CHECKING + NO_FIELDS, id="T-25, RC-36"),
    ],
)
def test_what_cannot_be_made_is_reported(switches: Any, objects: Any, text: str) -> None:
    """An Event with the reference's text, an ordinary error; nothing is sent (RC-39, RC-70)."""
    cluster = ClaimCluster(*objects, **switches)
    with pytest.raises(ReconcileError):
        cluster.sent_by("pod", "p")
    (event,) = cluster.events
    assert (event.reason, event.warning) == ("FailedResourceClaimCreation", True)
    assert event.component == "resource_claim"
    assert cluster.messages() == [f"Pod p: PodResourceClaim res: {text}"]
    assert (cluster.sent(), cluster.asked_for(), cluster.series("creates_total")) == ([], [], {})


def test_a_template_that_cannot_be_decoded_is_reported() -> None:
    """With the field and a remedy; the claim of no other entry is recorded (RC-70, F-9)."""
    invalid = template()
    invalid["spec"]["spec"] = {"devices": 7}
    cluster = ClaimCluster(pod(), invalid)
    with pytest.raises(ValueError, match="devices") as raised:
        cluster.sent_by("pod", "p")
    (message,) = cluster.messages()
    assert message == f"Pod p: PodResourceClaim res: {INVALID}ValidationError: {raised.value}"


def test_admin_access_is_passed_on_and_counted() -> None:
    """The request is sent unchanged (T-4, RC-41, RC-75)."""
    cluster = ClaimCluster(pod(), template(admin=True), prioritizedList=False)
    cluster.run_until_idle()
    assert cluster.writes[0].body["spec"] == claim_spec(admin=True)
    assert cluster.series("creates_total") == {("success", "true", "", "Pod"): 1}


def test_a_recorded_claim_that_is_gone_is_replaced() -> None:
    """The server is asked first, then POST and an apply of the new name (T-8, RC-36)."""
    cluster = ClaimCluster(pod(names={"res": "c0"}), template())
    assert cluster.sent_by("pod", "p") == [CREATE, APPLY]
    assert cluster.asked_for() == ["resourceclaims/c0"]
    assert cluster.recorded()["res"] != "c0"


def test_a_recorded_claim_that_only_the_server_has_is_enough() -> None:
    """One GET, nothing sent (T-9, RC-36)."""
    cluster = ClaimCluster(pod(names={"res": "c0"}), template())
    with cluster.disconnected():
        cluster.place(claim("c0", **GENERATED))
        assert cluster.sent_by("pod", "p") == []
    assert cluster.asked_for() == ["resourceclaims/c0"]


def test_a_failing_check_is_reported() -> None:
    """An answer other than 404 is an error with an event (RC-36, RC-70)."""
    cluster = ClaimCluster(pod(names={"res": "c0"}), template())
    cluster.answer(refused(500, "InternalError", "broken"), verb="get")
    with pytest.raises(ReconcileError):
        cluster.sent_by("pod", "p")
    assert cluster.messages() == [f"Pod p: PodResourceClaim res: {CHECKING}broken"]


def test_a_claim_not_yet_recorded_is_found() -> None:
    """By owner and annotation, without a template; its name is recorded (T-10, RC-38)."""
    cluster = ClaimCluster(pod(), claim("c1", **GENERATED))
    assert cluster.sent_by("pod", "p") == [APPLY]
    assert cluster.recorded() == {"res": "c1"}


def test_a_claim_just_created_is_found() -> None:
    """It need not be in the informer's cache yet (T-11, T-23, RC-15, RC-38)."""
    cluster = ClaimCluster(pod(), template())
    cluster.answer(refused(500, "InternalError"), verb="apply")
    with cluster.disconnected():
        assert cluster.sent_until_idle() == [CREATE, APPLY, APPLY]
    assert [cluster.recorded()["res"]] == cluster.names()
    assert cluster.series("creates_total") == {SUCCESS: 1}
    assert cluster.messages() == [], "RC-71: a failing apply is no event"


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
def test_claims_for_others_are_not_taken(other: Any) -> None:
    """One is made instead, in the pod's namespace (T-12, T-13, T-15, RC-38)."""
    cluster = ClaimCluster(pod(), template(), other)
    assert cluster.sent_by("pod", "p") == [CREATE, APPLY]
    assert len(cluster.names()) == 2


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([], id="T-16: no pod"),
        pytest.param([pod(deleting=True)], id="T-17: deleting"),
        pytest.param([{**pod(), "spec": {}}], id="T-18: no entries"),
        pytest.param([pod(phase="Succeeded")], id="D-1: Succeeded"),
        pytest.param([pod(phase="Failed", node="n")], id="D-1: Failed"),
        pytest.param([pod(names={"res": None})], id="no claim needed"),
        pytest.param([pod(names={"res": "c"}), claim(**GENERATED)], id="T-7, RC-36: it exists"),
        pytest.param([pod("p", by_name(), node="n")], id="T-24, RC-37: the users' claim"),
    ],
)
def test_pods_that_need_nothing(objects: Any) -> None:
    """Success without a request or an Event, whatever their entries ask for (RC-35, D-1)."""
    cluster = ClaimCluster(template(), *objects)
    assert cluster.sent_by("pod", "p") == []
    assert (cluster.messages(), cluster.asked_for()) == ([], [])


def test_all_names_are_recorded_at_once() -> None:
    """POSTs in the order of entries, one apply, also of the names from before (T-19, T-20)."""
    cluster = ClaimCluster(
        pod("p", by_template("b"), by_template("a"), by_template("c"), names={"c": "cc"}),
        claim("cc", owner="p", entry="c"),
        template(),
    )
    assert cluster.sent_by("pod", "p") == [CREATE, CREATE, APPLY], "RC-42, Difference a"
    bases = [each.body["metadata"]["generateName"] for each in cluster.writes[:2]]
    assert bases == ["p-b-", "p-a-"]
    applied = cluster.writes[2].body["status"]["resourceClaimStatuses"]
    assert [each["name"] for each in applied] == ["a", "b", "c"]
    assert cluster.recorded()["c"] == "cc"


def test_the_first_error_ends_the_sync() -> None:
    """What was made before it is found the next time (T-21, RC-35, RC-38)."""
    cluster = ClaimCluster(pod("p", by_template("a"), by_template("b", "late")), template())
    with pytest.raises(ReconcileError, match="late"):
        cluster.sent_by("pod", "p")
    assert cluster.sent() == [CREATE]
    assert cluster.place(template("late")) == ["pod:ns/p"]
    assert cluster.sent_by("pod", "p") == [CREATE, APPLY]
    assert set(cluster.recorded()) == {"a", "b"}
    assert cluster.series("creates_total") == {SUCCESS: 2}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(refused(409, "AlreadyExists", "it is there"), "it is there", id="T-22"),
        pytest.param(Unreachable("10.0.0.1"), "the API server did not answer", id="F-2: none"),
        pytest.param(
            refused(502, "", ""),
            "the API server did not answer as expected, but with status 502",
            id="F-2: the page of a proxy",
        ),
    ],
)
def test_a_failed_creation_is_counted_and_reported(answer: HostError, text: str) -> None:
    """In the server's own words, never in those of the transport (T-22, RC-70, RC-75, F-2)."""
    cluster = ClaimCluster(pod(), template())
    cluster.answer(answer)
    with pytest.raises(ReconcileError):
        cluster.sent_by("pod", "p")
    assert cluster.sent() == [CREATE]
    assert cluster.messages() == [f"Pod p: PodResourceClaim res: create ResourceClaim : {text}"]
    assert cluster.series("creates_total") == {("failure", "false", "", "Pod"): 1}


def test_a_scheduled_pod_is_reserved() -> None:
    """One PUT of the status, the consumer without group (T-26, RC-43, RC-61)."""
    cluster = ClaimCluster(
        pod(names={"res": "c"}, node="n"), claim(**GENERATED, allocated=True, protected=True)
    )
    before = cluster.stored("resourceclaims", "c")["metadata"]
    assert cluster.sent_by("pod", "p") == [RESERVE]
    sent = cluster.writes[0].body
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
def test_no_reservation_is_needed(node: str, fields: Any) -> None:
    """Nothing is sent (T-27, T-28, T-32, RC-43, D-9)."""
    cluster = ClaimCluster(pod(names={"res": "c"}, node=node), claim(**GENERATED, **fields))
    assert cluster.sent_by("pod", "p") == []


def test_a_conflict_is_left_to_the_next_sync() -> None:
    """No second attempt in a sync; with a current cache it succeeds (T-29, T-30, RC-33, RC-61)."""
    cluster = ClaimCluster(pod("p", by_name(), node="n"), claim(allocated=True))
    with cluster.disconnected():
        cluster.place(claim(allocated=True, consumers=[user("q")]))
        with pytest.raises(Conflict):
            cluster.sent_by("pod", "p")
    assert cluster.sent() == [RESERVE]
    assert cluster.sent_by("pod", "p") == [RESERVE]
    assert cluster.consumers() == [user("q"), user("p")], "a further consumer comes last"
    assert cluster.messages() == [], "RC-71"


def test_a_claim_of_somebody_else_is_replaced() -> None:
    """It is left as it is, and another is made and recorded (T-33, RC-36)."""
    foreign = claim("c", owner="q", entry="res", allocated=True)
    cluster = ClaimCluster(pod(names={"res": "c"}, node="n"), foreign, template())
    assert cluster.sent_by("pod", "p") == [CREATE, APPLY]
    assert cluster.recorded()["res"] != "c"
    assert cluster.consumers() == []


def test_a_pod_born_with_a_node_meets_no_error() -> None:
    """Made and recorded; reserved when it is allocated, by the next sync (D-4)."""
    cluster = ClaimCluster(pod(node="n"), template())
    assert cluster.sent_until_idle() == [CREATE, APPLY]
    made = cluster.recorded()["res"]
    assert cluster.place(claim(made, **GENERATED, allocated=True)) == ["pod:ns/p"]
    assert cluster.sent_until_idle() == [RESERVE]


def test_all_claims_that_exist_are_reserved_in_one_sync() -> None:
    """Entry after entry (RC-43); a missing claim does not hide the next (D-5)."""
    entries = (by_name("a", "ca"), by_name("m", "missing"), by_name("b", "cb"))
    claims = claim("ca", allocated=True), claim("cb", allocated=True)
    cluster = ClaimCluster(pod("p", *entries, node="n"), *claims)
    assert cluster.sent_by("pod", "p") == [RESERVE, RESERVE]
    assert cluster.consumers("ca") == cluster.consumers("cb") == [user("p")]


def test_a_stored_claim_of_another_owner_is_not_reserved() -> None:
    """The sync fails while the cache has an older claim of that name (RC-43)."""
    cluster = ClaimCluster(pod(names={"res": "c"}, node="n"))
    cluster.place(claim("c", owner="q", entry="res", allocated=True))
    cluster.add_created(claim("c", **GENERATED))
    with pytest.raises(ReconcileError, match="claim 'ns/c' is not for pod 'ns/p'"):
        cluster.sent_by("pod", "p")
    assert cluster.sent() == []


def test_a_key_of_another_sort_is_an_error() -> None:
    """It is retried like any other (RC-34)."""
    with pytest.raises(ValueError, match="of no kind"):
        ClaimCluster().sent_by("node", "p")
