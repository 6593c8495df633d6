"""Syncs of claims: consumers that go, and what follows from the last one."""

from typing import Any

import pytest
from plugins.resourceclaim.fake_cluster import ClaimCluster, refused
from plugins.resourceclaim.objects import FOREIGN, claim, pod, user

from kcm_host.api import ApiError, Conflict
from kcm_host_resourceclaim.models.claim import FINALIZER

STATUS, MAIN, DELETE = (
    "update resourceclaims/status",
    "update resourceclaims",
    "delete resourceclaims",
)
USED: Any = {"allocated": True, "protected": True, "consumers": [user("p")]}
GENERATED: Any = {"owner": "p", "entry": "res"}
SUCCEEDED = pod(names={"res": "c"}, phase="Succeeded", node="n")
RUNNING = pod(names={"res": "c"}, phase="Running", node="n")
OTHER = pod(uid="u-other", names={"res": "c"})


def stored(cluster: ClaimCluster) -> dict[str, Any]:
    """Return the status of the claim on the server."""
    status: dict[str, Any] = cluster.get("resourceclaims", "c")["status"]
    return status


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([claim(**USED), RUNNING], [], id="T-34: running"),
        pytest.param([claim(**USED)], [STATUS, MAIN], id="T-36: gone everywhere"),
        pytest.param([claim(**USED), OTHER], [STATUS, MAIN], id="T-38: replaced"),
        pytest.param([claim(consumers=[FOREIGN], allocated=True)], [], id="T-44: foreign"),
        pytest.param(
            [claim(**USED, **GENERATED), SUCCEEDED], [STATUS, MAIN, DELETE], id="T-45: Succeeded"
        ),
        pytest.param(
            [claim(**GENERATED), pod(phase="Failed")], [DELETE], id="T-46: never allocated"
        ),
        pytest.param([claim(**GENERATED), OTHER], [DELETE], id="T-47: for a predecessor"),
        pytest.param([claim(**GENERATED)], [], id="T-48: its pod may be too new"),
        pytest.param([claim(**GENERATED), RUNNING], [], id="T-49: its pod runs"),
        pytest.param([claim(**GENERATED), pod(deleting=True)], [DELETE], id="T-50: never ran"),
        pytest.param(
            [claim(**GENERATED), pod(deleting=True, node="n", phase="Running")],
            [],
            id="T-51: may still run",
        ),
        pytest.param(
            [claim(allocated=True, protected=True, deleting=True)], [STATUS, MAIN], id="T-52"
        ),
        pytest.param([claim(protected=True, deleting=True)], [MAIN], id="T-53: not allocated"),
        pytest.param([claim(**USED, deleting=True), RUNNING], [], id="T-54: in use"),
        pytest.param([claim(allocated=True, protected=True)], [], id="T-55: not used yet"),
        pytest.param(
            [claim(**USED, owner="p", annotations={"extended": "x"}), SUCCEEDED],
            [STATUS, MAIN, DELETE],
            id="T-58: extended resource",
        ),
        pytest.param([], [], id="T-59: no claim"),
        pytest.param(
            [claim(**USED, **GENERATED, deleting=True), SUCCEEDED],
            [STATUS, MAIN],
            id="deleting already",
        ),
    ],
)
async def test_what_is_sent_for_a_claim(objects: Any, expected: list[str]) -> None:
    """Status, then finalizer, then deletion, each only where due (RC-57 to RC-62)."""
    cluster = ClaimCluster(*objects)
    assert await cluster.sync("claim", "c") == expected
    cluster.deliver_events()
    assert await cluster.sync("claim", "c") == [], "and then there is silence"


async def test_a_deallocated_claim_is_free_of_all_marks() -> None:
    """Consumers and allocation go in one write, then the finalizer alone (T-36, RC-58)."""
    cluster = ClaimCluster(claim(**USED))
    await cluster.sync("claim", "c")
    (_, _, first), (_, _, second) = cluster.sent
    assert first["status"] == {}
    assert first["metadata"]["finalizers"] == [FINALIZER]
    assert second["metadata"]["finalizers"] == []
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])


async def test_a_pod_missing_in_the_cache_is_asked_for() -> None:
    """It may be too new for it; it stays (T-35, RC-57)."""
    cluster = ClaimCluster(claim(**USED))
    cluster.set(RUNNING)
    assert await cluster.sync("claim", "c") == []
    assert cluster.reads == ["pods/p"]


async def test_a_pod_seen_being_removed_is_not_asked_for() -> None:
    """Its UID is remembered (T-37, RC-16, RC-18)."""
    cluster = ClaimCluster(claim(**USED), RUNNING)
    assert cluster.remove("pods", "p") == ["claim:ns/c"]
    assert await cluster.sync("claim", "c") == [STATUS, MAIN]
    assert cluster.reads == []


@pytest.mark.parametrize(
    ("there", "reads"),
    [
        pytest.param(OTHER, 1, id="T-39: another one"),
        pytest.param(SUCCEEDED, 1, id="D-8: done"),
        pytest.param(None, 1, id="T-36: none"),
    ],
)
async def test_the_server_says_that_a_consumer_goes(there: Any, reads: int) -> None:
    """A pod of another UID or one that is done counts as gone (T-39, RC-57, D-8)."""
    cluster = ClaimCluster(claim(**USED))
    if there is not None:
        cluster.set(there)
    assert await cluster.sync("claim", "c") == [STATUS, MAIN]
    assert cluster.reads == ["pods/p"] * reads


async def test_a_replaced_consumer_is_not_asked_for() -> None:
    """The cached pod is enough (T-38)."""
    cluster = ClaimCluster(claim(**USED), OTHER)
    await cluster.sync("claim", "c")
    assert cluster.reads == []


async def test_an_unknown_consumer_is_an_error() -> None:
    """Nothing is written before the state of all consumers is known (T-40, RC-57, RC-71)."""
    cluster = ClaimCluster(claim(**USED))
    cluster.answers.append(refused(500, "InternalError"))
    with pytest.raises(ApiError):
        await cluster.sync("claim", "c")
    assert (cluster.sent, cluster.events) == ([], [])


async def test_an_unprotected_claim_keeps_its_allocation() -> None:
    """Only the consumers go (T-41, RC-58)."""
    cluster = ClaimCluster(claim(allocated=True, consumers=[user("p")]), SUCCEEDED)
    assert await cluster.sync("claim", "c") == [STATUS]
    assert set(stored(cluster)) == {"allocation"}


@pytest.mark.parametrize(
    ("consumers", "left"),
    [
        pytest.param([user("p"), user("q")], [user("q")], id="T-42: the other stays"),
        pytest.param([user("p"), FOREIGN], [FOREIGN], id="T-43: foreign stays"),
        pytest.param([FOREIGN, user("p"), user("q")], [FOREIGN, user("q")], id="in order"),
        pytest.param(
            [user("p"), user("p", uid="x") | {"apiGroup": "foo.com"}],
            [user("p", uid="x") | {"apiGroup": "foo.com"}],
            id="pods of another group are foreign",
        ),
    ],
)
async def test_consumers_that_stay_keep_the_allocation(consumers: Any, left: Any) -> None:
    """Allocation and finalizer are for those who are left (T-42, T-43, RC-57)."""
    fields = {**USED, "consumers": consumers}
    running = pod("q", phase="Running", node="n")
    cluster = ClaimCluster(claim(**fields, **GENERATED), SUCCEEDED, running)
    assert await cluster.sync("claim", "c") == [STATUS]
    assert stored(cluster)["reservedFor"] == left
    assert "allocation" in stored(cluster)


@pytest.mark.parametrize(
    ("manifest", "goes"),
    [(pod(deleting=True), True), (pod(deleting=True, node="n", phase="Running"), False)],
)
async def test_a_deleting_consumer_goes_if_it_never_ran(manifest: Any, goes: bool) -> None:
    """A node may still be running the other (T-57)."""
    cluster = ClaimCluster(claim(**USED), manifest)
    assert await cluster.sync("claim", "c") == ([STATUS, MAIN] if goes else [])


async def test_finalizers_of_others_stay_in_order() -> None:
    """Only the one is removed (T-56)."""
    finalizers = ["a.example/x", FINALIZER, "b.example/y"]
    fields = {**USED, "finalizers": finalizers}
    cluster = ClaimCluster(claim(**fields))
    assert await cluster.sync("claim", "c") == [STATUS, MAIN]
    found = cluster.get("resourceclaims", "c")["metadata"]["finalizers"]
    assert found == ["a.example/x", "b.example/y"]


async def test_a_claim_that_is_gone_already_is_fine() -> None:
    """DELETE answered with 404 is success (T-93, D-6)."""
    cluster = ClaimCluster(claim(**GENERATED), pod(phase="Failed"))
    del cluster.server["resourceclaims", next(cluster.stores["resourceclaims"].items())[0]]
    assert await cluster.sync("claim", "c") == [DELETE]


async def test_other_refusals_of_a_deletion_are_errors() -> None:
    """They are retried (RC-62)."""
    cluster = ClaimCluster(claim(**GENERATED), pod(phase="Failed"))
    cluster.answers.append(refused(403, "Forbidden"))
    with pytest.raises(ApiError):
        await cluster.sync("claim", "c")


async def test_a_conflict_writes_nothing_more() -> None:
    """The status write is guarded by the version (RC-58)."""
    cluster = ClaimCluster(claim(**USED), SUCCEEDED)
    cluster.set(claim(**{**USED, "consumers": [user("p"), user("q")]}))
    with pytest.raises(Conflict):
        await cluster.sync("claim", "c")
    assert cluster.verbs() == [STATUS]


async def test_a_claim_that_changes_while_the_server_is_asked_is_left_alone() -> None:
    """Its change was delivered, and queues it again if there is something to do (RC-57)."""
    cluster = ClaimCluster(claim(**USED))
    real = cluster.read

    async def meanwhile(*of: Any) -> Any:
        cluster.put(claim(**{**USED, "consumers": [user("p"), user("q")]}))
        return await real(*of)

    cluster.read = meanwhile  # type: ignore[method-assign] # the moment in between
    assert await cluster.sync("claim", "c") == []
    assert cluster.take_keys() == ["claim:ns/c"]


async def test_the_finalizer_stays_if_its_removal_fails() -> None:
    """Until the claim is deleted, then it is removed (Q-10, RC-59, RC-60)."""
    cluster = ClaimCluster(claim(**USED))
    cluster.answers.extend([None, refused(500, "InternalError")])
    with pytest.raises(ApiError):
        await cluster.sync("claim", "c")
    cluster.deliver_events()
    assert await cluster.sync("claim", "c") == []
    cluster.put(claim(protected=True, deleting=True))
    assert await cluster.sync("claim", "c") == [MAIN]


async def test_the_watch_event_of_the_last_write_queues_nothing() -> None:
    """A claim that is gone with its finalizer is not synced before the event (T-52, RC-59)."""
    cluster = ClaimCluster(claim(allocated=True, protected=True, deleting=True))
    assert await cluster.sync("claim", "c") == [STATUS, MAIN]
    stale = claim(protected=True, deleting=True)
    cluster.put(stale)
    assert await cluster.sync("claim", "c") == []
    stale["metadata"]["uid"] = "of-a-namesake"
    cluster.put(stale)
    assert await cluster.sync("claim", "c") == [MAIN]


async def test_a_claim_with_other_finalizers_is_not_marked_as_finalized() -> None:
    """With a new finalizer it is released again (RC-59)."""
    finalizers = [FINALIZER, "a.example/x"]
    cluster = ClaimCluster(claim(finalizers=finalizers, deleting=True))
    assert await cluster.sync("claim", "c") == [MAIN]
    cluster.put(claim(finalizers=finalizers, deleting=True))
    assert await cluster.sync("claim", "c") == [MAIN]
