"""One stream serves several models: each object is decoded once for each of them."""

from collections import Counter
from typing import Any

import pytest
from host.informer.stream_lines import (
    POD,
    A,
    B,
    Counted,
    Listener,
    Phase,
    Pod,
    complete,
    event,
    gathered,
    gathering,
    listed,
    pod,
)

from kcm_host.api.watches import Change
from kcm_host.informer.shared_informer import SharedInformer


@pytest.fixture
def decoded() -> Counter[str]:
    """How often a pod on each node was decoded in this test."""
    Counted.decoded.clear()
    return Counted.decoded


def test_an_object_is_decoded_once_for_all_followers(
    feed: SharedInformer, decoded: Counter[str]
) -> None:
    """Three followers of one model share one decoded object, in list, page and event."""
    listeners = [Listener() for _ in range(3)]
    for listener in listeners:
        feed.follow(Counted, listener)
    feed.follow(Phase, Listener())
    gathered(feed, ("ADDED", pod(A, "1", node="gathered")))
    event(feed, "MODIFIED", pod(A, "2", node="event"))
    listed(feed, pod(A, "3", node="listed"))
    assert decoded == {"gathered": 1, "event": 1, "listed": 1}
    seen = [[change.new for change in listener.changes] for listener in listeners]
    assert all(one is two for one, two in zip(seen[0], seen[1], strict=True))
    assert len(seen[2]) == 3


def test_each_model_has_its_own_store_and_changes(feed: SharedInformer) -> None:
    """A change of a field that one model declares wakes the followers of that model alone."""
    nodes, phases = Listener(), Listener()
    feed.follow(Pod, nodes)
    feed.follow(Phase, phases)
    gathered(feed, ("ADDED", pod(A, "1", node="n1", phase="Pending")))
    event(feed, "MODIFIED", pod(A, "2", node="n1", phase="Running"))
    event(feed, "MODIFIED", pod(A, "3", node="n2", phase="Running"))
    assert nodes.changes[1:] == [Change(POD, A, Pod("n1"), Pod("n2"), "3")]
    assert phases.changes[1:] == [Change(POD, A, Phase("Pending"), Phase("Running"), "2")]
    assert feed.models == [Pod, Phase]


class Peeping(Listener):
    """A follower that looks into the stores while it is told."""

    def __init__(self, feed: SharedInformer) -> None:
        super().__init__()
        self._feed = feed
        self.seen: list[list[object]] = []

    def changed(self, change: Change[Any]) -> None:
        """Look into every store."""
        super().changed(change)
        self.seen.append([shelf.store.get(change.key) for shelf in self._feed.shelves])


def test_all_stores_change_before_anybody_is_told(feed: SharedInformer) -> None:
    """A follower finds its own and every other store as new as its event (IQ-43)."""
    first, second = Peeping(feed), Peeping(feed)
    feed.follow(Pod, first)
    feed.follow(Phase, second)
    gathered(feed, ("ADDED", pod(A, "1", node="n1", phase="p1")))
    event(feed, "MODIFIED", pod(A, "2", node="n2", phase="p2"))
    event(feed, "DELETED", pod(A, "3", node="n2", phase="p2"))
    expected = [[Pod("n1"), Phase("p1")], [Pod("n2"), Phase("p2")], [None, None]]
    assert first.seen == expected
    assert second.seen == expected


def test_what_is_gone_before_the_list_ends_is_not_in_it(feed: SharedInformer) -> None:
    """A DELETED within a streaming list takes its object out, a later ADDED puts it in (IQ-11)."""
    listener = Listener()
    feed.follow(Pod, listener)
    gathered(
        feed,
        ("ADDED", pod(A, "1", node="n1")),
        ("ADDED", pod(B, "2", node="n1")),
        ("MODIFIED", pod(B, "3", node="n2")),
        ("DELETED", pod(A, "4", node="n1")),
        ("DELETED", pod(B, "5", node="n2")),
        ("ADDED", pod(B, "6", node="n3")),
    )
    assert listener.changes == [Change(POD, B, None, Pod("n3"), "6", initial=True)]


def test_what_a_list_never_had_may_go_while_it_runs(feed: SharedInformer) -> None:
    """A DELETED of an object that the list has not told is nothing (IQ-11)."""
    listener = Listener()
    feed.follow(Pod, listener)
    gathered(feed, ("DELETED", pod(A, "1")), ("ADDED", pod(B, "2")))
    assert listener.told() == [("added", "b")]


def test_an_item_without_a_name_is_passed_over_and_told(
    feed: SharedInformer, caplog: pytest.LogCaptureFixture
) -> None:
    """It could never be synced; its neighbours are there, and the log names the kind."""
    listener = Listener()
    feed.follow(Pod, listener)
    listed(feed, pod(A, "1"), b'{"metadata": {}}', b"{}", pod(B, "1"))
    assert listener.told() == [("added", "a"), ("added", "b")]
    told = [(record.getMessage(), record.__dict__["kv"]) for record in caplog.records]
    assert told == [("list item without a name skipped", {"kind": "pods"})] * 2


def test_nothing_is_told_or_stored_before_the_list_is_complete(feed: SharedInformer) -> None:
    """While a relist is being gathered, readers see the previous set (IQ-11, IQ-50)."""
    listener = Listener()
    feed.follow(Pod, listener)
    listed(feed, pod(A, "1", node="n1"))
    listener.told()
    gathering(feed, ("ADDED", pod(B, "2")))
    assert listener.told() == []
    assert feed.shelf(Pod).store.get(A) == Pod("n1")
    assert len(feed.shelf(Pod).store) == 1
    complete(feed)
    assert listener.told() == [("deleted", "a"), ("added", "b")]


def test_a_list_that_is_begun_again_forgets_the_first_attempt(feed: SharedInformer) -> None:
    """What a list gathered before its stream broke is not part of the next one (IQ-14)."""
    listener = Listener()
    feed.follow(Pod, listener)
    gathering(feed, ("ADDED", pod(B, "1")))
    gathered(feed, ("ADDED", pod(A, "1")))
    assert listener.told() == [("added", "a")]


def test_objects_are_kept_whole_where_somebody_wants_them(feed: SharedInformer) -> None:
    """Bytes as they came, from a streaming list, an event and a page; nobody else pays for it."""
    feed.shelf(Pod).store.keep_whole = True
    feed.follow(Pod, Listener())
    feed.follow(Phase, Listener())
    first, second, third = (pod(A, version, node="n1") for version in "123")
    kept = []
    gathered(feed, ("ADDED", first))
    kept.append(feed.shelf(Pod).store.entry(A))
    event(feed, "MODIFIED", second)
    kept.append(feed.shelf(Pod).store.entry(A))
    listed(feed, third)
    kept.append(feed.shelf(Pod).store.entry(A))
    assert [entry.whole for entry in kept if entry] == [first, second, third]
    bare = feed.shelf(Phase).store.entry(A)
    assert bare is not None
    assert bare.whole == b""
