"""Keys that are queued because of another object, with which nothing of their own has changed."""

from typing import Any

import pytest
from plugins.resourceclaim.fake_cluster import GROUPS, ClaimCluster
from plugins.resourceclaim.objects import (
    bare,
    by_name,
    claim,
    group,
    group_user,
    pod,
    template,
    user,
)

from kcm_host.api import Done, Later
from kcm_host_resourceclaim.plugin import RECHECK_INTERVAL

POD_KEY, CLAIM_KEY, GROUP_KEY = "pod:ns/p", "claim:ns/c", "podgroup:ns/g"
USED: Any = {"allocated": True, "protected": True, "consumers": [user("p")]}
GENERATED: Any = {"owner": "p", "entry": "res"}
OF_GROUP: Any = {"owner": "g", "owner_kind": "PodGroup", "entry": "res"}
RUNNING = bare(pod(node="n", phase="Running"))


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(bare(pod(node="n", phase="Succeeded")), id="ended"),
        pytest.param(bare(pod(deleting=True)), id="deleted before it ran"),
        pytest.param(bare(pod(uid="u-new", node="n")), id="replaced"),
        pytest.param(None, id="gone"),
    ],
)
async def test_a_consumer_that_does_not_name_the_claim_releases_it(end: Any) -> None:
    """F-50: the claim is queued by each end of its consumer, and deleted (RC-57)."""
    cluster = ClaimCluster(RUNNING, claim(**USED, deleting=True))
    assert cluster.at_start == []
    assert (cluster.put(end) if end else cluster.remove("pods", "p")) == [CLAIM_KEY]
    await cluster.sync_until_idle()
    assert ("resourceclaims", "c") not in {(of, key.name) for of, key in cluster.server}


def test_a_consumer_is_found_by_its_name() -> None:
    """F-50: one that the cache never had is gone when another has its name (RC-57)."""
    cluster = ClaimCluster(claim(**USED))
    cluster.take_keys()
    assert cluster.put(bare(pod(uid="u-new"))) == [CLAIM_KEY]
    assert cluster.put(bare(pod(namespace="other", phase="Failed"))) == []


def test_a_group_that_does_not_name_the_claim_releases_it() -> None:
    """F-50: as a pod does, also without entries (RC-28, RC-57)."""
    used = claim(allocated=True, consumers=[group_user("g")])
    cluster = ClaimCluster(bare(group()), used, **GROUPS)
    assert cluster.at_start == []
    assert cluster.put(bare(group(uid="u-new"))) == [CLAIM_KEY]
    assert cluster.remove("podgroups", "g") == [CLAIM_KEY]


async def test_a_namesake_deletes_the_claim_of_its_predecessor() -> None:
    """F-51: a finalizer kept it from the garbage collector until the namesake came (T-47)."""
    owned = claim(**GENERATED, protected=True, allocated=True)
    cluster = ClaimCluster(RUNNING, owned)
    assert cluster.remove("pods", "p") == [], "the garbage collector deletes it (T-48)"
    assert cluster.put(bare(pod(uid="u-new"))) == [CLAIM_KEY]
    assert (await cluster.sync_until_idle())[0] == "delete resourceclaims"


def test_changes_that_no_claim_is_judged_by_queue_none() -> None:
    """F-50: neither a node nor a first sign of life ends a consumer."""
    cluster = ClaimCluster(bare(pod()), claim(**USED))
    assert cluster.put(bare(pod(node="n"))) == cluster.put(RUNNING) == []
    assert cluster.put(bare(pod(node="n", phase="Running", deleting=True))) == []


def test_pods_without_claims_are_not_stored() -> None:
    """F-50: nor are they found anywhere when they end."""
    cluster = ClaimCluster(RUNNING)
    assert cluster.put(bare(pod(node="n", phase="Failed"))) == cluster.remove("pods", "p") == []
    assert len(cluster.controller._state.deleted_uids) == 0


def test_a_claim_that_may_be_adopted_queues_its_owner() -> None:
    """F-50: it waits for the claim or for the template, whichever is first (RC-38)."""
    cluster = ClaimCluster(pod(), pod("q"))
    assert cluster.put(claim(**GENERATED)) == [POD_KEY]
    assert cluster.put(claim("o", owner="q", owner_uid="u-old", entry="res")) == ["claim:ns/o"]
    assert cluster.put(claim("x", owner="none", entry="res")) == []


def test_a_claim_that_may_be_adopted_queues_its_group_and_its_pods() -> None:
    """F-50: the pods record it themselves (RC-40, RC-52)."""
    cluster = ClaimCluster(group(), pod(group="g"), **GROUPS)
    assert cluster.put(claim(**OF_GROUP)) == [POD_KEY, GROUP_KEY]
    assert ClaimCluster(pod(group="g")).put(claim(**OF_GROUP)) == []


async def test_a_claim_that_was_just_created_does_not_queue_its_owner() -> None:
    """F-50: it is cached already, whichever of response and event is first."""
    cluster = ClaimCluster(pod(), template())
    real = cluster.create

    async def slow(*given: Any, **named: Any) -> Any:
        made = await real(*given, **named)
        cluster.deliver_events()
        assert cluster.take_keys() == []
        return made

    cluster.create = slow  # type: ignore[method-assign] # an answer that takes its time
    await cluster.sync("pod", "p")
    cluster.put(pod("q"))
    cluster.create = real  # type: ignore[method-assign]
    await cluster.sync("pod", "q")
    cluster.take_keys()
    cluster.deliver_events()
    assert cluster.take_keys() == []
    assert cluster.controller._state.creating == set()


def test_an_undecodable_owner_is_looked_at_when_it_can_be_read() -> None:
    """F-50: nothing fails meanwhile."""
    cluster = ClaimCluster()
    cluster.put_undecodable("pods", "p")
    assert cluster.put(claim(owner="p", entry="res", allocated=True)) == [CLAIM_KEY]
    assert cluster.put(pod()) == [POD_KEY]


def test_a_pod_whose_group_got_another_claim_records_that() -> None:
    """F-50: the claim that it recorded is gone with its old group (RC-40)."""
    member = pod(group="g", names={"res": "gone"})
    cluster = ClaimCluster(member, group(uid="u-new", names={"res": "c"}), **GROUPS)
    cluster.take_keys()
    made = claim(**OF_GROUP, owner_uid="u-new")
    assert cluster.put(made) == [POD_KEY]


def test_a_foreign_claim_in_the_record_of_a_group_queues_it() -> None:
    """F-50: a sync makes its own one (RC-51)."""
    cluster = ClaimCluster(group(), claim(owner="q", entry="res"), **GROUPS)
    assert cluster.put(group(names={"res": "c"})) == [GROUP_KEY]


def test_a_named_claim_that_is_reserved_by_name_stays() -> None:
    """F-50: consumers of other kinds are not judged (RC-57)."""
    foreign = {"apiGroup": "foo.com", "resource": "pods", "name": "p", "uid": "u-p"}
    cluster = ClaimCluster(pod("p", by_name(), node="n"), claim(consumers=[foreign]))
    assert cluster.remove("pods", "p") == []


async def test_a_claim_in_another_namespace_is_not_adopted() -> None:
    """F-53: a pod uses only claims of its own namespace, also by owner (RC-10, Difference x)."""
    cluster = ClaimCluster(pod(), template())
    assert cluster.put(claim(**GENERATED, namespace="other")) == []
    assert await cluster.sync("pod", "p") == ["create resourceclaims", "apply pods/status"]
    (recorded,) = cluster.get("pods", "p")["status"]["resourceClaimStatuses"]
    assert recorded["resourceClaimName"] != "c"


async def test_what_only_the_server_has_is_synced_again() -> None:
    """F-50: a consumer or claim may be deleted before it is cached: then there is no event."""
    cluster = ClaimCluster(claim(**USED), pod("q", names={"res": "d"}))
    cluster.set(RUNNING)
    cluster.set(claim("d", owner="q", entry="res"))
    for kind, name in (("claim", "c"), ("pod", "q")):
        assert await cluster.sync(kind, name) == []
        assert cluster.outcome == Later(RECHECK_INTERVAL)
    cluster.remove("pods", "p")
    assert await cluster.sync("claim", "c") != []
    assert cluster.outcome == Done()
    cluster.deliver_events()
    assert await cluster.sync("pod", "q") == []
    assert cluster.outcome == Done()


@pytest.mark.parametrize(
    "lost",
    [
        pytest.param(None, id="deleted"),
        pytest.param(claim(owner="q", owner_uid="u-q", entry="res"), id="somebody else's"),
        pytest.param(claim(owner="p", entry="other"), id="for another entry"),
    ],
)
async def test_who_loses_a_claim_that_was_not_recorded_is_queued(lost: Any) -> None:
    """The owner is queued when its claim is deleted after a sync that failed (RC-35)."""
    cluster = ClaimCluster(pod(), template(), claim(**GENERATED))
    cluster.take_keys()
    assert POD_KEY in (cluster.put(lost) if lost else cluster.remove("resourceclaims", "c"))
