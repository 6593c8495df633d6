"""What is stored is told as a change exactly when a declared field changed."""

import pytest
from host.informer.stream_lines import POD, A, B, Pod, entry

from kcm_host.api.kinds import Key
from kcm_host.api.watch import Change
from kcm_host.informer.store import Store


def test_an_unknown_object_is_new(store: Store[Pod]) -> None:
    """The stored state makes it an add, whatever the event's type was (IQ-45)."""
    change = store.put(A, entry("1", node="n1"))
    assert change == Change(kind=POD, key=A, old=None, new=Pod("n1"), resource_version="1")
    assert store.get(A) == Pod("n1")
    assert len(store) == 1


def test_a_known_object_is_changed(store: Store[Pod]) -> None:
    """A second version tells both states and its own version (IQ-45)."""
    store.put(A, entry("1", node="n1"))
    change = store.put(A, entry("2", node="n2"))
    assert change == Change(kind=POD, key=A, old=Pod("n1"), new=Pod("n2"), resource_version="2")
    assert store.get(A) == Pod("n2")


def test_equal_declared_fields_wake_nobody(store: Store[Pod]) -> None:
    """A new version whose declared fields are equal is stored and is no change."""
    store.put(A, entry("1", node="n1", labels=("x", "y")))
    assert store.put(A, entry("2", node="n1", labels=("x", "y"))) is None
    change = store.put(A, entry("3", node="n2", labels=("x", "y")))
    assert change is not None
    assert change.resource_version == "3"


def test_another_object_of_the_same_name_is_a_change(store: Store[Pod]) -> None:
    """An object made anew under its name is a change although its fields are equal (IQ-52)."""
    store.put(A, entry("1", uid="u1", node="n1"))
    change = store.put(A, entry("5", uid="u2", node="n1"))
    assert change == Change(kind=POD, key=A, old=Pod("n1"), new=Pod("n1"), resource_version="5")


def test_who_wants_every_event_gets_every_version(store: Store[Pod]) -> None:
    """With `notify_unchanged` an equal update is told as `same`; the same version again is not."""
    store.notify_unchanged = True
    store.put(A, entry("1", node="n1"))
    change = store.put(A, entry("2", node="n1"))
    assert change == Change(
        kind=POD, key=A, old=Pod("n1"), new=Pod("n1"), resource_version="2", unchanged=True
    )
    assert store.put(A, entry("2", node="n1")) is None


def test_a_real_change_is_never_marked_same(store: Store[Pod]) -> None:
    """With `notify_unchanged`, a change of a declared field is told like any other."""
    store.notify_unchanged = True
    store.put(A, entry("1", node="n1"))
    change = store.put(A, entry("2", node="n2"))
    assert change is not None
    assert not change.unchanged


def test_a_delete_tells_the_final_state(store: Store[Pod]) -> None:
    """The change carries the state at deletion and its version (IQ-46)."""
    store.put(A, entry("1", node="n1"))
    change = store.delete(A, final=Pod("n2"), resource_version="7")
    assert change == Change(kind=POD, key=A, old=Pod("n2"), new=None, resource_version="7")
    assert store.get(A) is None
    assert len(store) == 0


def test_a_delete_without_final_state_tells_the_last_known(store: Store[Pod]) -> None:
    """Without a final state the last one known is told, which may be stale (IQ-51)."""
    store.put(A, entry("1", node="n1"))
    assert store.delete(A) == Change(kind=POD, key=A, old=Pod("n1"), new=None, resource_version="1")


def test_a_delete_of_what_was_never_known_is_no_change(store: Store[Pod]) -> None:
    """Nobody is told of the end of something that nobody was told of."""
    assert store.delete(A, final=Pod("n1"), resource_version="2") is None


def test_names_are_separate_in_each_namespace(store: Store[Pod]) -> None:
    """The key is name and namespace together (IQ-55)."""
    store.put(Key("a", "x"), entry("1", node="n1"))
    store.put(Key("a", "y"), entry("2", node="n2"))
    assert store.get(Key("a", "x")) == Pod("n1")
    assert store.get(Key("a", "y")) == Pod("n2")
    assert store.get(Key("a")) is None


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
