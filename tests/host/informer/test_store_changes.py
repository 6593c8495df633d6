"""What is stored is told as a change exactly when a declared field changed."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from host.informer.stream_lines import (
    POD,
    A,
    B,
    Pod,
    entry,
    replace_list,
    undecodable_entry,
)

from kcm_host.api.errors import Undecodable
from kcm_host.api.kinds import Key
from kcm_host.api.watch import Change
from kcm_host.informer.store import Entry, Store

Step = Callable[[Store[Pod]], list[Change[Pod]]]
N1, N2 = Pod("n1"), Pod("n2")


def put(version: str, node: str = "", *, uid: str = "u1") -> Step:
    """Return the step that stores a version of pod a; without a node it cannot be decoded."""
    stored = entry(version, uid=uid, node=node) if node else undecodable_entry(version, uid=uid)
    return lambda store: [change for change in [store.put(A, stored)] if change is not None]


def delete(version: str = "", final: Pod | None = None) -> Step:
    """Return the step that deletes pod a."""
    options: dict[str, Any] = {"final": final, "resource_version": version} if version else {}
    return lambda store: [change for change in [store.delete(A, **options)] if change is not None]


def listed(objects: Mapping[Key, Entry[Pod]]) -> Step:
    """Return the step that replaces everything by a list."""
    return lambda store: replace_list(store, dict(objects))


def told(
    old: Pod | None, new: Pod | None, version: str, *, key: Key = A, relisted: bool = False
) -> Change[Pod]:
    """Return a change of a pod."""
    return Change(kind=POD, key=key, old=old, new=new, resource_version=version, relisted=relisted)


BARE = "a bare key"
#: Steps; the changes of the last one; pod a as it is read afterwards.
CHANGES: dict[str, tuple[list[Step], list[Change[Pod]], Pod | str | None]] = {
    "an unknown object is new, whatever the event was (IQ-45)": (
        [put("1", "n1")],
        [told(None, N1, "1")],
        N1,
    ),
    "a known one tells both states (IQ-45)": (
        [put("1", "n1"), put("2", "n2")],
        [told(N1, N2, "2")],
        N2,
    ),
    "equal declared fields are no change": ([put("1", "n1"), put("2", "n1")], [], N1),
    "an object made anew has changed (IQ-52)": (
        [put("1", "n1"), put("5", "n1", uid="u2")],
        [told(N1, N1, "5")],
        N1,
    ),
    "a delete tells the final state (IQ-46)": (
        [put("1", "n1"), delete("7", N2)],
        [told(N2, None, "7")],
        None,
    ),
    "without a final state it tells the last known one (IQ-51)": (
        [put("1", "n1"), delete()],
        [told(N1, None, "1")],
        None,
    ),
    "a delete of what was never known is no change": ([delete("2", N1)], [], None),
    "a list that lacks an object tells its last state (IQ-51)": (
        [listed({A: entry("1", node="n1")}), listed({})],
        [told(N1, None, "1", relisted=True)],
        None,
    ),
    "made anew between two lists is one update (IQ-52, IQ-T9)": (
        [listed({A: entry("1", node="n1")}), listed({A: entry("9", uid="u2", node="n2")})],
        [told(N1, N2, "9", relisted=True)],
        N2,
    ),
    "a new one that cannot be decoded is a bare key": ([put("1")], [], BARE),
    "a known one keeps its last good state": ([put("1", "n1"), put("2"), put("3")], [], N1),
    "a bare key that becomes good is new": ([put("1"), put("2", "n1")], [told(None, N1, "2")], N1),
    "good again with the same fields is a change (F-20)": (
        [put("1", "n1"), put("2"), put("3", "n1")],
        [told(N1, N1, "3")],
        N1,
    ),
    "good again, and equal afterwards": (
        [put("1", "n1"), put("2"), put("3", "n1"), put("4", "n1")],
        [],
        N1,
    ),
    "good again with other fields": (
        [put("1", "n1"), put("2"), put("3", "n2")],
        [told(N1, N2, "3")],
        N2,
    ),
    "a delete of a bare key is told to nobody": ([put("1"), delete("2", N1)], [], None),
    "a delete of a kept one tells the last good state (IQ-51)": (
        [put("1", "n1"), put("2"), delete("3")],
        [told(N1, None, "3")],
        None,
    ),
    "undecodable in a list is no delete, what is gone is told": (
        [
            listed({A: entry("1", node="n1"), B: entry("1")}),
            listed({A: undecodable_entry("2")}),
        ],
        [told(Pod(), None, "1", key=B, relisted=True)],
        N1,
    ),
    "a list in which it is good again tells it (F-20)": (
        [listed({A: entry("1", node="n1")}), put("2"), listed({A: entry("3", node="n1")})],
        [told(N1, N1, "3", relisted=True)],
        N1,
    ),
    "a namesake that cannot be decoded inherits nothing": (
        [listed({A: entry("1", node="n1")}), listed({A: undecodable_entry("9", uid="u2")})],
        [told(N1, None, "1", relisted=True)],
        BARE,
    ),
}


#: Those that end with a version that cannot be decoded.
UNDECODABLE = {
    "a new one that cannot be decoded is a bare key",
    "a known one keeps its last good state",
    "undecodable in a list is no delete, what is gone is told",
    "a namesake that cannot be decoded inherits nothing",
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_told_and_stored(store: Store[Pod], name: str) -> None:
    """The stored state decides what a change is; what cannot be decoded is never a delete."""
    steps, changes, left = CHANGES[name]
    for step in steps:
        found = step(store)
    assert found == changes
    assert len(store) == (left is not None)
    if left == BARE:
        with pytest.raises(Undecodable, match="pods 'team/a' exists, but cannot be decoded as Pod"):
            store.get(A)
    else:
        assert store.get(A) == left
    good = [(A, left)] if isinstance(left, Pod) else []
    assert list(store.items()) == good
    initial = [(change.key, change.new) for change in store.initial_changes()]
    assert initial == good, "a late handler gets the last good states (IQ-61)"
    assert store.undecodable == ({A} if name in UNDECODABLE else set())


def test_who_wants_every_event_gets_every_version(store: Store[Pod]) -> None:
    """With `notify_unchanged` an equal update is told as `same`; the same version again is not."""
    store.notify_unchanged = True
    store.put(A, entry("1", node="n1"))
    change = store.put(A, entry("2", node="n1"))
    assert change == Change(kind=POD, key=A, old=N1, new=N1, resource_version="2", unchanged=True)
    assert store.put(A, entry("2", node="n1")) is None
    change = store.put(A, entry("3", node="n2"))
    assert change is not None
    assert not change.unchanged


def test_names_are_separate_in_each_namespace(store: Store[Pod]) -> None:
    """The key is name and namespace together (IQ-55)."""
    store.put(Key("a", "x"), entry("1", node="n1"))
    store.put(Key("a", "y"), entry("2", node="n2"))
    assert [store.get(Key("a", name)) for name in ("x", "y", "")] == [N1, N2, None]


def test_reading_goes_on_while_the_store_changes(store: Store[Pod]) -> None:
    """A reader that is in the middle of all objects is not disturbed by changes."""
    for key in (A, B):
        store.put(key, entry("1", node="n1"))
    reader = store.items()
    first, _ = next(reader)
    store.delete(A)
    store.put(Key("later"), entry("2"))
    assert first == A
    assert [key for key, _ in reader] == [B]


@pytest.mark.parametrize("versions", [("9", "10"), ("10", "9"), ("abc", "")])
def test_versions_are_never_compared(store: Store[Pod], versions: tuple[str, str]) -> None:
    """What is told last counts, whatever the versions look like (IQ-32)."""
    store.put(A, entry(versions[0], node="old"))
    store.put(A, entry(versions[1], node="new"))
    assert store.get(A) == Pod("new")
