"""Claims of one pod: the oldest of them, and the cost of an event among many."""

import random
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plugins.resourcequota.quota_cluster import START_TIME, QuotaCluster
from plugins.resourcequota.quota_manifests import device_claim, pod
from plugins.resourcequota.quota_objects import Manifest

from kcm_host.api import Key
from kcm_host_resourcequota.evaluators.pods import POD
from kcm_host_resourcequota.evaluators.resourceclaims import (
    CHUNK_SIZE,
    RESOURCE_CLAIM,
    OldestClaims,
    ResourceClaim,
    SortedClaims,
)

DEVICES = "gpu.deviceclass.resource.k8s.io/devices"
IMPLICIT = "requests.deviceclass.resource.kubernetes.io/gpu"


def claim(name: str, *, second: int = 0, uid: str = "uid-p") -> Manifest:
    """Return a claim with an owner reference to the pod `p`."""
    return device_claim(name, count=1, pod_uid=uid, created=START_TIME + second)


def cluster_with(claims: int) -> tuple[QuotaCluster, Key]:
    """Return a cluster where one pod that requests a device has a number of claims."""
    cluster = QuotaCluster()
    cluster.declare()
    cluster.put(POD, pod("p", uid="uid-p", requests={IMPLICIT.removeprefix("requests."): "1"}))
    for number in range(claims):
        cluster.put(RESOURCE_CLAIM, claim(f"k{number}", second=10 + number))
    key = cluster.quota(DEVICES, IMPLICIT)
    cluster.start()
    cluster.advance(1)
    return cluster, key


def evaluations(cluster: QuotaCluster, event: Callable[[], object]) -> int:
    """Return the number of evaluations that an event causes."""
    usage_tracker = cluster.controller._replenishment.monitor.usage
    before = usage_tracker.evaluations
    event()
    return usage_tracker.evaluations - before


@pytest.mark.parametrize("claims", [2, 300])
def test_an_event_among_many_claims_of_one_pod_evaluates_few(claims: int) -> None:
    """The claim itself, and whichever is the oldest before and after (F-44)."""
    cluster, key = cluster_with(claims)
    older, younger = claim("older"), claim("younger", second=4000)
    delete = cluster.delete
    assert evaluations(cluster, lambda: cluster.put(RESOURCE_CLAIM, younger)) == 1
    assert evaluations(cluster, lambda: cluster.put(RESOURCE_CLAIM, older)) == 2
    assert evaluations(cluster, lambda: delete(RESOURCE_CLAIM, Key("younger", "a"))) == 0
    assert evaluations(cluster, lambda: delete(RESOURCE_CLAIM, Key("older", "a"))) == 1
    assert evaluations(cluster, lambda: delete(POD, Key("p", "a"))) == 1
    assert evaluations(cluster, lambda: cluster.put(POD, pod("p", uid="uid-p"))) == 2
    cluster.advance(1)
    assert cluster.used(key) == dict.fromkeys((DEVICES, IMPLICIT), str(claims))


def test_the_next_oldest_claim_is_charged_to_the_pod() -> None:
    """At any time exactly one claim is charged to the pod (RQ-193, F-44)."""
    cluster, key = cluster_with(3)
    assert cluster.used(key) == {DEVICES: "3", IMPLICIT: "3"}
    for left in (2, 1):
        cluster.delete(RESOURCE_CLAIM, Key(f"k{2 - left}", "a"))
        cluster.advance(0.5)
        assert cluster.used(key) == dict.fromkeys((DEVICES, IMPLICIT), str(left))
    cluster.delete(POD, Key("p", "a"))
    cluster.advance(0.5)
    assert cluster.used(key) == {DEVICES: "1", IMPLICIT: "1"}


CLAIMS = st.tuples(st.sampled_from("abcdef"), st.sampled_from([None, "x", "y"]), st.integers(0, 3))


@given(steps=st.lists(CLAIMS, max_size=60))
def test_the_oldest_is_the_first_of_all(steps: list[tuple[str, str | None, int]]) -> None:
    """After any changes of claims and owners; the old and the new oldest are returned (F-44)."""
    oldest = OldestClaims()
    known: dict[str, tuple[str, int]] = {}

    def first(pod_uid: str) -> str | None:
        mine = [(created, name) for name, (uid, created) in known.items() if uid == pod_uid]
        return min(mine)[1] if mine else None

    for name, uid, created in steps:
        before = {uid: first(uid) for uid in "xy"}
        seen = None
        if uid is not None:
            seen = msgspec.convert(claim(name, second=created, uid=uid), ResourceClaim)
            known[name] = (uid, created)
        else:
            known.pop(name, None)
        changed = oldest.put(Key(name, "a"), seen)
        for each in "xy":
            now = first(each)
            assert oldest.of_pod("a", each) == (Key(now, "a") if now else None)
            if now != before[each]:
                expected = {Key(each, "a") for each in (now, before[each]) if each}
                assert expected <= changed | {Key(name, "a")}


def test_full_chunks_are_split() -> None:
    """An insertion moves the entries of one chunk at most, and the order stays (F-44)."""
    everything = [(float(number), "k") for number in range(3 * CHUNK_SIZE)]
    shuffled = random.Random(0).sample(everything, k=len(everything))
    ordered = SortedClaims()
    for entry in shuffled:
        ordered.add(entry)
    assert max(map(len, ordered._chunks)) < CHUNK_SIZE
    assert [entry for chunk in ordered._chunks for entry in chunk] == everything
    for entry in shuffled[1:]:
        ordered.remove(entry)
    assert ordered.first == shuffled[0]
    ordered.remove(shuffled[0])
    assert not ordered
