"""PodGroups and their pods, with the two feature switches."""

from typing import Any

import pytest
from plugins.resourceclaim.claim_cluster import GROUPS, ClaimCluster, refused
from plugins.resourceclaim.objects import (
    bare,
    by_name,
    by_template,
    claim,
    group,
    group_user,
    pod,
    template,
)
from plugins.tables import row

from kcm_host.api import Terminal
from kcm_host_resourceclaim.events_metrics import ReconcileError

CREATE, RECORD, RECORD_GROUP = (
    "create resourceclaims",
    "apply pods/status",
    "apply podgroups/status",
)
STATUS = "update resourceclaims/status"
LOOKUPS: Any = {"genericWorkload": True}
MEMBER = pod(group="g")
OF_GROUP: Any = {"owner": "g", "owner_kind": "PodGroup", "entry": "res"}


def test_a_group_gets_its_claim() -> None:
    """Made, recorded and counted as a group's (T-70, RC-50 to RC-53, RC-75)."""
    cluster = ClaimCluster(group(), template(), **GROUPS)
    assert cluster.at_start == ["podgroup:ns/g"]
    assert cluster.sent_until_idle() == [CREATE, RECORD_GROUP]
    metadata = cluster.writes[0].body["metadata"]
    (owner,) = metadata["ownerReferences"]
    assert owner == {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "name": "g",
        "uid": "u-g",
        "controller": True,
    }
    assert metadata["generateName"] == "g-res-"
    assert metadata["annotations"] == {"resource.kubernetes.io/pod-claim-name": "res"}
    counts = cluster.series("creates_total")
    assert counts == {("success", "false", "scheduling.k8s.io", "PodGroup"): 1}


def test_a_groups_claim_not_yet_recorded_is_found() -> None:
    """By owner and annotation, also when it was just created (RC-52)."""
    cluster = ClaimCluster(group(), template(), **GROUPS)
    cluster.answer(refused(500, "InternalError"), verb="apply")
    with cluster.disconnected():
        assert cluster.sent_until_idle() == [CREATE, RECORD_GROUP, RECORD_GROUP]


@pytest.mark.parametrize(
    ("names", "objects", "sent"),
    [
        row("exists", {"res": "c"}, [claim(**OF_GROUP)], []),
        row("gone", {"res": "c"}, [], [CREATE, RECORD_GROUP]),
        row("of another", {"res": "c"}, [claim(owner="p", entry="res")], [CREATE, RECORD_GROUP]),
        row("found", {}, [claim(**OF_GROUP)], [RECORD_GROUP]),
    ],
)
def test_entries_of_a_group_are_checked(names: Any, objects: Any, sent: Any) -> None:
    """As those of a pod, with the group as owner (RC-51, RC-36)."""
    cluster = ClaimCluster(group(names=names), template(), *objects, **GROUPS)
    assert cluster.sent_by("podgroup", "g") == sent


def test_all_names_of_a_group_are_applied() -> None:
    """Also those that are recorded already (T-94, D-7, RC-55)."""
    cluster = ClaimCluster(
        group("g", by_template("b"), by_template("a"), names={"b": "cb"}),
        claim("cb", owner="g", owner_kind="PodGroup", entry="b"),
        template(),
        **GROUPS,
    )
    assert cluster.sent_by("podgroup", "g") == [CREATE, RECORD_GROUP]
    applied = cluster.writes[1].body["status"]["resourceClaimStatuses"]
    assert [each["name"] for each in applied] == ["a", "b"]
    assert cluster.recorded("g", "podgroups")["b"] == "cb"


def test_an_error_of_a_group_is_reported_on_the_group() -> None:
    """With its own prefix; nothing is recorded (RC-54, RC-70)."""
    cluster = ClaimCluster(group(), **GROUPS)
    with pytest.raises(ReconcileError):
        cluster.sent_by("podgroup", "g")
    (event,) = cluster.messages()
    assert event.startswith('PodGroup g: PodGroupResourceClaim res: resource claim template "t":')
    assert cluster.sent() == []


@pytest.mark.parametrize(
    "objects", [[], [group(deleting=True)], [group("g", by_name())], [bare(group())]]
)
def test_groups_that_need_nothing(objects: Any) -> None:
    """Gone, deleting, static entries alone, none at all (RC-27, RC-37, RC-50)."""
    cluster = ClaimCluster(template(), *objects, **GROUPS)
    assert cluster.at_start == []
    assert cluster.sent_by("podgroup", "g") == []


@pytest.mark.parametrize("templates", [[template()], []])
def test_a_pod_waits_for_the_claim_of_its_group(templates: Any) -> None:
    """Nothing is sent, no Event is written, and it is no error (T-71, RC-40)."""
    cluster = ClaimCluster(MEMBER, group(), *templates, **GROUPS)
    assert cluster.sent_by("pod", "p") == []
    assert cluster.messages() == []
    cluster.place(pod(group="g", node="n"))
    assert cluster.sent_by("pod", "p") == [], "nor is it one for a scheduled pod (D-4)"


def test_a_pod_records_the_claim_of_its_group() -> None:
    """In its own status; none is made (T-72, RC-40)."""
    cluster = ClaimCluster(MEMBER, group(), claim(**OF_GROUP), template(), **GROUPS)
    assert cluster.sent_by("pod", "p") == [RECORD]
    assert cluster.recorded() == {"res": "c"}
    assert cluster.sent_by("pod", "p") == []


@pytest.mark.parametrize("switches", [GROUPS, LOOKUPS])
def test_a_pod_with_an_entry_of_its_own_gets_its_own_claim(switches: Any) -> None:
    """The group has no equal entry (T-73, section 1.6, D-3)."""
    member = pod("p", by_template("res", "mine"), group="g")
    cluster = ClaimCluster(member, group(), template("mine"), **switches)
    assert cluster.sent_by("pod", "p") == [CREATE, RECORD]
    (owner,) = cluster.writes[0].body["metadata"]["ownerReferences"]
    assert owner["kind"] == "Pod"


@pytest.mark.parametrize(
    ("consumers", "sent"),
    [([], [STATUS]), ([group_user("g")], []), ([group_user("g") | {"uid": "other"}], [])],
)
def test_a_claim_is_reserved_for_the_group(consumers: Any, sent: Any) -> None:
    """Once for all its pods (T-74, RC-43)."""
    cluster = ClaimCluster(
        pod(group="g", names={"res": "c"}, node="n"),
        group(names={"res": "c"}),
        claim(**OF_GROUP, allocated=True, consumers=consumers),
        **GROUPS,
    )
    assert cluster.sent_by("pod", "p") == sent
    assert cluster.consumers() == (consumers or [group_user("g")])


@pytest.mark.parametrize("more", [{}, {"groups": "v1", **GROUPS}])
def test_pods_in_groups_are_refused_without_the_switch(more: Any) -> None:
    """A terminal failure, no event (T-76, RC-31, RC-71); so without the kind (RC-88)."""
    cluster = ClaimCluster(MEMBER, template(), **more)
    assert cluster.sent_by("pod", "p") == []
    assert cluster.messages() == []
    text = "Pod is a member of PodGroup g but GenericWorkload feature is disabled"
    assert cluster.outcomes[-1].result == Terminal(text)


def test_claims_of_groups_are_refused_without_the_switch() -> None:
    """One event and no retry (T-77, RC-31, RC-40, D-3)."""
    cluster = ClaimCluster(MEMBER, group(), template(), **LOOKUPS)
    assert cluster.sent_until_idle() == []
    assert len(cluster.outcomes) == 1
    assert cluster.messages() == [
        (
            "Pod p: PodResourceClaim res: claim res is a PodGroup claim but the "
            "DRAWorkloadResourceClaims feature is disabled"
        )
    ]


def test_static_claims_of_groups_are_not_reserved_without_the_switch() -> None:
    """They are passed over, no error (RC-43)."""
    entry = by_name("res", "c")
    member = pod("p", entry, group="g", node="n")
    cluster = ClaimCluster(member, group("g", entry), claim(allocated=True), **LOOKUPS)
    assert cluster.sent_by("pod", "p") == []


def test_a_missing_group_is_waited_for() -> None:
    """An ordinary error without an event (T-78, RC-71)."""
    cluster = ClaimCluster(MEMBER, template(), **LOOKUPS)
    with pytest.raises(ReconcileError, match="podgroup 'g' in namespace 'ns' is not there"):
        cluster.sent_by("pod", "p")
    assert (cluster.messages(), cluster.sent()) == ([], [])
