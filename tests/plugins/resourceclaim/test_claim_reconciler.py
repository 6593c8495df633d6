"""Syncs of claims: consumers that go, and what follows from the last one."""

from datetime import timedelta
from typing import Any

import pytest
from plugins.resourceclaim.claim_cluster import GROUPS, ClaimCluster, refused
from plugins.resourceclaim.objects import FOREIGN, claim, group, group_user, pod, user
from plugins.tables import row

from kcm_host.api import ApiError, Conflict, Done, Later
from kcm_host_resourceclaim.models.claim import FINALIZER
from kcm_host_resourceclaim.plugin import RECHECK_INTERVAL

STATUS, MAIN, DELETE = (
    "update resourceclaims/status",
    "update resourceclaims",
    "delete resourceclaims",
)
USED: Any = {"allocated": True, "protected": True, "consumers": [user("p")]}
GENERATED: Any = {"owner": "p", "entry": "res"}
OF_GROUP: Any = {"owner": "g", "owner_kind": "PodGroup", "entry": "res"}
USED_BY_GROUP: Any = {"allocated": True, "protected": True, "consumers": [group_user("g")]}
SUCCEEDED = pod(names={"res": "c"}, phase="Succeeded", node="n")
RUNNING = pod(names={"res": "c"}, phase="Running", node="n")
OTHER = pod(uid="u-other", names={"res": "c"})
DELETED = pod(deleting=True, names={"res": "c"})
TERMINATING = pod(deleting=True, node="n", phase="Running", names={"res": "c"})


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        row("T-34: running", [claim(**USED), RUNNING], []),
        row("T-38: replaced", [claim(**USED), OTHER], [STATUS, MAIN]),
        row("T-44: foreign", [claim(consumers=[FOREIGN], allocated=True)], []),
        row("T-45: Succeeded", [claim(**USED, **GENERATED), SUCCEEDED], [STATUS, MAIN, DELETE]),
        row("T-46: never allocated", [claim(**GENERATED), pod(phase="Failed")], [DELETE]),
        row("T-47: for a predecessor", [claim(**GENERATED), OTHER], [DELETE]),
        row("T-48: its pod may be too new", [claim(**GENERATED)], []),
        row("T-49: its pod runs", [claim(**GENERATED), RUNNING], []),
        row("T-50: never ran", [claim(**GENERATED), DELETED], [DELETE]),
        row("T-51: may still run", [claim(**GENERATED), TERMINATING], []),
        row("T-52", [claim(allocated=True, protected=True, deleting=True)], [STATUS, MAIN]),
        row("T-53: not allocated", [claim(protected=True, deleting=True)], [MAIN]),
        row("T-54: in use", [claim(**USED, deleting=True), RUNNING], []),
        row("T-55: not used yet", [claim(allocated=True, protected=True)], []),
        row("T-57: it never ran", [claim(**USED), DELETED], [STATUS, MAIN]),
        row("T-57: a node may be running it", [claim(**USED), TERMINATING], []),
        row(
            "T-58: extended resource",
            [claim(**USED, owner="p", annotations={"extended": "x"}), SUCCEEDED],
            [STATUS, MAIN, DELETE],
        ),
        row("T-59: no claim", [], []),
        row("D-6", [claim(**USED, **GENERATED, deleting=True), SUCCEEDED], [STATUS, MAIN]),
        row("T-41, RC-58", [claim(allocated=True, consumers=[user("p")]), SUCCEEDED], [STATUS]),
        row("T-80, RC-62", [claim(**OF_GROUP), group(), pod(group="g", phase="Failed")], []),
        row("T-75: replaced", [claim(**USED_BY_GROUP), group(uid="x")], [STATUS, MAIN]),
        row("RC-57: still there", [claim(**USED_BY_GROUP), group(deleting=True)], []),
    ],
)
def test_what_is_sent_for_a_claim(objects: Any, expected: list[str]) -> None:
    """Status, then finalizer, then deletion, each only where due (RC-57 to RC-62)."""
    cluster = ClaimCluster(*objects, **GROUPS)
    assert cluster.sent_by("claim", "c") == expected
    assert cluster.sent_by("claim", "c") == [], "and then there is silence"
    assert cluster.asked_for() == []


@pytest.mark.parametrize(
    ("objects", "there", "expected"),
    [
        row("T-36: gone", [claim(**USED)], None, [STATUS, MAIN]),
        row("T-35: too new for the cache", [claim(**USED)], RUNNING, []),
        row("T-39: another one", [claim(**USED)], OTHER, [STATUS, MAIN]),
        row("D-8: done", [claim(**USED)], SUCCEEDED, [STATUS, MAIN]),
        row("T-75: a group is gone", [claim(**USED_BY_GROUP)], None, [STATUS, MAIN]),
        row("RC-57: a group, too new", [claim(**USED_BY_GROUP)], group(), []),
    ],
)
def test_a_consumer_that_is_not_cached_is_asked_for(
    objects: Any, there: Any, expected: list[str]
) -> None:
    """
    One GET; a pod of another UID, or one that is done, counts as gone (RC-57).

    F-50: the claim of one that only the server has is synced again, as no event may ever come.
    """
    cluster = ClaimCluster(*objects, **GROUPS)
    with cluster.disconnected():
        if there is not None:
            cluster.place(there)
        assert cluster.sent_by("claim", "c") == expected
    assert len(cluster.asked_for()) == 1
    assert cluster.asked_for()[0] in ("pods/p", "podgroups/g")
    expected_result = Done() if expected else Later(RECHECK_INTERVAL)
    assert cluster.outcomes[-1].result == expected_result
    cluster.sent_by("claim", "c")
    assert cluster.outcomes[-1].result == Done()


@pytest.mark.parametrize("switches", [{}, {"genericWorkload": True}])
def test_a_group_as_consumer_stays_without_workload_claims(switches: Any) -> None:
    """Switched off, or only looked up (T-75, RC-57)."""
    cluster = ClaimCluster(claim(**USED_BY_GROUP), **switches)
    assert cluster.sent_by("claim", "c") == cluster.asked_for() == []


@pytest.mark.parametrize(
    ("used", "there"),
    [
        row("T-37, RC-18: a pod", claim(**USED), RUNNING),
        row("RC-28: a group", claim(**OF_GROUP, **USED_BY_GROUP), group(names={"res": "c"})),
    ],
)
def test_a_consumer_seen_being_removed_is_not_asked_for(used: Any, there: Any) -> None:
    """Its UID is remembered, and its claims are queued (T-37, RC-16)."""
    cluster = ClaimCluster(used, there, **GROUPS)
    assert cluster.remove(there["resource"], there["metadata"]["name"]) == ["claim:ns/c"]
    assert cluster.sent_by("claim", "c") == [STATUS, MAIN]
    assert cluster.asked_for() == []


def test_a_deallocated_claim_is_free_of_all_marks() -> None:
    """Consumers and allocation go in one write, then the finalizer alone (T-36, T-56, RC-58)."""
    finalizers = ["a.example/x", FINALIZER, "b.example/y"]
    cluster = ClaimCluster(claim(**{**USED, "finalizers": finalizers}))
    cluster.sent_by("claim", "c")
    first, second = (each.body for each in cluster.writes)
    assert first["status"] == {}
    assert first["metadata"]["finalizers"] == finalizers
    assert second["metadata"]["finalizers"] == ["a.example/x", "b.example/y"], "in their order"
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])


@pytest.mark.parametrize(
    ("consumers", "left"),
    [
        row("T-42: the other stays", [user("p"), user("q")], [user("q")]),
        row("T-43: foreign stays", [user("p"), FOREIGN], [FOREIGN]),
        row("in order", [FOREIGN, user("p"), user("q")], [FOREIGN, user("q")]),
        row(
            "pods of another group are foreign",
            [user("p"), user("p", uid="x") | {"apiGroup": "foo.com"}],
            [user("p", uid="x") | {"apiGroup": "foo.com"}],
        ),
    ],
)
def test_consumers_that_stay_keep_the_allocation(consumers: Any, left: Any) -> None:
    """Allocation and finalizer are for those who are left (T-42, T-43, RC-57)."""
    fields = {**USED, "consumers": consumers}
    running = pod("q", phase="Running", node="n")
    cluster = ClaimCluster(claim(**fields, **GENERATED), SUCCEEDED, running)
    assert cluster.sent_by("claim", "c") == [STATUS]
    assert cluster.consumers() == left
    assert "allocation" in cluster.stored("resourceclaims", "c")["status"]


def test_an_unknown_consumer_is_an_error() -> None:
    """Nothing is written before the state of all consumers is known (T-40, RC-57, RC-71)."""
    cluster = ClaimCluster(claim(**USED))
    cluster.answer(refused(500, "InternalError"), verb="get")
    with pytest.raises(ApiError):
        cluster.sent_by("claim", "c")
    assert (cluster.sent(), cluster.messages()) == ([], [])


def test_a_claim_that_is_gone_already_is_fine() -> None:
    """DELETE answered with 404 is success, other refusals are retried (T-93, D-6, RC-62)."""
    cluster = ClaimCluster(claim(**GENERATED), pod(phase="Failed"))
    cluster.answer("Forbidden", verb="delete")
    with pytest.raises(ApiError):
        cluster.sent_by("claim", "c")
    cluster.answer("NotFound", verb="delete")
    assert cluster.sent_by("claim", "c") == [DELETE]


def test_failures_are_retried_with_growing_waits() -> None:
    """After 5, 10, 20 ms; success resets this, and the next failure waits 5 ms (T-81, RC-33)."""
    cluster = ClaimCluster(claim(**USED), RUNNING)
    for failures, milliseconds in ((3, 35), (1, 5)):
        cluster.place(claim(**USED))
        cluster.answer(refused(500, "InternalError"), verb="update", times=failures)
        before = cluster.now
        assert cluster.place(SUCCEEDED) == ["claim:ns/c"]
        cluster.run_until_idle()
        assert cluster.now - before == timedelta(milliseconds=milliseconds)
        cluster.place(RUNNING)


def test_a_conflict_writes_nothing_more() -> None:
    """The status write is guarded by the version (RC-58)."""
    cluster = ClaimCluster(claim(**USED), SUCCEEDED)
    with cluster.disconnected():
        cluster.place(claim(**{**USED, "consumers": [user("p"), user("q")]}))
        with pytest.raises(Conflict):
            cluster.sent_by("claim", "c")
    assert cluster.sent() == [STATUS]


def test_a_claim_that_changes_while_the_server_is_asked_is_left_alone() -> None:
    """Its change was delivered, and queues it again; it is synced once more (RC-32, RC-57)."""
    cluster = ClaimCluster(claim(**USED))
    changed = claim(**{**USED, "consumers": [user("p"), user("q")]})
    cluster.before_response(lambda: cluster.place(changed), verb="get")
    assert cluster.sent_by("claim", "c") == []
    assert cluster.queued() == ["claim:ns/c"]
    assert cluster.sent_until_idle() == [STATUS, MAIN]


def test_the_finalizer_stays_if_its_removal_fails() -> None:
    """Until the claim is deleted, then it is removed (Q-10, RC-59, RC-60)."""
    cluster = ClaimCluster(claim(**USED))
    cluster.before_response(
        lambda: cluster.answer(refused(500, "InternalError"), verb="update"), verb="update"
    )
    with pytest.raises(ApiError):
        cluster.sent_by("claim", "c")
    assert cluster.sent_by("claim", "c") == []
    cluster.place(claim(protected=True, deleting=True))
    assert cluster.sent_by("claim", "c") == [MAIN]


def test_the_watch_event_of_the_last_write_queues_nothing() -> None:
    """A claim that is gone with its finalizer is not synced before the event (T-52, RC-59)."""
    stale = claim(protected=True, deleting=True)
    cluster = ClaimCluster(stale)
    assert cluster.sent_by("claim", "c") == [MAIN]
    cluster.place(stale)
    assert cluster.sent_by("claim", "c") == []
    stale["metadata"]["uid"] = "of-a-namesake"
    cluster.place(stale)
    assert cluster.sent_by("claim", "c") == [MAIN]


def test_a_claim_with_other_finalizers_is_not_marked_as_finalized() -> None:
    """With a new finalizer it is released again (RC-59)."""
    kept = claim(finalizers=[FINALIZER, "a.example/x"], deleting=True)
    cluster = ClaimCluster(kept)
    assert cluster.sent_by("claim", "c") == [MAIN]
    cluster.place(kept)
    assert cluster.sent_by("claim", "c") == [MAIN]
