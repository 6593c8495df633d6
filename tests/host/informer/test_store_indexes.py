"""Indexes follow every change of the store, and their owner hears of their failures."""

from collections.abc import Callable, Iterable

import pytest
from host.informer.stream_lines import POD, A, B, C, D, Pod, entry, replace_list, undecodable_entry
from view_stores import stores_of

from kcm_host.api.errors import UndeclaredRead
from kcm_host.api.kinds import Key
from kcm_host.informer.cache_view import CacheView
from kcm_host.informer.store import Store


def by_node(key: Key, pod: Pod) -> list[str]:
    """Return the node of a pod."""
    return [pod.node] if pod.node else []


def unfailing(key: Key, error: BaseException) -> None:
    """Fail the test: the index was not meant to fail."""
    raise AssertionError("an index failed") from error


@pytest.fixture
def indexed(store: Store[Pod]) -> Store[Pod]:
    """A store with an index by node."""
    store.add_index("quota", "node", by_node, unfailing)
    return store


def found(store: Store[Pod], value: str, *, index: str = "node") -> set[Key]:
    """Return the keys under a value."""
    return {key for key, _ in store.by_index("quota", index, value)}


def test_an_object_is_found_under_its_value(indexed: Store[Pod]) -> None:
    """Objects with the value are found with their state; others are not (IQ-57)."""
    indexed.put(A, entry("1", node="n1"))
    indexed.put(B, entry("1", node="n2"))
    indexed.put(C, entry("1"))
    assert list(indexed.by_index("quota", "node", "n1")) == [(A, Pod("n1"))]
    assert found(indexed, "") == set()
    assert found(indexed, "nowhere") == set()


def test_a_changed_object_is_found_under_its_new_value_only(indexed: Store[Pod]) -> None:
    """After its field changed it has left the old value (IQ-57, IQ-T26)."""
    indexed.put(A, entry("1", node="n1"))
    indexed.put(A, entry("2", node="n2"))
    assert (found(indexed, "n1"), found(indexed, "n2")) == (set(), {A})


def test_a_deleted_object_is_found_no_more(indexed: Store[Pod]) -> None:
    """Also when its final state has another value, and when a namesake comes (IQ-57)."""
    for key in (A, B):
        indexed.put(key, entry("1", node="n1"))
    indexed.delete(A, final=Pod("n2"), resource_version="2")
    assert (found(indexed, "n1"), found(indexed, "n2")) == ({B}, set())
    indexed.put(A, entry("3", uid="u2", node="n3"))
    assert (found(indexed, "n1"), found(indexed, "n3")) == ({B}, {A})


def test_a_relist_moves_everything(indexed: Store[Pod]) -> None:
    """What a list lacks, changes and adds is found where it belongs afterwards (IQ-50, IQ-57)."""
    replace_list(indexed, {A: entry("1", node="n1"), B: entry("1", node="n1")})
    replace_list(indexed, {B: entry("2", node="n2"), C: entry("2", node="n1")})
    assert (found(indexed, "n1"), found(indexed, "n2")) == ({C}, {B})


def test_an_object_may_have_several_values(store: Store[Pod]) -> None:
    """It is found under each of them, once under each, and moves value by value (IQ-57)."""
    store.add_index("quota", "label", lambda key, pod: pod.labels, unfailing)
    store.put(A, entry("1", labels=("x", "y", "x")))
    assert [key for key, _ in store.by_index("quota", "label", "x")] == [A]
    store.put(A, entry("2", labels=("y", "z")))
    assert [found(store, value, index="label") for value in "xyz"] == [set(), {A}, {A}]


def test_an_index_that_comes_late_holds_what_is_stored(store: Store[Pod]) -> None:
    """Objects that are already there are indexed at once (IQ-57)."""
    store.put(A, entry("1", node="n1"))
    store.add_index("quota", "node", by_node, unfailing)
    assert found(store, "n1") == {A}


def test_indexes_belong_to_their_controllers(store: Store[Pod]) -> None:
    """Two controllers may use one name for different things; one leaving takes its own along."""
    store.add_index("quota", "by", by_node, unfailing)
    store.add_index("claims", "by", lambda key, pod: [key.name], unfailing)
    store.put(A, entry("1", node="n1"))
    assert list(store.by_index("claims", "by", "a")) == [(A, Pod("n1"))]
    assert list(store.by_index("quota", "by", "a")) == []
    store.remove_indexes("claims")
    assert store.index_names("claims") == frozenset()
    assert [key for key, _ in store.by_index("quota", "by", "n1")] == [A]


def test_an_undecodable_version_leaves_the_object_where_it_was(indexed: Store[Pod]) -> None:
    """The last good state stays found; a bare key is found nowhere."""
    indexed.put(A, entry("1", node="n1"))
    indexed.put(A, undecodable_entry("2"))
    indexed.put(B, undecodable_entry("1"))
    assert list(indexed.by_index("quota", "node", "n1")) == [(A, Pod("n1"))]
    indexed.put(A, entry("3", node="n2"))
    assert (found(indexed, "n1"), found(indexed, "n2")) == (set(), {A})


def test_results_outlive_changes(indexed: Store[Pod]) -> None:
    """A reader in the middle of an index is not disturbed; what is gone is left out."""
    for key in (A, B, C):
        indexed.put(key, entry("1", node="n1"))
    reader = indexed.by_index("quota", "node", "n1")
    first, _ = next(reader)
    gone, left = [key for key in (A, B, C) if key != first]
    indexed.delete(gone)
    for key in (D, Key("e", "team")):
        indexed.put(key, entry("2", node="n1"))
    assert [key for key, _ in reader] == [left]


def test_reading_an_index_that_was_not_declared_says_which_are(indexed: Store[Pod]) -> None:
    """The message names the kind, the indexes there are, and where to declare one."""
    indexed.add_index("quota", "zone", by_node, unfailing)
    pods = CacheView("quota", stores_of("quota", {(POD, Pod): indexed})).of(POD, Pod)
    with pytest.raises(UndeclaredRead) as refusal:
        pods.by_index("nodes", "n1")
    assert str(refusal.value) == (
        "no index 'nodes' on 'pods' (declared: node, zone); add it to the watch's indexes"
    )


def test_another_controllers_index_is_not_declared(indexed: Store[Pod]) -> None:
    """A controller sees its own indexes alone, also on a shared store."""
    pods = CacheView("claims", stores_of("claims", {(POD, Pod): indexed})).of(POD, Pod)
    with pytest.raises(UndeclaredRead, match=r"'node' on 'pods' \(declared: none\)"):
        pods.by_index("node", "n1")


def test_an_index_that_comes_while_a_list_does_is_filled_with_it(indexed: Store[Pod]) -> None:
    """Asked for after the preparation of a list, it holds what the list has (IQ-57, F-47)."""
    replace_list(indexed, {A: entry("1", node="n1")})
    steps = indexed.stage({B: entry("2", node="n1")})
    staged = None
    while staged is None:
        try:
            next(steps)
        except StopIteration as end:
            staged = end.value
    indexed.add_index("quota", "late", by_node, unfailing)
    assert found(indexed, "n1", index="late") == {A}
    indexed.commit(staged)
    assert found(indexed, "n1", index="late") == found(indexed, "n1") == {B}


def test_an_index_may_hold_keys_by_their_names(store: Store[Pod]) -> None:
    """Its function is given the key of what comes and of what goes (IQ-57)."""
    store.add_index("quota", "team", lambda key, pod: [key.namespace], unfailing)
    store.put(A, entry("1"))
    store.put(A, entry("2", node="n1"))
    assert found(store, "team", index="team") == {A}
    store.delete(A)
    assert found(store, "team", index="team") == set()


def test_an_index_that_changes_its_mind_harms_nobody(store: Store[Pod]) -> None:
    """A function that answers otherwise for the same object may lose it, and raises nothing."""
    answers = iter(["first", "second", "third", "fourth"])
    store.add_index("quota", "moody", lambda key, pod: [next(answers)], unfailing)
    store.put(A, entry("1"))
    store.put(A, entry("2", node="n1"))
    store.delete(A)
    assert found(store, "third", index="moody") == set()
    assert len(store) == 0


def choosy(_key: Key, pod: Pod) -> Iterable[str]:
    """Return a value for one node alone."""
    return {"n1": ["first"]}[pod.node]


def half(_key: Key, pod: Pod) -> Iterable[str]:
    """Return a value, and break off for all nodes but one."""
    yield "first"
    if pod.node != "n1":
        raise KeyError(pod.node)


@pytest.mark.parametrize("function", [choosy, half], ids=["at once", "while it gives values"])
@pytest.mark.parametrize("listed", [False, True], ids=["event", "relist"])
def test_a_failing_function_is_told_to_its_owner(
    store: Store[Pod], function: Callable[[Key, Pod], Iterable[str]], *, listed: bool
) -> None:
    """The object is found under no value; store and other indexes go on (instead of IQ-57)."""
    failures: list[tuple[Key, BaseException]] = []
    store.add_index("broken", "first", function, lambda *failure: failures.append(failure))
    store.add_index("quota", "node", by_node, unfailing)
    replace_list(store, {A: entry("1", node="n1")})
    changed = entry("2", node="n2")
    assert replace_list(store, {A: changed}) if listed else store.put(A, changed)
    assert [(key, repr(error)) for key, error in failures] == [(A, "KeyError('n2')")]
    assert list(store.by_index("broken", "first", "first")) == []
    assert found(store, "n2") == {A}
