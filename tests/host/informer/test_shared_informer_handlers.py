"""Followers are told everything once and in order, whenever they come."""

import pytest
from host.informer.stream_lines import (
    A,
    B,
    C,
    D,
    Phase,
    Pod,
    RecordingHandler,
    event,
    pod,
    streaming_list,
)

from kcm_host.api.kinds import Key
from kcm_host.api.watch import Change
from kcm_host.informer.shared_informer import SharedInformer


@pytest.fixture
def four(informer: SharedInformer) -> SharedInformer:
    """An informer with one handler and four pods."""
    informer.add_event_handler(Pod, RecordingHandler())
    streaming_list(informer, *(("ADDED", pod(key, "1", node="n1")) for key in (A, B, C, D)))
    return informer


def test_synced_comes_after_the_whole_first_list(informer: SharedInformer) -> None:
    """`synced` is called once, when all initial objects have been told (IQ-54, IQ-60)."""
    handler = RecordingHandler()
    informer.add_event_handler(Pod, handler)
    assert not informer.has_synced
    streaming_list(informer, ("ADDED", pod(A, "1")), ("ADDED", pod(B, "1")))
    streaming_list(informer, ("ADDED", pod(C, "2")))
    assert handler.synced_after == [2]
    assert [change.initial for change in handler.changes] == [True, True, False, False, False]


def test_an_empty_first_list_syncs_too(informer: SharedInformer) -> None:
    """Nothing to tell is told as synced (IQ-54)."""
    handler = RecordingHandler()
    informer.add_event_handler(Pod, handler)
    streaming_list(informer)
    assert (handler.changes, handler.synced_after) == ([], [0])


def test_updates_are_told_each_and_in_order(informer: SharedInformer) -> None:
    """Three updates of one object are three changes in their order (IQ-40, IQ-T13)."""
    handler = RecordingHandler()
    informer.add_event_handler(Pod, handler)
    streaming_list(informer, ("ADDED", pod(A, "1")))
    for number in (2, 3, 4):
        event(informer, "MODIFIED", pod(A, str(number), node=f"n{number}"))
    assert [change.resource_version for change in handler.changes] == ["1", "2", "3", "4"]
    assert handler.changes[3].old == Pod("n3")


@pytest.mark.parametrize("sort", ["ADDED", "MODIFIED"])
def test_the_stored_state_decides_what_an_event_is(informer: SharedInformer, sort: str) -> None:
    """ADDED of a known object is an update, MODIFIED of an unknown one an add (IQ-45)."""
    handler = RecordingHandler()
    informer.add_event_handler(Pod, handler)
    streaming_list(informer, ("ADDED", pod(A, "1")))
    event(informer, sort, pod(A, "2", node="n2"))
    event(informer, sort, pod(B, "3"))
    assert handler.told() == [("added", "a"), ("updated", "a"), ("added", "b")]
    assert informer.typed_informer(Pod).store.get(B) == Pod()


def test_a_late_follower_is_told_everything_then_what_changes(four: SharedInformer) -> None:
    """Four initial adds and `synced`, then live changes, none twice and none lost (IQ-61, T21)."""
    late = RecordingHandler()
    four.add_event_handler(Pod, late)
    four.start_new_handlers()
    assert late.synced_after == [4]
    assert all(change.initial for change in late.changes)
    assert late.told() == [("added", name) for name in "abcd"]
    event(four, "DELETED", pod(A, "5", node="n1"))
    event(four, "MODIFIED", pod(B, "6", node="n2"))
    assert late.told() == [("deleted", "a"), ("updated", "b")]
    assert late.synced_after == [4]


def test_a_follower_that_comes_before_the_list_ends_is_not_late(informer: SharedInformer) -> None:
    """It is told with everybody else, once, when the first list is complete (IQ-53)."""
    early, during = RecordingHandler(), RecordingHandler()
    informer.add_event_handler(Pod, early)
    informer.init()
    informer.add_event_handler(Pod, during)
    informer.start_new_handlers()
    assert during.synced_after == []
    streaming_list(informer, ("ADDED", pod(A, "1")))
    assert early.told() == during.told() == [("added", "a")]
    assert early.synced_after == during.synced_after == [1]


def test_who_has_left_is_told_nothing_more(four: SharedInformer) -> None:
    """A handler that left hears nothing; the others go on (IQ-61)."""
    leaving, staying = RecordingHandler(), RecordingHandler()
    for handler in (leaving, staying):
        four.add_event_handler(Pod, handler)
    four.start_new_handlers()
    leaving.told()
    assert not four.remove_event_handler(leaving)
    event(four, "DELETED", pod(A, "5"))
    assert leaving.told() == []
    assert staying.told()[-1] == ("deleted", "a")


def test_the_last_to_leave_ends_the_feed(informer: SharedInformer) -> None:
    """A model goes with its last handler, and the informer with its last model."""
    first, second, third = RecordingHandler(), RecordingHandler(), RecordingHandler()
    informer.add_event_handler(Pod, first)
    informer.add_event_handler(Pod, second)
    informer.add_event_handler(Phase, third)
    assert not informer.remove_event_handler(third)
    assert (informer.has_model(Pod), informer.has_model(Phase)) == (True, False)
    assert not informer.remove_event_handler(first)
    assert informer.remove_event_handler(second)


def test_followers_of_one_model_are_told_in_the_order_they_came(informer: SharedInformer) -> None:
    """Each handler gets a whole list in order before the next one gets it (IQ-59)."""
    told: list[tuple[str, Key]] = []

    class Named(RecordingHandler):
        def __init__(self, name: str) -> None:
            super().__init__()
            self._name = name

        def on_change(self, change: Change[Pod]) -> None:
            told.append((self._name, change.key))

    informer.add_event_handler(Pod, Named("one"))
    informer.add_event_handler(Pod, Named("two"))
    streaming_list(informer, ("ADDED", pod(A, "1")), ("ADDED", pod(B, "1")))
    assert told == [("one", A), ("one", B), ("two", A), ("two", B)]
