"""The memory of created claims, and that of removed pods."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from plugins.resourceclaim.objects import claim
from plugins.tables import row

from kcm_host.api import Key
from kcm_host_resourceclaim.cache import UidCache
from kcm_host_resourceclaim.models.claim import Claim
from kcm_host_resourceclaim.mutation_cache import MutationCache

C = Key("c", "ns")


def made(name: str = "c", *, uid: str = "", owner: str = "p") -> Claim:
    """Return a claim as the server answers its creation."""
    manifest = claim(name, owner=owner, entry="res")
    manifest["metadata"]["uid"] = uid or f"u-{name}"
    return msgspec.convert(manifest, Claim)


@pytest.fixture
def seconds() -> list[float]:
    """The time; a test that moves the clock appends to it."""
    return [1000.0]


@pytest.fixture
def created(seconds: list[float]) -> MutationCache:
    """A small cache."""
    return MutationCache(capacity=3, ttl=timedelta(hours=1), clock=lambda: seconds[-1])


def names(created: MutationCache, owner: str = "ns/u-p") -> list[str]:
    """Return the claims found under an owner."""
    return sorted(key.name for key, _ in created.by_owner(owner))


def test_a_created_claim_is_found_by_key_and_owner(created: MutationCache) -> None:
    """As in the informer's index, only in its namespace (RC-10, RC-15)."""
    created.add(C, made(), "5")
    assert created.get(C) == made()
    assert created.get(Key("c", "other")) is None
    assert names(created) == ["c"]
    assert names(created, "other/u-p") == names(created, "ns/u-q") == []


@pytest.mark.parametrize(
    ("second", "kept"), [("4", "first"), ("5", "second"), ("10", "second"), ("", "first")]
)
def test_a_newer_copy_stays(created: MutationCache, second: str, kept: str) -> None:
    """Versions are compared as numbers, no version counts as 0 (RC-15, IQ-91, IQ-92)."""
    created.add(C, made(uid="first", owner="a"), "5")
    created.add(C, made(uid="second", owner="b"), second)
    found = created.get(C)
    assert found is not None
    assert found.uid == kept
    assert names(created, "ns/u-a") == (["c"] if kept == "first" else [])
    assert names(created, "ns/u-b") == (["c"] if kept == "second" else [])


def test_the_least_recently_used_is_evicted(created: MutationCache) -> None:
    """No more than the capacity; a look counts as use (RC-15)."""
    for name in "abc":
        created.add(Key(name, "ns"), made(name), "1")
    created.get(Key("a", "ns"))
    created.add(Key("d", "ns"), made("d"), "1")
    assert names(created) == ["a", "c", "d"]
    assert len(created) == 3


def test_it_expires_after_an_hour(created: MutationCache, seconds: list[float]) -> None:
    """Without an event it is not certain that the claim still exists (RC-15, IQ-97)."""
    created.add(C, made(), "5")
    seconds.append(4599)
    assert names(created) == ["c"]
    seconds.append(4600)
    assert created.get(C) is None
    assert names(created) == []
    assert len(created) == 0


Step = Callable[[MutationCache], None]


def added(version: str, uid: str = "") -> Step:
    """Return the creation of the claim, as its response shows it."""
    return lambda created: created.add(C, made(uid=uid), version)


def updated(version: str) -> Step:
    """Return an event with the claim."""
    return lambda created: created.on_update(C, version)


def deleted(uid: str, version: str) -> Step:
    """Return the event of the deletion of a claim of that name."""
    return lambda created: created.on_delete(C, uid, version)


@pytest.mark.parametrize(
    ("steps", "kept"),
    [
        row("IQ-95: an older version", [added("5"), updated("4")], True),
        row("IQ-95: an equal version", [added("5"), updated("5")], False),
        row("IQ-95: a newer version", [added("5"), updated("12")], False),
        row("deleted: the same, newer", [added("5"), deleted("u-c", "9")], False),
        row("deleted: the same, version of before", [added("5"), deleted("u-c", "1")], False),
        row("deleted: a namesake before it", [added("5"), deleted("old", "4")], True),
        row("deleted: a namesake as new", [added("5"), deleted("old", "5")], False),
        row("IQ-96: never added", [deleted("u-c", "10")], False),
        row("IQ-96: the response is later", [deleted("u-c", "10"), added("5")], False),
        row("IQ-96: whatever its version", [deleted("u-c", "10"), added("20")], False),
        row("IQ-96: not newer", [deleted("u-c", "10"), added("10", "new")], False),
        row("IQ-96: a new claim of that name", [deleted("u-c", "10"), added("11", "new")], True),
    ],
)
def test_events_remove_a_claim(created: MutationCache, steps: list[Step], kept: bool) -> None:
    """What the informer has, or has had, is not kept; a tombstone keeps it out (D-2)."""
    for step in steps:
        step(created)
    assert (created.get(C) is not None) is kept
    assert names(created) == (["c"] if kept else [])


def test_tombstones_expire(created: MutationCache, seconds: list[float]) -> None:
    """After an hour, or when there are too many; the claims beside them stay (IQ-95)."""
    created.add(Key("kept", "ns"), made("kept"), "1")
    for name in "abcd":
        created.on_delete(Key(name, "ns"), f"u-{name}", "1")
    for name in "abd":
        created.add(Key(name, "ns"), made(name), "1")
    assert names(created) == ["a", "kept"], "the first of four is forgotten"
    seconds.append(4600)
    created.add(Key("d", "ns"), made("d"), "1")
    assert names(created) == ["d"]


def test_claims_of_groups_are_found_too(created: MutationCache) -> None:
    """The index by owner has PodGroups of every version (RC-14, T-72)."""
    manifest: Any = claim("c", owner="g", owner_kind="PodGroup", entry="res")
    created.add(C, msgspec.convert(manifest, Claim), "1")
    assert names(created, "ns/u-g") == ["c"]


def test_the_defaults_are_those_of_the_rules() -> None:
    """1000 claims and 500 UIDs (RC-15, RC-16)."""
    created, removed = MutationCache(), UidCache()
    for number in range(1100):
        created.add(Key(f"c{number}", "ns"), made(f"c{number}"), "1")
        removed.add(f"u{number}")
    assert (len(created), len(removed)) == (1000, 500)


def test_a_lookup_counts_as_use() -> None:
    """A positive look counts as use, a negative one adds nothing (RC-16)."""
    removed = UidCache(capacity=2)
    removed.add("a")
    removed.add("b")
    assert "a" in removed
    assert "x" not in removed
    removed.add("c")
    assert ["a" in removed, "b" in removed, "c" in removed] == [True, False, True]
    removed.add("a")
    assert len(removed) == 2
