"""From changes in the cluster to keys of work."""

from typing import Any

import pytest
from plugins.resourceclaim.claim_cluster import ClaimCluster
from plugins.resourceclaim.objects import bare, by_name, by_template, claim, pod, template, user

from kcm_host.api import Undecodable

POD_KEY, CLAIM_KEY = "pod:ns/p", "claim:ns/c"
GENERATED: Any = {"owner": "p", "entry": "res"}
RECORDED: Any = {"names": {"res": "c"}}
MADE = ["create resourceclaims", "apply pods/status"]


@pytest.mark.parametrize(
    ("manifest", "keys"),
    [
        pytest.param(claim(**GENERATED), [], id="T-60: nothing to do"),
        pytest.param(
            claim(consumers=[user("p")], allocated=True), [CLAIM_KEY], id="a consumer not known"
        ),
        pytest.param(
            claim(consumers=[user("done")], allocated=True), [CLAIM_KEY], id="one that is done"
        ),
        pytest.param(claim(owner="done", entry="res"), [CLAIM_KEY], id="an owner that is done"),
        pytest.param(claim(deleting=True, protected=True), [CLAIM_KEY], id="kept by the finalizer"),
    ],
)
def test_a_claim_with_work_is_queued_whenever_it_changes(manifest: Any, keys: list[str]) -> None:
    """Judged on the new state alone; a label or a deletion is no work (T-60, RC-22)."""
    cluster = ClaimCluster(pod("done", phase="Failed"), pod("q"))
    assert cluster.place(manifest) == keys
    manifest["metadata"]["labels"] = {"a": "b"}
    assert cluster.place(manifest) == [], "Difference f: no field that is read has changed"
    assert cluster.remove("resourceclaims", "c") == []


def test_an_allocation_queues_the_pod_that_waits_for_it() -> None:
    """A scheduled pod with a static entry is reserved once (T-61, RC-21.6, RC-23)."""
    cluster = ClaimCluster(pod("p", by_name(), node="n"))
    assert cluster.place(claim()) == []
    assert cluster.place(claim(allocated=True)) == [POD_KEY]
    assert cluster.place(claim(allocated=True, consumers=[user("p")])) == []


@pytest.mark.parametrize(("phase", "keys"), [("Running", [POD_KEY]), ("Succeeded", [])])
def test_a_deleted_claim_queues_its_pod(phase: str, keys: list[str]) -> None:
    """The pod's key alone, and not that of a pod that is done (T-62, D-1, RC-21.3, RC-22)."""
    cluster = ClaimCluster(pod(**RECORDED, phase=phase), claim(**GENERATED))
    assert cluster.remove("resourceclaims", "c") == keys


def test_pods_with_extended_resources_release_their_claim() -> None:
    """When they end, or are gone; a running one needs nothing (T-63, RC-17 to RC-19)."""
    running = bare(pod(extended="c", phase="Running", node="n"))
    cluster = ClaimCluster(claim(owner="p", allocated=True, consumers=[user("p")]))
    for phase in ("Succeeded", "Failed"):
        assert cluster.place(running) == []
        assert cluster.place(bare(pod(extended="c", phase=phase, node="n"))) == [CLAIM_KEY]
    cluster.place(running)
    assert cluster.remove("pods", "p") == [CLAIM_KEY]
    assert "u-p" in cluster.controller._state.deleted_uids


@pytest.mark.parametrize(
    ("manifest", "keys"),
    [
        pytest.param(pod(), [POD_KEY], id="T-65: nothing made yet"),
        pytest.param(bare(pod()), [], id="T-65: no entries"),
        pytest.param(pod("p", {"name": "new"}), [POD_KEY], id="an unknown entry"),
        pytest.param(
            pod("p", {"name": "new"}, phase="Failed"),
            [CLAIM_KEY],
            id="T-64: ended",
        ),
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
    cluster.place({**bare(pod()), "status": {}})
    assert cluster.place(manifest) == keys
    manifest["metadata"]["labels"] = {"a": "b"}
    assert cluster.place(manifest) == [], "Difference f"


def test_an_ended_pod_is_not_reserved_again() -> None:
    """A shared claim keeps its other consumers; later changes queue nothing (T-90, D-1, Q-1)."""
    used: Any = {"allocated": True, "protected": True}
    shared = claim(**used, consumers=[user("p"), user("q")])
    running = pod("q", by_name(), phase="Running", node="n")
    cluster = ClaimCluster(pod("p", by_name(), phase="Running", node="n"), running, shared)
    assert cluster.place(pod("p", by_name(), phase="Succeeded", node="n")) == [CLAIM_KEY]
    assert cluster.place(claim(**used, consumers=[user("q")])) == []


def test_a_template_queues_those_who_wait_for_it() -> None:
    """In its namespace; a deleted one queues nothing (T-66, RC-25, RC-26)."""
    cluster = ClaimCluster(pod(), pod(namespace="other"), pod("q", by_template(template="x")))
    assert cluster.place(template()) == [POD_KEY]
    assert cluster.place(template(admin=True)) == [POD_KEY]
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
    handlers = cluster.controller._handlers
    assert handlers is not None
    handlers._synced = False
    assert cluster.place(pod()) == cluster.remove("pods", "p") == []
    assert cluster.place(claim(consumers=[user("q")], allocated=True)) == []
    assert cluster.place(template()) == []


def test_a_removed_pod_releases_its_claims() -> None:
    """Whatever its phase; a pod without claims is not remembered (RC-17 to RC-19)."""
    used: Any = {"allocated": True, "consumers": [user("p")]}
    cluster = ClaimCluster(
        pod("p", by_template(), by_name("x", "shared"), **RECORDED),
        bare(pod("plain")),
        claim(**GENERATED, **used),
        claim("shared", **used),
    )
    assert cluster.remove("pods", "p") == [CLAIM_KEY, "claim:ns/shared"]
    assert cluster.remove("pods", "plain") == []
    removed = cluster.controller._state.deleted_uids
    assert ("u-p" in removed, "u-plain" in removed) == (True, False)


def test_a_pod_recreated_while_the_watch_was_interrupted_is_two() -> None:
    """The claims of the old one are looked at, the new one gets its own (D-11, RC-18)."""
    cluster = ClaimCluster(pod(**RECORDED), claim(**GENERATED))
    assert cluster.place(pod(uid="u-new")) == [CLAIM_KEY, POD_KEY]
    assert "u-p" in cluster.controller._state.deleted_uids


def test_a_claim_just_created_needs_no_second_sync() -> None:
    """The pod's new status may be delivered before the claim (RC-21.3, Difference f)."""
    cluster = ClaimCluster(template())
    cluster.add_created(claim(**GENERATED))
    assert cluster.place(pod(**RECORDED)) == []
    assert cluster.place(pod(**RECORDED, node="n")) == []


def test_a_claim_of_an_ended_pod_is_deleted_once() -> None:
    """Three writes, and its deletion makes nothing new (T-45, T-91, D-1)."""
    generated: Any = {**GENERATED, "allocated": True, "protected": True, "consumers": [user("p")]}
    cluster = ClaimCluster(pod(**RECORDED, phase="Running", node="n"), claim(**generated))
    cluster.place(template())
    cluster.place(pod(**RECORDED, phase="Succeeded", node="n"))
    assert len(cluster.sent_until_idle()) == 3
    assert cluster.names() == []
    cluster.place(pod(**RECORDED, phase="Succeeded", node="other"))
    assert cluster.sent_until_idle() == []


def test_a_claim_deleted_by_accident_is_made_again() -> None:
    """At once, although it was created a moment ago (T-92, D-2)."""
    cluster = ClaimCluster(pod(), template())
    cluster.run_until_idle()
    (first,) = cluster.names()
    assert cluster.remove("resourceclaims", first) == [POD_KEY]
    assert cluster.sent_until_idle() == MADE
    (second,) = cluster.names()
    assert cluster.recorded() == {"res": second}
    assert first != second


@pytest.mark.parametrize("deleted", [False, True])
def test_the_watch_may_be_faster_than_the_response(deleted: bool) -> None:
    """The claim is not added; if it was deleted since, another is made (RC-15, D-2, IQ-96)."""
    cluster = ClaimCluster(pod(), template())

    def meanwhile() -> None:
        assert cluster.controller._state.creating == {"u-p"}
        if deleted:
            cluster.remove("resourceclaims", cluster.names()[0])

    cluster.before_response(meanwhile, verb="create")
    assert cluster.sent_by("pod", "p") == MADE
    assert len(cluster.controller._state.created) == 0
    assert cluster.controller._state.creating == set()
    assert cluster.sent_until_idle() == (MADE if deleted else [])


def test_an_undecodable_claim_is_there_all_the_same() -> None:
    """It does not count as missing: no second one is made; an Event is written (RC-36, RC-70)."""
    cluster = ClaimCluster(template(), {**claim(), "status": "undecodable"})
    assert cluster.place(pod(**RECORDED)) == []
    with pytest.raises(Undecodable):
        cluster.sent_by("pod", "p")
    (event,) = cluster.messages()
    assert event.startswith("Pod p: PodResourceClaim res: ")
    assert cluster.sent() == []


def test_an_undecodable_consumer_is_there_all_the_same() -> None:
    """The claim's sync fails and is retried; nothing is taken away (RC-57)."""
    cluster = ClaimCluster({**pod(), "status": "undecodable"})
    used = claim(consumers=[user("p")], allocated=True, protected=True)
    assert cluster.place(used) == [CLAIM_KEY]
    with pytest.raises(Undecodable):
        cluster.sent_by("claim", "c")
    assert (cluster.sent(), cluster.asked_for()) == ([], [])
