"""From changes in the cluster to keys of work, of the changed object and of others."""

from typing import Any

import pytest
from plugins.resourceclaim.claim_cluster import GROUPS, ClaimCluster
from plugins.resourceclaim.objects import (
    Manifest,
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

from kcm_host.api import Undecodable
from kcm_host_resourceclaim.plugin import RECHECK_INTERVAL

#: The keys of pod, claim and PodGroup.
P, C, G = "pod:ns/p", "claim:ns/c", "podgroup:ns/g"
USED: Any = {"allocated": True, "protected": True, "consumers": [user("p")]}
GENERATED: Any = {"owner": "p", "entry": "res"}
OF_GROUP: Any = {"owner": "g", "owner_kind": "PodGroup", "entry": "res"}
USED_BY_GROUP: Any = {"allocated": True, "consumers": [group_user("g")]}
RECORDED: Any = {"names": {"res": "c"}}
LOOKUPS: Any = {"genericWorkload": True}
MADE = ["create resourceclaims", "apply pods/status"]
RUNNING = bare(pod(node="n", phase="Running"))
FOREIGN_POD = {"apiGroup": "foo.com", "resource": "pods", "name": "p", "uid": "u-p"}


def row(
    name: str, objects: list[Manifest], change: Manifest | str, *keys: str, **switches: bool
) -> Any:
    """Return a row of a table: a change among these objects, a deletion as text, and the keys."""
    return pytest.param(objects, change, list(keys), switches, id=name)


def check(objects: list[Manifest], change: Manifest | str, keys: list[str], switches: Any) -> None:
    """Check which keys a change queues."""
    cluster = ClaimCluster(*objects, **switches)
    if isinstance(change, str):
        assert cluster.remove(*change.split("/")) == keys
        return
    assert cluster.place(change) == keys
    labelled = {**change, "metadata": {**change["metadata"], "labels": {"a": "b"}}}
    assert cluster.place(labelled) == [], "Difference f: no field that is read has changed"


CLAIMED_POD = pod(**RECORDED, node="n", phase="Running")
DONE = pod("done", phase="Failed")


@pytest.mark.parametrize(
    ("objects", "change", "keys", "switches"),
    [
        row("T-60: nothing to do", [CLAIMED_POD], claim(**GENERATED)),
        row("a consumer not known", [], claim(**USED), C),
        row("one that is done", [DONE], claim(**{**USED, "consumers": [user("done")]}), C),
        row("an owner that is done", [DONE], claim(owner="done", entry="res"), C),
        row("kept by the finalizer alone", [], claim(deleting=True, protected=True), C),
        row("not allocated", [pod("p", by_name(), node="n")], claim()),
        row("T-61, RC-23", [pod("p", by_name(), node="n")], claim(allocated=True), P),
        row("reserved", [pod("p", by_name(), node="n")], claim(**USED)),
        row("it may be adopted (RC-38)", [pod()], claim(**GENERATED), P),
        row("of a predecessor", [pod()], claim(**GENERATED, owner_uid="u-old"), C),
        row("of nobody", [], claim("x", owner="none", entry="res")),
        row("F-53: in another namespace", [pod()], claim(**GENERATED, namespace="other")),
        row(
            "of a group and its pods (RC-40, RC-52)",
            [group(), pod(group="g")],
            claim(**OF_GROUP),
            P,
            G,
            **GROUPS,
        ),
        row("of a group, switched off", [pod(group="g")], claim(**OF_GROUP)),
        row(
            "the record had one that went with the old group (RC-40)",
            [pod(group="g", names={"res": "x"}), group(uid="new", **RECORDED)],
            claim(**OF_GROUP, owner_uid="new"),
            P,
            **GROUPS,
        ),
        row("T-62, RC-21.3", [pod(**RECORDED), claim(**GENERATED)], "resourceclaims/c", P),
        row("D-1", [pod(**RECORDED, phase="Failed"), claim(**GENERATED)], "resourceclaims/c"),
        row("nobody needs it", [pod("q"), claim()], "resourceclaims/c"),
        row("not recorded (RC-35)", [pod(), claim(**GENERATED)], "resourceclaims/c", P),
        row("it was taken away", [pod(), claim(**GENERATED)], claim(owner="q"), P),
        row("its entry", [pod(), claim(**GENERATED)], claim(owner="p", entry="x"), P),
        row(
            "RC-11, RC-24", [group(**RECORDED), claim(**OF_GROUP)], "resourceclaims/c", G, **GROUPS
        ),
    ],
)
def test_what_a_claim_queues(objects: Any, change: Any, keys: Any, switches: Any) -> None:
    """Itself and those that name or own it, judged on the new state (RC-10, RC-22 to 24, F-50)."""
    check(objects, change, keys, switches)


LOST = pod(group="g", names={"res": "x"})
FORMER_GROUP = [bare(group()), claim(**USED_BY_GROUP)]
JUDGED = [
    claim(**GENERATED, allocated=True, consumers=[user("p")]),
    claim("free", allocated=True),
    claim("foreign", owner="q", entry="a", allocated=True),
    {**bare(pod()), "status": {}},
]
TERMINATING = bare(pod(deleting=True, node="n", phase="Running"))
EXTENDED = claim(owner="p", allocated=True, consumers=[user("p")])
SHARED = [pod("p", by_template(), by_name("x", "s"), **RECORDED), claim("s", **USED)]


@pytest.mark.parametrize(
    ("objects", "change", "keys", "switches"),
    [
        row("T-65: nothing made yet", JUDGED, pod(), P),
        row("an unknown entry", JUDGED, pod("p", {"name": "new"}), P),
        row("T-64: ended", JUDGED, pod("p", {"name": "new"}, phase="Failed"), C),
        row("no claim needed", JUDGED, pod(names={"res": None})),
        row("its claim is gone", JUDGED, pod(names={"res": "gone"}), P),
        row("a static claim is missing", JUDGED, pod("p", by_name("res", "gone"))),
        row("T-68", JUDGED, pod("p", by_name("a", "gone"), by_template("b")), P),
        row("of another", JUDGED, pod("p", by_template("a"), names={"a": "foreign"}), P),
        row("deleting", JUDGED, pod(deleting=True, node="n")),
        row("deleted before it ran", JUDGED, pod(**RECORDED, deleting=True), C),
        row("T-67: reserved", JUDGED, pod(**RECORDED, node="n")),
        row(
            "allocated and not reserved",
            JUDGED,
            pod("p", by_template(), by_name("x", "free"), node="n", **RECORDED),
            P,
        ),
        row("the scheduler's", JUDGED, pod("p", by_template(), by_name("x", "free"), **RECORDED)),
        row(
            "T-90, Q-1: ended, and free needs nothing",
            JUDGED,
            pod("p", by_name("a", "c"), by_name("b", "free"), phase="Failed", node="n"),
            C,
        ),
        row("T-63", [EXTENDED, RUNNING], bare(pod(phase="Succeeded", node="n")), C),
        row("T-63: gone", [EXTENDED, RUNNING], "pods/p", C),
        row("RC-19: gone", [*SHARED, claim(**GENERATED, **USED)], "pods/p", C, "claim:ns/s"),
        row("D-11, RC-18", [pod(**RECORDED), claim()], pod(uid="new"), P),
        row("D-11", [pod(**RECORDED), claim(**GENERATED)], pod(uid="new"), C, P),
        row("a consumer by its name (RC-57)", [claim(**USED)], bare(pod(uid="new")), C),
        row("elsewhere", [claim(**USED)], bare(pod(namespace="other", phase="Failed"))),
        row("a node ends no consumer", [bare(pod()), claim(**USED)], bare(pod(node="n"))),
        row("nor does a first sign of life", [bare(pod()), claim(**USED)], RUNNING),
        row("nor a deletion", [RUNNING, claim(**USED)], TERMINATING),
        row("another kind of that name", [pod(), claim(consumers=[FOREIGN_POD])], "pods/p"),
        row("the key of the group does", [group(names={"res": "x"})], LOST, **GROUPS),
        row("the group is missing", [], LOST, P, **GROUPS),
        row("switched off", [], LOST, P),
        row("only looked up", [group()], LOST, P, **LOOKUPS),
        row("no target", [group("g", {"name": "new"}, by_template())], LOST, P, **GROUPS),
    ],
)
def test_what_a_pod_queues(objects: Any, change: Any, keys: Any, switches: Any) -> None:
    """Its claims when it is done, itself when it needs work (RC-17 to RC-21, D-1, F-50)."""
    check(objects, change, keys, switches)


MEMBERS = [
    pod("one", group="g"),
    pod("two", group="g"),
    pod("recorded", group="g", **RECORDED),
    pod("stranger", group="h", **RECORDED),
    bare(pod("plain", group="g")),
    group(),
]
UNDECODABLE = {**claim(), "status": "undecodable"}
NAMED = ("pod:ns/one", "pod:ns/two")
WAITING = [pod(), pod("q", by_template(template="x"))]


@pytest.mark.parametrize(
    ("objects", "change", "keys", "switches"),
    [
        row("T-79, RC-13", MEMBERS, group(**RECORDED), *NAMED, G, **GROUPS),
        row(
            "RC-29",
            [*MEMBERS, claim(**OF_GROUP)],
            group(**RECORDED, deleting=True),
            *NAMED,
            **GROUPS,
        ),
        row(
            "a foreign claim is recorded (RC-51)",
            [group(), claim(owner="q")],
            group(**RECORDED),
            G,
            **GROUPS,
        ),
        row("no claim needed", [], group(names={"res": None}), **GROUPS),
        row("an undecodable claim", [UNDECODABLE], group(**RECORDED), **GROUPS),
        row("a static claim is missing", [], group("h", by_name("s", "gone")), **GROUPS),
        row(
            "D-11, RC-28",
            [group(**RECORDED), claim(**OF_GROUP, **USED_BY_GROUP)],
            group(uid="new"),
            C,
            G,
            **GROUPS,
        ),
        row("without entries", FORMER_GROUP, bare(group(uid="new")), C, **GROUPS),
        row("gone", FORMER_GROUP, "podgroups/g", C, **GROUPS),
        row("only looked up (RC-5, Difference s)", [pod(group="g")], group(), P, **LOOKUPS),
        row("of nobody", [pod(group="g")], bare(group("h")), **LOOKUPS),
        row("of nobody, gone", [pod(group="g"), bare(group("h"))], "podgroups/h", **LOOKUPS),
        row("T-66, RC-25", WAITING, template(), P),
        row("in its namespace", WAITING, template(namespace="other")),
        row("T-66: changed", [*WAITING, template()], template(admin=True), P),
        row("RC-26: gone", [*WAITING, template()], "resourceclaimtemplates/t"),
        row("RC-12: a group", [group()], template(), G, **GROUPS),
    ],
)
def test_what_a_group_and_a_template_queue(
    objects: Any, change: Any, keys: Any, switches: Any
) -> None:
    """A group its pods and claims, a template all that wait for it (RC-25 to RC-30, F-50)."""
    check(objects, change, keys, switches)


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
    assert (cluster.place(end) if end else cluster.remove("pods", "p")) == [C]
    cluster.run_until_idle()
    assert cluster.names() == []


def test_a_namesake_deletes_the_claim_of_its_predecessor() -> None:
    """F-51: a finalizer kept it from the garbage collector until the namesake came (T-47)."""
    owned = claim(**GENERATED, protected=True, allocated=True)
    cluster = ClaimCluster(RUNNING, owned)
    assert cluster.remove("pods", "p") == [], "the garbage collector deletes it (T-48)"
    assert cluster.place(bare(pod(uid="u-new"))) == [C]
    assert cluster.sent_until_idle()[0] == "delete resourceclaims"


def test_uids_of_deleted_pods_are_stored_if_a_claim_may_need_them() -> None:
    """F-50: of those with claims alone (RC-16, RC-18, RC-19)."""
    objects = pod("named"), bare(pod("used")), bare(pod("plain")), pod("replaced")
    cluster = ClaimCluster(*objects, claim(consumers=[user("used")], allocated=True))
    for name in ("named", "used", "plain"):
        cluster.remove("pods", name)
    cluster.place(pod("replaced", uid="u-new"))
    removed = cluster.controller._state.deleted_uids
    expected = [True, True, False, True, False]
    names = ("u-named", "u-used", "u-plain", "u-replaced", "u-new")
    assert [name in removed for name in names] == expected


@pytest.mark.parametrize("is_first", [False, True])
def test_a_claim_that_was_just_created_does_not_queue_its_owner(is_first: bool) -> None:
    """F-50: it is cached already, whichever of response and event is first."""
    cluster = ClaimCluster(pod(), template())
    if is_first:
        cluster.before_response(verb="create")
    assert cluster.sent_by("pod", "p") == MADE
    assert cluster.queued() == []


def test_an_undecodable_owner_is_looked_at_when_it_can_be_read() -> None:
    """F-50: nothing fails meanwhile."""
    cluster = ClaimCluster({**pod(), "status": "undecodable"})
    assert cluster.place(claim(owner="p", entry="res", allocated=True)) == [C]
    assert cluster.place(pod()) == [P]


def test_what_only_the_server_has_is_found_again() -> None:
    """F-50: a claim may be deleted before it is cached: then there is no event."""
    cluster = ClaimCluster(pod(names={"res": "c"}), template())
    with cluster.disconnected():
        cluster.place(claim(**GENERATED))
        assert cluster.sent_until_idle() == []
        cluster.remove("resourceclaims", "c")
    assert cluster.sent_until_idle() == []
    cluster.advance(RECHECK_INTERVAL)
    assert cluster.recorded() == {"res": cluster.names()[0]}


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
    assert cluster.remove("resourceclaims", first) == [P]
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
    cluster = ClaimCluster(template(), UNDECODABLE)
    assert cluster.place(pod(**RECORDED)) == []
    with pytest.raises(Undecodable) as raised:
        cluster.sent_by("pod", "p")
    assert cluster.messages() == [f"Pod p: PodResourceClaim res: {raised.value}"]
    assert cluster.sent() == []


def test_an_undecodable_consumer_is_there_all_the_same() -> None:
    """The claim's sync fails and is retried; nothing is taken away (RC-57)."""
    cluster = ClaimCluster({**pod(), "status": "undecodable"})
    used = claim(consumers=[user("p")], allocated=True, protected=True)
    assert cluster.place(used) == [C]
    with pytest.raises(Undecodable):
        cluster.sent_by("claim", "c")
    assert (cluster.sent(), cluster.asked_for()) == ([], [])
