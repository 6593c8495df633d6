"""From changes in the cluster to keys of work."""

from typing import Any

import pytest
from plugins.resourceclaim.fake_cluster import ClaimCluster
from plugins.resourceclaim.objects import (
    bare,
    by_name,
    by_template,
    claim,
    pod,
    template,
    user,
)

from kcm_host.api import Undecodable

POD_KEY, CLAIM_KEY = "pod:ns/p", "claim:ns/c"
GENERATED: Any = {"owner": "p", "entry": "res"}
RECORDED: Any = {"names": {"res": "c"}}


def test_a_claim_is_queued_when_there_is_something_to_do() -> None:
    """Nothing to do: no key, also for a new label or a deletion (T-60, RC-22, Difference f)."""
    cluster = ClaimCluster(pod(**RECORDED), claim("other"))
    assert cluster.put(claim(**GENERATED)) == []
    labelled = claim(**GENERATED)
    labelled["metadata"]["labels"] = {"a": "b"}
    assert cluster.put(labelled) == []
    assert cluster.put(claim(**GENERATED, consumers=[user("gone")], allocated=True)) == [CLAIM_KEY]
    assert cluster.remove("resourceclaims", "other") == []


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(claim(consumers=[user("p")], allocated=True), id="a consumer not known"),
        pytest.param(claim(consumers=[user("done")], allocated=True), id="a consumer that is done"),
        pytest.param(claim(owner="done", entry="res"), id="an owner that is done"),
        pytest.param(claim(deleting=True, protected=True), id="kept by the finalizer alone"),
    ],
)
def test_a_claim_with_work_is_queued_whenever_it_changes(manifest: Any) -> None:
    """Judged on the new state alone (RC-22)."""
    cluster = ClaimCluster(pod("done", phase="Failed", **RECORDED))
    assert cluster.put(manifest) == [CLAIM_KEY]


def test_an_allocation_queues_the_pod_that_waits_for_it() -> None:
    """A scheduled pod with a static entry is reserved once (T-61, RC-21.6, RC-23)."""
    cluster = ClaimCluster(pod("p", by_name(), node="n"))
    assert cluster.put(claim()) == []
    assert cluster.put(claim(allocated=True)) == [POD_KEY]
    assert cluster.put(claim(allocated=True, consumers=[user("p")])) == []


def test_a_deleted_claim_queues_its_pod() -> None:
    """The pod's key alone (T-62, RC-21.3, RC-22)."""
    cluster = ClaimCluster(pod(**RECORDED), claim(**GENERATED))
    assert cluster.remove("resourceclaims", "c") == [POD_KEY]


def test_a_deleted_claim_does_not_queue_a_pod_that_is_done() -> None:
    """What it had made would be deleted again (D-1, RC-21)."""
    cluster = ClaimCluster(pod(**RECORDED, phase="Succeeded"), claim(**GENERATED))
    assert cluster.remove("resourceclaims", "c") == []


def test_pods_with_extended_resources_release_their_claim() -> None:
    """When they end, or are gone; a running one needs nothing (T-63, RC-17 to RC-19)."""
    running = bare(pod(extended="c", phase="Running", node="n"))
    cluster = ClaimCluster(claim(owner="p", allocated=True, consumers=[user("p")]))
    for phase in ("Succeeded", "Failed"):
        assert cluster.put(running) == []
        assert cluster.put(bare(pod(extended="c", phase=phase, node="n"))) == [CLAIM_KEY]
    cluster.put(running)
    assert cluster.remove("pods", "p") == [CLAIM_KEY]
    assert "u-p" in cluster.controller._state.deleted_uids


def test_an_ended_pod_needs_no_work_itself() -> None:
    """Not even for an unsupported entry (T-64, D-1)."""
    ended = pod("p", {"name": "new"}, phase="Succeeded")
    assert ClaimCluster().put(ended) == []


@pytest.mark.parametrize(
    ("manifest", "keys"),
    [
        pytest.param(pod(), [POD_KEY], id="T-65: nothing made yet"),
        pytest.param(bare(pod()), [], id="T-65: no entries"),
        pytest.param(pod("p", {"name": "new"}), [POD_KEY], id="an unknown entry"),
        pytest.param(pod(names={"res": None}), [], id="no claim needed"),
        pytest.param(pod(names={"res": "gone"}), [POD_KEY], id="its claim is gone"),
        pytest.param(pod("p", by_name("res", "gone")), [], id="a static claim is missing"),
        pytest.param(
            pod("p", by_name("a", "gone"), by_template("b")), [POD_KEY], id="T-68: the second entry"
        ),
        pytest.param(
            pod("p", by_template("a"), names={"a": "foreign"}), [POD_KEY], id="of another"
        ),
        pytest.param(pod(deleting=True, node="n"), [], id="deleting"),
        pytest.param(pod(**RECORDED, deleting=True), [CLAIM_KEY], id="deleted before it ran"),
        pytest.param(pod(**RECORDED, node="n"), [], id="T-67: reserved"),
        pytest.param(
            pod("p", by_template(), by_name("x", "free"), node="n", **RECORDED),
            [POD_KEY],
            id="allocated and not reserved",
        ),
        pytest.param(
            pod("p", by_template(), by_name("x", "free"), **RECORDED), [], id="the scheduler's"
        ),
        pytest.param(
            pod("p", by_name("a", "c"), by_name("b", "free"), phase="Failed", node="n"),
            [CLAIM_KEY],
            id="T-90: ended, and free needs nothing",
        ),
    ],
)
def test_what_a_pod_queues(manifest: Any, keys: list[str]) -> None:
    """Its claims when it is done, itself when it needs work (RC-17 to RC-21, D-1)."""
    cluster = ClaimCluster(
        claim(**GENERATED, allocated=True, consumers=[user("p")]),
        claim("free", allocated=True),
        claim("foreign", owner="q", entry="a", allocated=True),
    )
    cluster.put({**bare(pod()), "status": {}})
    assert cluster.put(manifest) == keys


def test_an_ended_pod_is_not_reserved_again() -> None:
    """A shared claim keeps its other consumers; later changes queue nothing (T-90, D-1)."""
    used = {"allocated": True, "protected": True}
    shared = claim(**used, consumers=[user("p"), user("q")])
    running = pod("q", by_name(), phase="Running", node="n")
    cluster = ClaimCluster(pod("p", by_name(), phase="Running", node="n"), running, shared)
    assert cluster.put(pod("p", by_name(), phase="Succeeded", node="n")) == [CLAIM_KEY]
    assert cluster.put(claim(**used, consumers=[user("q")])) == []


def test_a_template_queues_those_who_wait_for_it() -> None:
    """In its namespace; a deleted one queues nothing (T-66, RC-25, RC-26)."""
    cluster = ClaimCluster(pod(), pod(namespace="other"), pod("q", by_template(template="x")))
    assert cluster.put(template()) == [POD_KEY]
    assert cluster.put(template(admin=True)) == [POD_KEY]
    assert cluster.remove("resourceclaimtemplates", "t") == []


def test_at_the_start_everything_is_looked_at_once() -> None:
    """When all caches are synced; objects that need no sync get no key (T-69, RC-4, RC-7)."""
    cluster = ClaimCluster(
        pod("waiting"),
        pod("right", names={"res": "right"}),
        pod("ended", names={"res": "ended"}, phase="Succeeded"),
        claim("right", owner="right", entry="res"),
        claim("ended", owner="ended", entry="res"),
        claim("stale", consumers=[user("long-gone")], allocated=True),
        claim("unused", allocated=True, protected=True),
        claim("replaced", owner="right", owner_uid="old", entry="res"),
    )
    assert cluster.at_start == [
        "claim:ns/ended",
        "claim:ns/replaced",
        "claim:ns/stale",
        "pod:ns/waiting",
    ]


def test_nothing_is_queued_before_all_caches_are_synced() -> None:
    """Changes that are delivered before another cache is synced queue nothing (RC-4)."""
    cluster = ClaimCluster()
    fresh = ClaimCluster()
    handlers = fresh.watches["pods"].keys.__self__  # type: ignore[attr-defined] # a bound method
    handlers._synced = False
    assert fresh.put(pod()) == cluster.remove("pods", "none") == []
    assert fresh.put(claim(consumers=[user("q")], allocated=True)) == []
    assert fresh.put(template()) == []
    fresh._queue(handlers.on_synced(fresh.view))
    assert fresh.take_keys() == [CLAIM_KEY, POD_KEY]


def test_an_object_listed_again_queues_nothing() -> None:
    """A new version without a change that is read (RC-22, Difference f)."""
    cluster = ClaimCluster(pod(**RECORDED, phase="Succeeded"), claim(**GENERATED))
    assert cluster.put(pod(**RECORDED, phase="Succeeded")) == []
    assert cluster.put(claim(**GENERATED)) == []


def test_a_removed_pod_releases_its_claims() -> None:
    """Whatever its phase; a pod without claims is not remembered (RC-17 to RC-19)."""
    used: Any = {"allocated": True, "consumers": [user("p")]}
    cluster = ClaimCluster(
        pod("p", by_template(), by_name("x", "shared"), **RECORDED),
        claim(**GENERATED, **used),
        claim("shared", **used),
    )
    cluster.put(bare(pod("plain")))
    assert cluster.remove("pods", "p") == [CLAIM_KEY, "claim:ns/shared"]
    assert cluster.remove("pods", "plain") == []
    removed = cluster.controller._state.deleted_uids
    assert ("u-p" in removed, "u-plain" in removed) == (True, False)


def test_a_pod_recreated_while_the_watch_was_interrupted_is_two() -> None:
    """The claims of the old one are looked at, the new one gets its own (D-11, RC-18)."""
    cluster = ClaimCluster(pod(**RECORDED), claim(**GENERATED))
    assert cluster.put(pod(uid="u-new")) == [CLAIM_KEY, POD_KEY]
    assert "u-p" in cluster.controller._state.deleted_uids


async def test_a_claim_just_created_needs_no_second_sync() -> None:
    """The pod's new status may be delivered before the claim (RC-21.3, Difference f)."""
    cluster = ClaimCluster(pod(), template())
    await cluster.sync("pod", "p")
    recorded = cluster.get("pods", "p")["status"]["resourceClaimStatuses"]
    names = {each["name"]: each["resourceClaimName"] for each in recorded}
    assert cluster.put(pod(names=names)) == []
    assert cluster.put(pod(names=names, node="n")) == []


async def test_a_claim_of_an_ended_pod_is_deleted_once() -> None:
    """Three writes, and its deletion makes nothing new (T-45, T-91, D-1)."""
    generated: Any = {**GENERATED, "allocated": True, "protected": True, "consumers": [user("p")]}
    cluster = ClaimCluster(pod(**RECORDED, phase="Running", node="n"), claim(**generated))
    cluster.put(template())
    cluster.put(pod(**RECORDED, phase="Succeeded", node="n"))
    assert len(await cluster.sync_until_idle()) == 3
    assert not [key for of, key in cluster.server if of == "resourceclaims"]
    assert len(cluster.controller._state.created) == 0
    cluster.put(pod(**RECORDED, phase="Succeeded", node="other"))
    assert await cluster.sync_until_idle() == []


async def test_a_claim_deleted_by_accident_is_made_again() -> None:
    """At once, although it was created a moment ago (T-92, D-2)."""
    cluster = ClaimCluster(pod(), template())
    await cluster.sync("pod", "p")
    (first,) = [key.name for of, key in cluster.server if of == "resourceclaims"]
    cluster.deliver_events()
    assert cluster.take_keys() == []
    assert cluster.remove("resourceclaims", first) == [POD_KEY]
    assert await cluster.sync_until_idle() == ["create resourceclaims", "apply pods/status"]
    (second,) = [key.name for of, key in cluster.server if of == "resourceclaims"]
    (recorded,) = cluster.get("pods", "p")["status"]["resourceClaimStatuses"]
    assert recorded == {"name": "res", "resourceClaimName": second}
    assert first != second


async def test_a_claim_deleted_before_it_was_seen_is_made_again() -> None:
    """The response to the creation arrives after the event of the deletion (D-2, IQ-96)."""
    cluster = ClaimCluster(pod(), template())
    real = cluster.create

    async def slow(*given: Any, **named: Any) -> Any:
        made = await real(*given, **named)
        cluster.deliver_events()
        cluster.remove("resourceclaims", made["metadata"]["name"])
        return made

    cluster.create = slow  # type: ignore[method-assign] # an answer that takes its time
    await cluster.sync("pod", "p")
    cluster.create = real  # type: ignore[method-assign]
    assert len(cluster.controller._state.created) == 0
    assert await cluster.sync_until_idle() == ["create resourceclaims", "apply pods/status"]


async def test_a_claim_that_the_informer_has_first_is_not_added() -> None:
    """The watch may be quicker than the answer (RC-15, D-2)."""
    cluster = ClaimCluster(pod(), template())
    real = cluster.create

    async def slow(*given: Any, **named: Any) -> Any:
        made = await real(*given, **named)
        cluster.deliver_events()
        return made

    cluster.create = slow  # type: ignore[method-assign] # an answer that takes its time
    await cluster.sync("pod", "p")
    assert len(cluster.controller._state.created) == 0


async def test_a_claim_that_does_not_fit_is_there_all_the_same() -> None:
    """It does not count as missing: no second one is made; an Event is written (RC-36, RC-70)."""
    cluster = ClaimCluster(template())
    cluster.put_undecodable("resourceclaims", "c")
    assert cluster.put(pod(**RECORDED)) == []
    with pytest.raises(Undecodable):
        await cluster.sync("pod", "p")
    (event,) = cluster.events
    assert event.startswith("Pod p: PodResourceClaim res: ")
    assert cluster.sent == []


async def test_a_consumer_that_does_not_fit_is_there_all_the_same() -> None:
    """The claim's sync fails and is retried; nothing is taken away (RC-57)."""
    cluster = ClaimCluster()
    cluster.put_undecodable("pods", "p")
    used = claim(consumers=[user("p")], allocated=True, protected=True)
    assert cluster.put(used) == [CLAIM_KEY]
    with pytest.raises(Undecodable):
        await cluster.sync("claim", "c")
    assert (cluster.sent, cluster.reads) == ([], [])
