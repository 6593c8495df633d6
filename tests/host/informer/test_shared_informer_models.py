"""One stream serves several models: each object is decoded once for each of them."""

from collections import Counter
from typing import Any

import pytest
from host.informer.stream_lines import (
    POD,
    A,
    B,
    C,
    Counted,
    Phase,
    Pod,
    RecordingHandler,
    begin_streaming_list,
    event,
    finish_list,
    paged_list,
    pod,
    streaming_list,
)
from logged import pairs_of

from kcm_host.api.watch import Change
from kcm_host.informer.shared_informer import SharedInformer


@pytest.fixture
def decoded() -> Counter[str]:
    """How often a pod on each node was decoded in this test."""
    Counted.decoded.clear()
    return Counted.decoded


def test_an_object_is_decoded_once_for_all_followers(
    informer: SharedInformer, decoded: Counter[str]
) -> None:
    """Three handlers of one model share one decoded object, in list, page and event."""
    listeners = [RecordingHandler() for _ in range(3)]
    for handler in listeners:
        informer.add_event_handler(Counted, handler)
    informer.add_event_handler(Phase, RecordingHandler())
    streaming_list(informer, ("ADDED", pod(A, "1", node="gathered")))
    event(informer, "MODIFIED", pod(A, "2", node="event"))
    paged_list(informer, pod(A, "3", node="listed"))
    assert decoded == {"gathered": 1, "event": 1, "listed": 1}
    seen = [[change.new for change in handler.changes] for handler in listeners]
    assert all(one is two for one, two in zip(seen[0], seen[1], strict=True))
    assert len(seen[2]) == 3


def test_each_model_has_its_own_store_and_changes(informer: SharedInformer) -> None:
    """A change of a field that one model declares wakes the handlers of that model alone."""
    nodes, phases = RecordingHandler(), RecordingHandler()
    informer.add_event_handler(Pod, nodes)
    informer.add_event_handler(Phase, phases)
    streaming_list(informer, ("ADDED", pod(A, "1", node="n1", phase="Pending")))
    event(informer, "MODIFIED", pod(A, "2", node="n1", phase="Running"))
    event(informer, "MODIFIED", pod(A, "3", node="n2", phase="Running"))
    assert nodes.changes[1:] == [
        Change(kind=POD, key=A, old=Pod("n1"), new=Pod("n2"), resource_version="3")
    ]
    assert phases.changes[1:] == [
        Change(kind=POD, key=A, old=Phase("Pending"), new=Phase("Running"), resource_version="2")
    ]
    assert informer.models == [Pod, Phase]


class ReadingHandler(RecordingHandler):
    """A handler that looks into the stores while it is told."""

    def __init__(self, informer: SharedInformer) -> None:
        super().__init__()
        self._informer = informer
        self.seen: list[list[object]] = []

    def on_change(self, change: Change[Any]) -> None:
        """Look into every store."""
        super().on_change(change)
        self.seen.append([typed.store.get(change.key) for typed in self._informer.typed_informers])


def test_all_stores_change_before_anybody_is_told(informer: SharedInformer) -> None:
    """A handler finds its own and every other store as new as its event (IQ-43)."""
    first, second = ReadingHandler(informer), ReadingHandler(informer)
    informer.add_event_handler(Pod, first)
    informer.add_event_handler(Phase, second)
    streaming_list(informer, ("ADDED", pod(A, "1", node="n1", phase="p1")))
    event(informer, "MODIFIED", pod(A, "2", node="n2", phase="p2"))
    event(informer, "DELETED", pod(A, "3", node="n2", phase="p2"))
    expected = [[Pod("n1"), Phase("p1")], [Pod("n2"), Phase("p2")], [None, None]]
    assert first.seen == expected
    assert second.seen == expected


def test_what_is_gone_before_the_list_ends_is_not_in_it(informer: SharedInformer) -> None:
    """
    A DELETED within a streaming list takes its object out, a later ADDED puts it in (IQ-11).

    A DELETED of an object that the list has not had is nothing.
    """
    handler = RecordingHandler()
    informer.add_event_handler(Pod, handler)
    streaming_list(
        informer,
        ("DELETED", pod(C, "1")),
        ("ADDED", pod(A, "1", node="n1")),
        ("ADDED", pod(B, "2", node="n1")),
        ("MODIFIED", pod(B, "3", node="n2")),
        ("DELETED", pod(A, "4", node="n1")),
        ("DELETED", pod(B, "5", node="n2")),
        ("ADDED", pod(B, "6", node="n3")),
    )
    assert handler.changes == [
        Change(kind=POD, key=B, old=None, new=Pod("n3"), resource_version="6", initial=True)
    ]


def test_an_item_without_a_name_is_passed_over_and_told(
    informer: SharedInformer, caplog: pytest.LogCaptureFixture
) -> None:
    """It could never be synced; its neighbours are there, and the log names the kind."""
    handler = RecordingHandler()
    informer.add_event_handler(Pod, handler)
    paged_list(informer, pod(A, "1"), b'{"metadata": {}}', b"{}", pod(B, "1"))
    assert handler.told() == [("added", "a"), ("added", "b")]
    told = [(record.getMessage(), pairs_of(record)) for record in caplog.records]
    assert told == [("list item without a name skipped", {"kind": "pods"})] * 2


def test_nothing_is_told_or_stored_before_the_list_is_complete(informer: SharedInformer) -> None:
    """While a relist is being streaming_list, readers see the previous set (IQ-11, IQ-50)."""
    handler = RecordingHandler()
    informer.add_event_handler(Pod, handler)
    paged_list(informer, pod(A, "1", node="n1"))
    handler.told()
    begin_streaming_list(informer, ("ADDED", pod(B, "2")))
    assert handler.told() == []
    assert informer.typed_informer(Pod).store.get(A) == Pod("n1")
    assert len(informer.typed_informer(Pod).store) == 1
    finish_list(informer)
    assert handler.told() == [("deleted", "a"), ("added", "b")]


def test_a_list_that_is_begun_again_forgets_the_first_attempt(informer: SharedInformer) -> None:
    """What a list gathered before its stream broke is not part of the next one (IQ-14)."""
    handler = RecordingHandler()
    informer.add_event_handler(Pod, handler)
    begin_streaming_list(informer, ("ADDED", pod(B, "1")))
    streaming_list(informer, ("ADDED", pod(A, "1")))
    assert handler.told() == [("added", "a")]


def test_objects_are_kept_whole_where_somebody_wants_them(informer: SharedInformer) -> None:
    """Bytes as they came, from a streaming list, an event and a page; nobody else pays for it."""
    informer.typed_informer(Pod).store.keep_full_objects = True
    informer.add_event_handler(Pod, RecordingHandler())
    informer.add_event_handler(Phase, RecordingHandler())
    first, second, third = (pod(A, version, node="n1") for version in "123")
    kept = []
    streaming_list(informer, ("ADDED", first))
    kept.append(informer.typed_informer(Pod).store.entry(A))
    event(informer, "MODIFIED", second)
    kept.append(informer.typed_informer(Pod).store.entry(A))
    paged_list(informer, third)
    kept.append(informer.typed_informer(Pod).store.entry(A))
    assert [entry.full_object for entry in kept if entry] == [first, second, third]
    bare = informer.typed_informer(Phase).store.entry(A)
    assert bare is not None
    assert bare.full_object == b""
