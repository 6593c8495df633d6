"""PodGroups and their pods, with the two feature switches."""

from typing import Any

import pytest
from plugins.resourceclaim.fake_cluster import GROUPS, ClaimCluster, refused
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

from kcm_host.api import ApiError, Terminal
from kcm_host_resourceclaim.events_metrics import ReconcileError

CREATE, RECORD, RECORD_GROUP = (
    "create resourceclaims",
    "apply pods/status",
    "apply podgroups/status",
)
STATUS, MAIN = "update resourceclaims/status", "update resourceclaims"
LOOKUPS = {"genericWorkload": True}
MEMBER = pod(group="g")
OF_GROUP: Any = {"owner": "g", "owner_kind": "PodGroup", "entry": "res"}


async def test_a_group_gets_its_claim() -> None:
    """Made, recorded and counted as a group's (T-70, RC-50 to RC-53, RC-75)."""
    cluster = ClaimCluster(group(), template(), **GROUPS)
    assert cluster.at_start == ["podgroup:ns/g"]
    assert await cluster.sync("podgroup", "g") == [CREATE, RECORD_GROUP]
    metadata = cluster.sent[0][2]["metadata"]
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
    counts = cluster.metrics("creates_total")
    assert counts == {("success", "false", "scheduling.k8s.io", "PodGroup"): 1}


async def test_a_groups_claim_not_yet_recorded_is_found() -> None:
    """By owner and annotation, also when it was just created (RC-52)."""
    cluster = ClaimCluster(group(), template(), **GROUPS)
    cluster.answers.extend([None, refused(500, "InternalError")])
    with pytest.raises(ApiError):
        await cluster.sync("podgroup", "g")
    assert await cluster.sync("podgroup", "g") == [RECORD_GROUP]


@pytest.mark.parametrize(
    ("names", "objects", "sent"),
    [
        pytest.param({"res": "c"}, [claim(**OF_GROUP)], [], id="exists"),
        pytest.param({"res": "c"}, [], [CREATE, RECORD_GROUP], id="gone"),
        pytest.param(
            {"res": "c"}, [claim(owner="p", entry="res")], [CREATE, RECORD_GROUP], id="of another"
        ),
        pytest.param({}, [claim(**OF_GROUP)], [RECORD_GROUP], id="found"),
    ],
)
async def test_entries_of_a_group_are_checked(names: Any, objects: Any, sent: Any) -> None:
    """As those of a pod, with the group as owner (RC-51, RC-36)."""
    cluster = ClaimCluster(group(names=names), template(), *objects, **GROUPS)
    assert await cluster.sync("podgroup", "g") == sent


async def test_all_names_of_a_group_are_applied() -> None:
    """Also those that are recorded already (T-94, D-7, RC-55)."""
    cluster = ClaimCluster(
        group("g", by_template("b"), by_template("a"), names={"b": "cb"}),
        claim("cb", owner="g", owner_kind="PodGroup", entry="b"),
        template(),
        **GROUPS,
    )
    assert await cluster.sync("podgroup", "g") == [CREATE, RECORD_GROUP]
    names = {each["name"]: each["resourceClaimName"] for each in cluster.sent[1][2]}
    assert list(names) == ["a", "b"]
    assert names["b"] == "cb"


async def test_an_error_of_a_group_is_reported_on_the_group() -> None:
    """With its own prefix; nothing is recorded (RC-54, RC-70)."""
    cluster = ClaimCluster(group(), **GROUPS)
    with pytest.raises(ReconcileError):
        await cluster.sync("podgroup", "g")
    (event,) = cluster.events
    assert event.startswith('PodGroup g: PodGroupResourceClaim res: resource claim template "t":')
    assert cluster.sent == []


@pytest.mark.parametrize(
    "objects", [[], [group(deleting=True)], [group("g", by_name())], [bare(group())]]
)
async def test_groups_that_need_nothing(objects: Any) -> None:
    """Gone, deleting, static entries alone, none at all (RC-27, RC-37, RC-50)."""
    cluster = ClaimCluster(template(), *objects, **GROUPS)
    assert cluster.at_start == []
    assert await cluster.sync("podgroup", "g") == []


@pytest.mark.parametrize("templates", [[template()], []])
async def test_a_pod_waits_for_the_claim_of_its_group(templates: Any) -> None:
    """Nothing is sent, no Event is written, and it is no error (T-71, RC-40)."""
    cluster = ClaimCluster(MEMBER, group(), *templates, **GROUPS)
    assert await cluster.sync("pod", "p") == []
    assert cluster.events == []
    cluster.put(pod(group="g", node="n"))
    assert await cluster.sync("pod", "p") == [], "nor is it one for a scheduled pod (D-4)"


async def test_a_pod_records_the_claim_of_its_group() -> None:
    """In its own status; none is made (T-72, RC-40)."""
    cluster = ClaimCluster(MEMBER, group(), claim(**OF_GROUP), template(), **GROUPS)
    assert await cluster.sync("pod", "p") == [RECORD]
    assert cluster.sent[0][2] == [{"name": "res", "resourceClaimName": "c"}]
    cluster.deliver_events()
    assert await cluster.sync("pod", "p") == []


async def test_a_pod_with_an_entry_of_its_own_gets_its_own_claim() -> None:
    """The group has no equal entry (T-73, section 1.6)."""
    member = pod("p", by_template("res", "mine"), group="g")
    cluster = ClaimCluster(member, group(), template("mine"), **GROUPS)
    assert await cluster.sync("pod", "p") == [CREATE, RECORD]
    (owner,) = cluster.sent[0][2]["metadata"]["ownerReferences"]
    assert owner["kind"] == "Pod"


@pytest.mark.parametrize(
    ("consumers", "sent"),
    [([], [STATUS]), ([group_user("g")], []), ([group_user("g") | {"uid": "other"}], [])],
)
async def test_a_claim_is_reserved_for_the_group(consumers: Any, sent: Any) -> None:
    """Once for all its pods (T-74, RC-43)."""
    cluster = ClaimCluster(
        pod(group="g", names={"res": "c"}, node="n"),
        group(names={"res": "c"}),
        claim(**OF_GROUP, allocated=True, consumers=consumers),
        **GROUPS,
    )
    assert await cluster.sync("pod", "p") == sent
    if sent:
        assert cluster.sent[0][2]["status"]["reservedFor"] == [group_user("g")]


@pytest.mark.parametrize(
    ("switches", "there", "sent"),
    [
        pytest.param(GROUPS, None, [STATUS, MAIN], id="T-75: gone"),
        pytest.param(GROUPS, group(uid="other"), [STATUS, MAIN], id="replaced"),
        pytest.param(GROUPS, group(deleting=True), [], id="RC-57: still there"),
        pytest.param({}, None, [], id="T-75: switched off"),
        pytest.param(LOOKUPS, None, [], id="T-75: only looked up"),
    ],
)
async def test_a_group_as_consumer(switches: Any, there: Any, sent: Any) -> None:
    """It is removed when the server has none; without workload claims it stays (T-75, RC-57)."""
    used: Any = {"allocated": True, "protected": True, "consumers": [group_user("g")]}
    cluster = ClaimCluster(claim(**OF_GROUP, **used), *([there] if there else []), **switches)
    assert await cluster.sync("claim", "c") == sent
    assert cluster.reads == (["podgroups/g"] if sent and there is None else [])


async def test_a_group_missing_in_the_cache_is_asked_for() -> None:
    """It may be too new for it (RC-57)."""
    used: Any = {"allocated": True, "protected": True, "consumers": [group_user("g")]}
    cluster = ClaimCluster(claim(**used), **GROUPS)
    cluster.set(group())
    assert await cluster.sync("claim", "c") == []
    assert cluster.reads == ["podgroups/g"]


async def test_a_group_seen_being_removed_is_not_asked_for() -> None:
    """Its UID is remembered, its claims are queued (RC-16, RC-28)."""
    used: Any = {"allocated": True, "protected": True, "consumers": [group_user("g")]}
    cluster = ClaimCluster(claim(**OF_GROUP, **used), group(names={"res": "c"}), **GROUPS)
    assert cluster.remove("podgroups", "g") == ["claim:ns/c"]
    assert await cluster.sync("claim", "c") == [STATUS, MAIN]
    assert cluster.reads == []


async def test_pods_in_groups_are_refused_without_the_switch() -> None:
    """A terminal failure: logged by the host, no event, no retry (T-76, RC-31, RC-71)."""
    cluster = ClaimCluster(MEMBER, template())
    assert await cluster.sync("pod", "p") == []
    assert cluster.events == []
    text = "Pod is a member of PodGroup g but GenericWorkload feature is disabled"
    assert cluster.outcome == Terminal(text)


async def test_claims_of_groups_are_refused_without_the_switch() -> None:
    """One event and no retry; entries of the pod's own are made (T-77, RC-31, RC-40, D-3)."""
    cluster = ClaimCluster(MEMBER, group(), template(), **LOOKUPS)
    assert await cluster.sync("pod", "p") == []
    assert cluster.events == [
        (
            "Pod p: PodResourceClaim res: claim res is a PodGroup claim but the "
            "DRAWorkloadResourceClaims feature is disabled"
        )
    ]
    cluster.put(pod("q", by_template("res", "mine"), group="g"))
    cluster.put(template("mine"))
    assert await cluster.sync("pod", "q") == [CREATE, RECORD]


async def test_static_claims_of_groups_are_not_reserved_without_the_switch() -> None:
    """They are passed over, no error (RC-43)."""
    entry = by_name("res", "c")
    member = pod("p", entry, group="g", node="n")
    cluster = ClaimCluster(member, group("g", entry), claim(allocated=True), **LOOKUPS)
    assert await cluster.sync("pod", "p") == []


async def test_a_missing_group_is_waited_for() -> None:
    """An ordinary error without an event (T-78, RC-71)."""
    cluster = ClaimCluster(MEMBER, template(), **LOOKUPS)
    with pytest.raises(ReconcileError, match="podgroup 'g' in namespace 'ns' is not there"):
        await cluster.sync("pod", "p")
    assert (cluster.events, cluster.sent) == ([], [])


def test_a_group_queues_itself_and_its_pods() -> None:
    """Its pods whose entries are not recorded, no others (T-79, RC-13, RC-29, RC-30)."""
    cluster = ClaimCluster(
        pod("one", group="g"),
        pod("two", group="g"),
        pod("recorded", group="g", names={"res": "c"}),
        pod("stranger", group="h", names={"res": "c"}),
        bare(pod("plain", group="g")),
        group(),
        **GROUPS,
    )
    named = cluster.put(group(names={"res": "c"}))
    assert named == ["pod:ns/one", "pod:ns/two", "podgroup:ns/g"]
    cluster.put(claim(**OF_GROUP))
    assert cluster.put(group("g", names={"res": "c"}, deleting=True)) == named[:2]


def test_a_group_is_queued_by_its_claim_and_template() -> None:
    """As a pod is; a missing static claim is no reason (RC-11, RC-12, RC-24, RC-25, RC-29)."""
    cluster = ClaimCluster(
        group(names={"res": "c"}),
        group("h", by_name("s", "gone")),
        claim(**OF_GROUP),
        **GROUPS,
    )
    assert cluster.at_start == []
    assert cluster.remove("resourceclaims", "c") == ["podgroup:ns/g"]
    assert cluster.put(template()) == ["podgroup:ns/g"]


def test_a_group_recreated_while_the_watch_was_interrupted_is_two() -> None:
    """The claims of the old one are looked at (D-11, RC-28)."""
    used: Any = {"allocated": True, "consumers": [group_user("g")]}
    cluster = ClaimCluster(group(names={"res": "c"}), claim(**OF_GROUP, **used), **GROUPS)
    assert cluster.put(group(uid="new")) == ["claim:ns/c", "podgroup:ns/g"]


def test_groups_that_are_only_looked_up_queue_the_pods_that_wait_for_them() -> None:
    """F-50: nothing else is queued for them without group claims (RC-5, Difference s)."""
    cluster = ClaimCluster(pod("p", by_template(), group="g"), **LOOKUPS)
    assert cluster.put(group()) == ["pod:ns/p"]
    assert cluster.put(bare(group("h"))) == cluster.remove("podgroups", "h") == []
    assert cluster.watches["podgroups"].indexes == {}


def test_a_pod_does_not_make_the_claim_of_its_group() -> None:
    """The group's own key does; what cannot be decided is left to a sync (RC-21.3)."""
    lost = pod(group="g", names={"res": "gone"})
    assert ClaimCluster(group(names={"res": "gone"}), **GROUPS).put(lost) == []
    assert ClaimCluster(**GROUPS).put(lost) == ["pod:ns/p"], "the group is missing"
    assert ClaimCluster().put(lost) == ["pod:ns/p"], "switched off"
    unknown = group("g", {"name": "new"}, by_template())
    assert ClaimCluster(unknown, **GROUPS).put(lost) == ["pod:ns/p"], "no target"


async def test_claims_of_groups_are_left_to_the_garbage_collector() -> None:
    """No DELETE, whatever its pods do (T-80, RC-62)."""
    cluster = ClaimCluster(claim(**OF_GROUP), group(), pod(group="g", phase="Failed"), **GROUPS)
    assert await cluster.sync("claim", "c") == []
