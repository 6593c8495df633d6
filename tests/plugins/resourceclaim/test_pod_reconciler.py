"""Syncs of pods: what is sent for which state."""

from typing import Any

import msgspec
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
from plugins.tables import row

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


@pytest.mark.parametrize(
    ("switches", "objects", "text"),
    [
        row(
            "T-3, RC-39",
            {"adminAccess": False},
            [pod(), template(admin=True)],
            "admin access is requested, but the feature is disabled",
        ),
        row(
            "T-5, RC-39",
            {"prioritizedList": False},
            [pod(), template(alternatives=True)],
            "template includes a prioritized list of subrequests, but the feature is disabled",
        ),
        row("T-6: no template", {}, [pod()], NOT_FOUND),
        row("T-14: names play no role", {}, [pod(), claim("p-res")], NOT_FOUND),
        row("T-25, RC-36", {}, [pod("p", {"name": "res"})], CHECKING + NO_FIELDS),
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
    with pytest.raises(msgspec.ValidationError, match="devices") as raised:
        cluster.sent_by("pod", "p")
    (message,) = cluster.messages()
    assert message == f"Pod p: PodResourceClaim res: {INVALID}ValidationError: {raised.value}"


def test_admin_access_is_passed_on_and_counted() -> None:
    """The request is sent unchanged (T-4, RC-41, RC-75)."""
    cluster = ClaimCluster(pod(), template(admin=True), prioritizedList=False)
    cluster.run_until_idle()
    assert cluster.writes[0].body["spec"] == claim_spec(admin=True)
    assert cluster.series("creates_total") == {("success", "true", "", "Pod"): 1}


MINE, FOREIGN = claim("c1", **GENERATED), claim("c1", owner="q", entry="res", allocated=True)
RECORDED = pod(names={"res": "c1"})
ON_NODE = pod(names={"res": "c1"}, node="n")
USED: Any = {**GENERATED, "allocated": True}
STATIC = pod("p", by_name("a"), by_name("m", "missing"), by_name("b", "d"), node="n")


@pytest.mark.parametrize(
    ("objects", "sent"),
    [
        row("T-8, RC-36: a recorded claim is gone", [RECORDED], [CREATE, APPLY]),
        row("T-10, RC-38: not yet recorded", [pod(), MINE], [APPLY]),
        row("T-12: for another entry", [pod(), claim("c1", owner="p", entry="x")], [CREATE, APPLY]),
        row("T-13: without annotation", [pod(), claim("c1", owner="p")], [CREATE, APPLY]),
        row(
            "T-15: in another namespace",
            [pod(), claim("c1", **GENERATED, namespace="x")],
            [CREATE, APPLY],
        ),
        row("RC-38: for another pod", [pod(), FOREIGN], [CREATE, APPLY]),
        row("for a predecessor", [pod(), claim("c1", **GENERATED, owner_uid="x")], [CREATE, APPLY]),
        row("T-33, RC-36: somebody else's is recorded", [RECORDED, FOREIGN], [CREATE, APPLY]),
        row("T-16: no pod", [], []),
        row("T-17: deleting", [pod(deleting=True)], []),
        row("T-18: no entries", [{**pod(), "spec": {}}], []),
        row("D-1, RC-35: Succeeded", [pod(phase="Succeeded")], []),
        row("D-1: Failed", [pod(phase="Failed", node="n")], []),
        row("no claim needed", [pod(names={"res": None})], []),
        row("T-7, RC-36: it exists", [RECORDED, MINE], []),
        row("T-24, RC-37: the users' claim", [pod("p", by_name(), node="n")], []),
        row("T-27, RC-43: reserved", [ON_NODE, claim("c1", **USED, consumers=[user("p")])], []),
        row("T-28: not allocated", [ON_NODE, MINE], []),
        row("T-32: the scheduler's", [RECORDED, claim("c1", **USED)], []),
        row("D-9: deleting", [ON_NODE, claim("c1", **USED, deleting=True)], []),
        row(
            "D-5, RC-43: a missing one hides no other",
            [STATIC, claim(allocated=True), claim("d", allocated=True)],
            [RESERVE, RESERVE],
        ),
    ],
)
def test_what_is_sent_for_a_pod(objects: Any, sent: list[str]) -> None:
    """A claim is made, recorded or reserved where that is due; nothing is sent twice (RC-35)."""
    cluster = ClaimCluster(template(), *objects)
    assert cluster.sent_by("pod", "p") == sent
    assert cluster.asked_for() == (["resourceclaims/c1"] if objects == [RECORDED] else [])
    assert cluster.messages() == []
    if APPLY in sent:
        made = cluster.recorded()["res"]
        assert (made in cluster.names(), made == "c1") == (True, CREATE not in sent)
        assert cluster.sent_by("pod", "p") == []
    if RESERVE in sent:
        assert cluster.consumers("c") == cluster.consumers("d") == [user("p")]


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


def test_a_claim_just_created_is_found() -> None:
    """It need not be in the informer's cache yet (T-11, T-23, RC-15, RC-38)."""
    cluster = ClaimCluster(pod(), template())
    cluster.answer(refused(500, "InternalError"), verb="apply")
    with cluster.disconnected():
        assert cluster.sent_until_idle() == [CREATE, APPLY, APPLY]
    assert [cluster.recorded()["res"]] == cluster.names()
    assert cluster.series("creates_total") == {SUCCESS: 1}
    assert cluster.messages() == [], "RC-71: a failing apply is no event"


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
        row("T-22", refused(409, "AlreadyExists", "it is there"), "it is there"),
        row("F-2: none", Unreachable("10.0.0.1"), "the API server did not answer"),
        row(
            "F-2: the page of a proxy",
            refused(502, "", ""),
            "the API server did not answer as expected, but with status 502",
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
