"""A complete list takes the place of what is stored, in one step, and gives the differences."""

from host.informer.stream_lines import A, B, C, D, Pod, entry, replace_list, sort

from kcm_host.api.kinds import Key
from kcm_host.api.watch import Change
from kcm_host.informer.store import Store


def told(changes: list[Change[Pod]]) -> list[tuple[str, Key]]:
    """Return sort and key of each change."""
    return [(sort(change), change.key) for change in changes]


def test_the_first_list_is_adds(store: Store[Pod]) -> None:
    """Everything in the first list is an add that is marked initial, in list order (IQ-53)."""
    assert replace_list(store, {B: entry("1"), A: entry("2")}) == []
    changes = list(store.initial_changes())
    assert told(changes) == [("added", B), ("added", A)]
    assert all(change.initial for change in changes)


def test_deletes_come_first_then_the_rest_in_list_order(store: Store[Pod]) -> None:
    """A relist lacks b, holds a unchanged, c changed and d new (IQ-50, IQ-T8)."""
    replace_list(store, {key: entry("1", node="n1") for key in (A, B, C)})
    fresh = {D: entry("9"), A: entry("1", node="n1"), C: entry("8", node="n2")}
    changes = replace_list(store, fresh)
    assert told(changes) == [("deleted", B), ("added", D), ("updated", C)]
    assert not any(change.initial for change in changes)
    assert {key for key, _ in store.items()} == {A, C, D}


def test_an_unchanged_relist_wakes_nobody(store: Store[Pod]) -> None:
    """The same versions again are no change, not even for who wants every event (IQ-64)."""
    store.notify_unchanged = True
    fresh = {key: entry("1") for key in (A, B)}
    replace_list(store, fresh)
    assert replace_list(store, dict(fresh)) == []
