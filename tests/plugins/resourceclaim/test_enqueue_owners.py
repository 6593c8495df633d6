"""Keys that are queued because of another object, with which nothing of their own has changed."""

from typing import Any

import pytest
from plugins.resourceclaim.claim_cluster import GROUPS, ClaimCluster
from plugins.resourceclaim.objects import (
    bare,
    by_name,
    by_template,
    claim,
    group,
    group_user,
    pod,
    template,
    user,
)

from kcm_host_resourceclaim.plugin import RECHECK_INTERVAL

POD_KEY, CLAIM_KEY, GROUP_KEY = "pod:ns/p", "claim:ns/c", "podgroup:ns/g"
USED: Any = {"allocated": True, "protected": True, "consumers": [user("p")]}
GENERATED: Any = {"owner": "p", "entry": "res"}
OF_GROUP: Any = {"owner": "g", "owner_kind": "PodGroup", "entry": "res"}
USED_BY_GROUP: Any = {"allocated": True, "consumers": [group_user("g")]}
RUNNING = bare(pod(node="n", phase="Running"))
LOOKUPS: Any = {"genericWorkload": True}


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(bare(pod(node="n", phase="Succeeded")), id="ended"),
        pytest.param(bare(pod(deleting=True)), id="deleted before it ran"),
        pytest.param(bare(pod(uid="u-new", node="n")), id="replaced"),
        pytest.param(None, id="gone"),
    ],
)
def test_a_consumer_that_does_not_name_the_claim_releases_it(end: Any) -> None:
    """F-50: the claim is queued by each end of its consumer, and deleted (RC-57)."""
    cluster = ClaimCluster(RUNNING, claim(**USED, deleting=True))
    assert cluster.at_start == []
    assert (cluster.place(end) if end else cluster.remove("pods", "p")) == [CLAIM_KEY]
    cluster.run_until_idle()
    assert cluster.names() == []


def test_a_consumer_is_found_by_its_name() -> None:
    """F-50: one that the cache never had is gone when another has its name (RC-57)."""
    cluster = ClaimCluster(claim(**USED))
    assert cluster.place(bare(pod(uid="u-new"))) == [CLAIM_KEY]
    assert cluster.place(bare(pod(namespace="other", phase="Failed"))) == []


def test_a_group_that_does_not_name_the_claim_releases_it() -> None:
    """F-50: as a pod does, also without entries (RC-28, RC-57)."""
    used = claim(**USED_BY_GROUP)
    cluster = ClaimCluster(bare(group()), used, **GROUPS)
    assert cluster.at_start == []
    assert cluster.place(bare(group(uid="u-new"))) == [CLAIM_KEY]
    assert cluster.remove("podgroups", "g") == [CLAIM_KEY]


def test_a_namesake_deletes_the_claim_of_its_predecessor() -> None:
    """F-51: a finalizer kept it from the garbage collector until the namesake came (T-47)."""
    owned = claim(**GENERATED, protected=True, allocated=True)
    cluster = ClaimCluster(RUNNING, owned)
    assert cluster.remove("pods", "p") == [], "the garbage collector deletes it (T-48)"
    assert cluster.place(bare(pod(uid="u-new"))) == [CLAIM_KEY]
    assert cluster.sent_until_idle()[0] == "delete resourceclaims"


def test_changes_that_no_claim_is_judged_by_queue_none() -> None:
    """F-50: neither a node nor a first sign of life ends a consumer."""
    cluster = ClaimCluster(bare(pod()), claim(**USED))
    assert cluster.place(bare(pod(node="n"))) == cluster.place(RUNNING) == []
    assert cluster.place(bare(pod(node="n", phase="Running", deleting=True))) == []


def test_pods_without_claims_are_not_stored() -> None:
    """F-50: nor are they found anywhere when they end."""
    cluster = ClaimCluster(RUNNING)
    assert cluster.place(bare(pod(node="n", phase="Failed"))) == cluster.remove("pods", "p") == []
    assert len(cluster.controller._state.deleted_uids) == 0


def test_a_claim_that_may_be_adopted_queues_its_owner() -> None:
    """F-50: it waits for the claim or for the template, whichever is first (RC-38)."""
    cluster = ClaimCluster(pod(), pod("q"))
    assert cluster.place(claim(**GENERATED)) == [POD_KEY]
    assert cluster.place(claim("o", owner="q", owner_uid="u-old", entry="res")) == ["claim:ns/o"]
    assert cluster.place(claim("x", owner="none", entry="res")) == []


def test_a_claim_that_may_be_adopted_queues_its_group_and_its_pods() -> None:
    """F-50: the pods record it themselves (RC-40, RC-52)."""
    cluster = ClaimCluster(group(), pod(group="g"), **GROUPS)
    assert cluster.place(claim(**OF_GROUP)) == [POD_KEY, GROUP_KEY]
    assert ClaimCluster(pod(group="g")).place(claim(**OF_GROUP)) == []


@pytest.mark.parametrize("is_first", [False, True])
def test_a_claim_that_was_just_created_does_not_queue_its_owner(is_first: bool) -> None:
    """F-50: it is cached already, whichever of response and event is first."""
    cluster = ClaimCluster(pod(), template())
    if is_first:
        cluster.before_response(verb="create")
    assert len(cluster.sent_by("pod", "p")) == 2
    assert cluster.queued() == []


def test_an_undecodable_owner_is_looked_at_when_it_can_be_read() -> None:
    """F-50: nothing fails meanwhile."""
    cluster = ClaimCluster({**pod(), "status": "undecodable"})
    assert cluster.place(claim(owner="p", entry="res", allocated=True)) == [CLAIM_KEY]
    assert cluster.place(pod()) == [POD_KEY]


def test_a_pod_whose_group_got_another_claim_records_that() -> None:
    """F-50: the claim that it recorded is gone with its old group (RC-40)."""
    member = pod(group="g", names={"res": "gone"})
    cluster = ClaimCluster(member, group(uid="u-new", names={"res": "c"}), **GROUPS)
    assert cluster.place(claim(**OF_GROUP, owner_uid="u-new")) == [POD_KEY]


def test_a_foreign_claim_in_the_record_of_a_group_queues_it() -> None:
    """F-50: a sync makes its own one (RC-51)."""
    cluster = ClaimCluster(group(), claim(owner="q", entry="res"), **GROUPS)
    assert cluster.place(group(names={"res": "c"})) == [GROUP_KEY]


def test_a_named_claim_that_is_reserved_by_name_stays() -> None:
    """F-50: consumers of other kinds are not judged (RC-57)."""
    foreign = {"apiGroup": "foo.com", "resource": "pods", "name": "p", "uid": "u-p"}
    cluster = ClaimCluster(pod("p", by_name(), node="n"), claim(consumers=[foreign]))
    assert cluster.remove("pods", "p") == []


def test_a_claim_in_another_namespace_is_not_adopted() -> None:
    """F-53: a pod uses only claims of its own namespace, also by owner (RC-10, Difference x)."""
    cluster = ClaimCluster(pod(), template())
    assert cluster.place(claim(**GENERATED, namespace="other")) == []
    assert cluster.sent_by("pod", "p") == ["create resourceclaims", "apply pods/status"]
    assert cluster.recorded()["res"] != "c"


def test_what_only_the_server_has_is_found_again() -> None:
    """F-50: a claim may be deleted before it is cached: then there is no event."""
    cluster = ClaimCluster(pod(names={"res": "c"}), template())
    with cluster.disconnected():
        cluster.place(claim(**GENERATED))
        assert cluster.sent_by("pod", "p") == []
        cluster.remove("resourceclaims", "c")
    cluster.advance(RECHECK_INTERVAL)
    assert cluster.recorded() == {"res": cluster.names()[0]}


@pytest.mark.parametrize(
    "lost",
    [
        pytest.param(None, id="deleted"),
        pytest.param(claim(owner="q", owner_uid="u-q", entry="res"), id="somebody else's"),
        pytest.param(claim(owner="p", entry="other"), id="for another entry"),
    ],
)
def test_who_loses_a_claim_that_was_not_recorded_is_queued(lost: Any) -> None:
    """The owner is queued when its claim is deleted after a sync that failed (RC-35)."""
    cluster = ClaimCluster(pod(), template(), claim(**GENERATED))
    assert POD_KEY in (cluster.place(lost) if lost else cluster.remove("resourceclaims", "c"))


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
    named = cluster.place(group(names={"res": "c"}))
    assert named == ["pod:ns/one", "pod:ns/two", GROUP_KEY]
    cluster.place(claim(**OF_GROUP))
    assert cluster.place(group("g", names={"res": "c"}, deleting=True)) == named[:2]


def test_a_group_is_queued_by_its_claim_and_template() -> None:
    """As a pod is; a missing static claim is no reason (RC-11, RC-12, RC-24, RC-25, RC-29)."""
    cluster = ClaimCluster(
        group(names={"res": "c"}), group("h", by_name("s", "gone")), claim(**OF_GROUP), **GROUPS
    )
    assert cluster.at_start == []
    assert cluster.remove("resourceclaims", "c") == [GROUP_KEY]
    assert cluster.place(template()) == [GROUP_KEY]


def test_a_group_recreated_while_the_watch_was_interrupted_is_two() -> None:
    """The claims of the old one are looked at (D-11, RC-28)."""
    used = claim(**OF_GROUP, **USED_BY_GROUP)
    cluster = ClaimCluster(group(names={"res": "c"}), used, **GROUPS)
    assert cluster.place(group(uid="new")) == [CLAIM_KEY, GROUP_KEY]


def test_groups_that_are_only_looked_up_queue_the_pods_that_wait_for_them() -> None:
    """F-50: nothing else is queued for them without group claims (RC-5, Difference s)."""
    cluster = ClaimCluster(pod(group="g"), **LOOKUPS)
    assert cluster.place(group()) == [POD_KEY]
    assert cluster.place(bare(group("h"))) == cluster.remove("podgroups", "h") == []


@pytest.mark.parametrize(
    ("objects", "switches", "keys"),
    [
        pytest.param([group(names={"res": "gone"})], GROUPS, [], id="the group's own key does"),
        pytest.param([], GROUPS, [POD_KEY], id="the group is missing"),
        pytest.param([], {}, [POD_KEY], id="switched off"),
        pytest.param(
            [group("g", {"name": "new"}, by_template())], GROUPS, [POD_KEY], id="no target"
        ),
    ],
)
def test_a_pod_does_not_make_the_claim_of_its_group(
    objects: Any, switches: Any, keys: list[str]
) -> None:
    """What cannot be decided is left to a sync (RC-21.3)."""
    cluster = ClaimCluster(*objects, **switches)
    assert cluster.place(pod(group="g", names={"res": "gone"})) == keys
