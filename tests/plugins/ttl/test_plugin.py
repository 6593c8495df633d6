"""The hooks of the controller in the harness: keys, writes and status."""

import logging
from datetime import timedelta
from typing import Any

import pytest

from kcm_host.api import Change, Done, Key, NotFound, Permission
from kcm_host_testing.harness import ControllerHarness
from kcm_host_ttl.plugin import ANNOTATION, NODE, Metadata, Node, Ttl


class Cluster(ControllerHarness):
    """The controller with nodes that have these annotations."""

    def __init__(self, **ttls: str | None) -> None:
        super().__init__(Ttl())
        for name, ttl in ttls.items():
            self.put_node(name, ttl)
        self.start()

    def put_node(self, name: str, ttl: str | None) -> None:
        """Put a node with this annotation."""
        annotations = {"other": "stays"} | ({} if ttl is None else {ANNOTATION: ttl})
        self.put(NODE, {"metadata": {"name": name, "annotations": annotations}})

    def queued(self) -> list[str]:
        """Return the names of the keys that were queued since the last call."""
        names = sorted(key.name for key in self.enqueued)
        self.enqueued.clear()
        return names

    def written(self) -> list[tuple[str, Any]]:
        """Return the name and the value of each patch."""
        sent = []
        for write in self.writes:
            assert (write.verb, write.kind, write.subresource) == ("patch", NODE, "")
            (annotation,) = write.body["metadata"]["annotations"].items()
            assert write.body == {"metadata": {"annotations": dict([annotation])}}
            assert annotation[0] == ANNOTATION
            sent.append((write.key.name, annotation[1]))
        return sent


def many(count: int, ttl: str | None) -> dict[str, str | None]:
    """Return so many nodes with the same annotation."""
    return {f"n{number}": ttl for number in range(count)}


def test_a_new_node_is_queued_and_patched() -> None:
    """The body has the one annotation, in canonical form (TTL-T1, TTL-T17, TTL-51, TTL-54)."""
    cluster = Cluster(n1=None)
    assert cluster.queued() == ["n1"]
    assert cluster.sync("n1") == Done()
    assert cluster.written() == [("n1", "0")]
    assert cluster.get(NODE, "n1")["metadata"]["annotations"] == {"other": "stays", ANNOTATION: "0"}


def test_a_right_node_is_neither_queued_nor_patched() -> None:
    """It needs no sync, and a sync of it sends nothing (TTL-T2, TTL-33, TTL-42)."""
    cluster = Cluster(n1="0", n2="000")
    assert cluster.queued() == []
    cluster.sync("n1")
    cluster.sync("n2")
    assert cluster.written() == []


def test_a_node_that_is_gone_needs_nothing() -> None:
    """A key without a cached node succeeds without a request (TTL-T18, TTL-30)."""
    cluster = Cluster()
    assert cluster.sync("n1") == Done()
    assert cluster.written() == []


def test_the_stored_node_is_not_touched() -> None:
    """After a patch the cache has what the server last delivered (TTL-T27, TTL-53)."""
    cluster = Cluster(n1="30")
    with cluster.disconnected():
        cluster.sync("n1")
        cluster.sync("n1")
    assert cluster.written() == [("n1", "0")] * 2, "the second sync has read the old state"


def test_updates_are_judged_by_their_annotation() -> None:
    """Wrong ones are queued, correct or unchanged ones not (TTL-21, T23, T24, Difference c)."""
    cluster = Cluster(n1="0")
    cluster.put_node("n1", "30")
    assert cluster.queued() == ["n1"]
    cluster.put_node("n1", "0")
    assert cluster.queued() == [], "TTL-T24: the event of the write"
    cluster.patch(NODE, "n1", {"metadata": {"labels": {"a": "b"}}})
    assert cluster.queued() == [], "TTL-T23: nothing that is read has changed"
    cluster.put_node("n1", None)
    assert cluster.queued() == ["n1"]
    assert cluster.status()["nodes"] == 1, "TTL-21: no update is counted"
    cluster.put_node("n2", "30")
    assert cluster.queued() == ["n2"], "TTL-81: n1 is still wrong and not queued again"


def test_five_changes_at_once_are_one_sync() -> None:
    """And one write (TTL-T25); a value set by hand is put right (TTL-T26, TTL-34, 43, 83)."""
    cluster = Cluster(n1="0")
    for value in ("1", "2", "abc", "-1", "4"):
        cluster.put_node("n1", value)
    cluster.run_until_idle()
    assert cluster.written() == [("n1", "0")]
    assert len(cluster.outcomes) == 1


@pytest.mark.parametrize("error", ["Forbidden", "Conflict", "NotFound", "Unreachable"])
def test_a_failed_write_is_repeated_with_growing_waits(error: Any) -> None:
    """After 5 and 10 ms, with the state of its time; no other waits (TTL-T19, TTL-60 to TTL-62)."""
    cluster = Cluster(n1=None, n2=None)
    cluster.answer(error, key="n1", times=2)
    start = cluster.now
    cluster.run_until_idle()
    assert cluster.written() == [("n1", "0"), ("n2", "0"), ("n1", "0"), ("n1", "0")]
    assert cluster.now - start == timedelta(milliseconds=15)
    cluster.put_node("n1", None)
    cluster.answer(error)
    cluster.before_response(lambda: cluster.put_node("n1", "0"))
    start = cluster.now
    cluster.run_until_idle()
    assert cluster.now - start == timedelta(milliseconds=5), "success has reset the waits"
    assert len(cluster.written()) == 5, "the correction by somebody else ends the retries"


def test_a_node_deleted_meanwhile_is_not_asked_for_again() -> None:
    """404 is an error like others; the retry finds no node and ends (TTL-T20, TTL-30, TTL-61)."""
    cluster = Cluster(n1=None)
    with cluster.disconnected():
        cluster.delete(NODE, "n1")
        with pytest.raises(NotFound):
            cluster.sync("n1")
    cluster.run_until_idle()
    assert len(cluster.writes) == 1


def test_a_deleted_node_is_counted_and_not_queued() -> None:
    """Its last annotation does not matter (TTL-22)."""
    cluster = Cluster(n1="77", n2="0")
    cluster.queued()
    cluster.delete(NODE, "n1")
    assert cluster.queued() == []
    assert cluster.status() == {"nodes": 1, "ttlSeconds": 0}


def test_a_delete_that_only_a_list_shows_is_counted() -> None:
    """What is missing from a new list is gone (TTL-T21, IQ-51)."""
    cluster = Cluster(n1="0", n2="0", n3="0")
    with cluster.disconnected():
        cluster.delete(NODE, "n1")
        cluster.delete(NODE, "n3")
        cluster.put_node("n4", "0")
    assert cluster.status() == {"nodes": 2, "ttlSeconds": 0}


def test_a_node_that_was_never_cached_is_not_counted_when_it_goes() -> None:
    """The cache has no such node, so no change is delivered (TTL-11, TTL-27, TTL-T22)."""
    cluster = Cluster(n1="0")
    with cluster.disconnected():
        cluster.put_node("n2", "0")
        cluster.delete(NODE, "n2")
    assert cluster.status() == {"nodes": 1, "ttlSeconds": 0}


def test_a_count_that_would_be_negative_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """A deletion beyond the count is logged; count and value stay (TTL-29)."""
    controller = Ttl()
    (watch,) = controller.kcm_watches()
    gone = Change(kind=NODE, key=Key("n1"), old=Node(metadata=Metadata()), new=None)
    with caplog.at_level(logging.WARNING, logger="kcm_host_ttl"):
        assert list(watch.keys(gone, None)) == []  # type: ignore[arg-type] # the view is not read
    logged = [(record.getMessage(), record.__dict__["kv"]) for record in caplog.records]
    error = "a node was deleted although none was counted"
    assert logged == [("node count wrong", {"error": error})]
    assert controller.kcm_status() == {"nodes": 0, "ttlSeconds": 0}


def test_a_start_in_a_large_cluster_writes_each_node_once() -> None:
    """No sync before all nodes are counted, from below (TTL-10, TTL-32, TTL-82, Difference a)."""
    cluster = Cluster(**many(101, "0"))
    cluster.run_until_idle()
    assert sorted(cluster.written()) == sorted((name, "15") for name in many(101, None))
    for name in list(many(101, None))[95:]:
        cluster.delete(NODE, name)
    cluster.run_until_idle()
    assert len(cluster.writes) == 101
    cluster.restart(Ttl())
    cluster.run_until_idle()
    assert [value for _, value in cluster.written()[101:]] == ["0"] * 95


def test_a_change_of_step_queues_every_wrong_node() -> None:
    """Up and down, all that have the old value, not those that are correct (Difference d)."""
    cluster = Cluster(**many(100, "0"))
    assert cluster.queued() == []
    cluster.put_node("right", "15")
    assert cluster.queued() == sorted(many(100, None))
    cluster = Cluster(**many(101, "15"))
    for name in list(many(101, None))[:11]:
        cluster.delete(NODE, name)
    assert cluster.queued() == []
    cluster.delete(NODE, "n11")
    assert len(cluster.queued()) == 89


def test_a_sync_takes_the_value_of_its_own_moment() -> None:
    """The value at the time of the sync counts, not an earlier one (TTL-31, TTL-62)."""
    cluster = Cluster(**many(101, "0"))
    cluster.put_node("n0", "30")
    for name in list(many(101, None))[89:]:
        cluster.delete(NODE, name)
    cluster.sync("n0")
    assert cluster.written() == [("n0", "0")]


def test_all_nodes_are_followed_and_only_patched() -> None:
    """One cluster-wide watch, no selector, no repeats, no rest (TTL-6, TTL-7, Differences b, c)."""
    (watch,) = Ttl().kcm_watches()
    assert (watch.kind.api_version, watch.kind.resource, watch.kind.namespaced) == (
        "v1",
        "nodes",
        False,
    )
    assert (watch.namespace, watch.label_selector, watch.field_selector) == ("", "", "")
    assert (watch.notify_unchanged, watch.debounce) == (False, timedelta(0))
    assert Ttl().kcm_writes() == [Permission(kind=NODE, verb="patch")]
