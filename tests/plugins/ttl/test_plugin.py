"""The hooks of the controller with the host's own informer: keys, writes and status."""

import json
import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from view_stores import stores_of

from kcm_host.api import Change, Done, Key, Kind, Permission, Watch, WriteResponse
from kcm_host.informer import decoder
from kcm_host.informer.cache_view import CacheView
from kcm_host.informer.shared_informer import SharedInformer
from kcm_host_ttl.plugin import ANNOTATION, NODE, Metadata, Node, Ttl


class Cluster:
    """One controller between a stream of events and the writes it makes."""

    def __init__(self, **ttls: str | None) -> None:
        self.controller = Ttl()
        self.watch: Watch[Node]
        (self.watch,) = self.controller.kcm_watches()
        self.informer = SharedInformer(NODE)
        self.informer.add_event_handler(Node, self)
        stores = {(NODE, Node): self.informer.typed_informer(Node).store}
        self.view = CacheView("ttl", stores_of("ttl", stores))
        self.queued: list[str] = []
        self.written: list[tuple[str, Any]] = []
        self.relist(**ttls)

    def on_change(self, change: Change[Any]) -> None:
        """Queue what the controller says, as the host does."""
        self.queued += [key.name for key in self.watch.keys(change, self.view)]

    def on_synced(self) -> None:
        """Do nothing: the keys of the initial objects are queued already."""

    def relist(self, **ttls: str | None) -> None:
        """Read a complete list of nodes with these annotations."""
        self.informer.init()
        for name, ttl in ttls.items():
            line = event("ADDED", name, ttl)
            self.informer.init_apply("ADDED", line, head_of(line))
        for _ in self.informer.init_done():
            pass

    def deliver(self, kind: str, name: str, ttl: str | None = None) -> list[str]:
        """Deliver one event and return the names of the keys queued for it."""
        before = len(self.queued)
        line = event(kind, name, ttl)
        self.informer.apply(kind, line, head_of(line))
        return sorted(self.queued[before:])

    async def sync(self, name: str) -> Done:
        """Sync one node with the present cache."""
        return await self.controller.kcm_sync(Key(name), self.view, self)

    def status(self) -> Mapping[str, Any]:
        """Return the controller's part of the status page."""
        return self.controller.kcm_status()

    async def patch(
        self,
        kind: Kind,
        key: Key,
        body: Mapping[str, Any],
        *,
        type: str = "merge",  # noqa: A002 - as `Writer.patch`
        subresource: str = "",
    ) -> WriteResponse:
        """Note a write."""
        assert (kind, type, subresource) == (NODE, "strategic", "")
        self.written.append((key.name, body))
        return WriteResponse()

    async def apply(
        self,
        kind: Kind,
        key: Key,
        body: Mapping[str, Any],
        *,
        field_manager: str,
        force: bool = True,
    ) -> WriteResponse:
        """Refuse: the controller patches."""
        raise NotImplementedError(f"{kind} {key} {body} {field_manager} {force}")


def event(kind: str, name: str, ttl: str | None) -> bytes:
    """Return one line of a watch of nodes."""
    annotations = {"other": "stays"} | ({} if ttl is None else {ANNOTATION: ttl})
    metadata = {"name": name, "uid": name, "resourceVersion": "7", "annotations": annotations}
    return json.dumps({"type": kind, "object": {"kind": "Node", "metadata": metadata}}).encode()


def head_of(line: bytes) -> decoder.PartialObject:
    """Return the part of the object that the host reads."""
    return decoder.decode_event(line).object


def many(count: int, ttl: str | None) -> dict[str, str | None]:
    """Return so many nodes with the same annotation."""
    return {f"n{number}": ttl for number in range(count)}


async def test_a_new_node_is_queued_and_patched() -> None:
    """The body has the one annotation, in canonical form (TTL-T1, TTL-T17, TTL-51, TTL-54)."""
    cluster = Cluster(n1=None)
    assert cluster.queued == ["n1"]
    assert await cluster.sync("n1") == Done()
    assert cluster.written == [("n1", {"metadata": {"annotations": {ANNOTATION: "0"}}})]


async def test_a_right_node_is_neither_queued_nor_patched() -> None:
    """It needs no sync, and a sync of it sends nothing (TTL-T2, TTL-33, TTL-42)."""
    cluster = Cluster(n1="0", n2="000")
    assert cluster.queued == []
    await cluster.sync("n1")
    await cluster.sync("n2")
    assert cluster.written == []


async def test_a_node_that_is_gone_needs_nothing() -> None:
    """A key without a cached node succeeds without a request (TTL-T18, TTL-30)."""
    cluster = Cluster()
    assert await cluster.sync("n1") == Done()
    assert cluster.written == []


async def test_the_stored_node_is_not_touched() -> None:
    """After a patch the cache has the state that the server last delivered (TTL-T27, TTL-53)."""
    cluster = Cluster(n1="30")
    nodes = cluster.view.of(NODE, Node)
    before = nodes.get("n1")
    await cluster.sync("n1")
    assert nodes.get("n1") is before
    assert before is not None
    assert before.ttl == "30"


def test_updates_are_judged_by_their_annotation() -> None:
    """Wrong ones are queued, correct or unchanged ones not (TTL-21, T23, T24, Difference c)."""
    cluster = Cluster(n1="0")
    assert cluster.deliver("MODIFIED", "n1", "30") == ["n1"]
    assert cluster.deliver("MODIFIED", "n1", "0") == [], "TTL-T24: the event of the write"
    assert cluster.deliver("MODIFIED", "n1", "0") == [], "TTL-T23: a repetition"
    assert cluster.deliver("MODIFIED", "n1", None) == ["n1"]
    assert cluster.status()["nodes"] == 1, "TTL-21: no update is counted"


def test_an_update_queues_no_other_node() -> None:
    """While the step stays, other wrong nodes are queued by their own changes (TTL-21, TTL-81)."""
    cluster = Cluster(n1="30", n2="0")
    assert cluster.deliver("MODIFIED", "n2", "30") == ["n2"]
    assert cluster.deliver("ADDED", "n3", None) == ["n3"]
    assert cluster.deliver("DELETED", "n3", None) == []


def test_a_deleted_node_is_counted_and_not_queued() -> None:
    """Its last annotation does not matter (TTL-22)."""
    cluster = Cluster(n1="0", n2="0")
    assert cluster.deliver("DELETED", "n1", "77") == []
    assert cluster.status() == {"nodes": 1, "ttlSeconds": 0}


def test_a_delete_that_only_a_list_shows_is_counted() -> None:
    """What is missing from a new list is gone (TTL-T21, IQ-51)."""
    cluster = Cluster(n1="0", n2="0", n3="0")
    cluster.relist(n2="0", n4="0")
    assert cluster.status() == {"nodes": 2, "ttlSeconds": 0}


def test_a_delete_of_an_unknown_node_is_not_counted() -> None:
    """The cache has no such node, so no change is delivered (TTL-11, TTL-27, TTL-T22)."""
    cluster = Cluster(n1="0")
    assert cluster.deliver("DELETED", "n2") == []
    assert cluster.status() == {"nodes": 1, "ttlSeconds": 0}


def test_a_count_that_would_be_negative_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """A deletion beyond the count is logged; count and value stay (TTL-29)."""
    cluster = Cluster()
    gone = Change(kind=NODE, key=Key("n1"), old=Node(metadata=Metadata()), new=None)
    with caplog.at_level(logging.WARNING, logger="kcm_host_ttl"):
        assert list(cluster.watch.keys(gone, cluster.view)) == []
    logged = [(record.getMessage(), record.__dict__["kv"]) for record in caplog.records]
    error = "a node was deleted although none was counted"
    assert logged == [("node count wrong", {"error": error})]
    assert cluster.status() == {"nodes": 0, "ttlSeconds": 0}


def test_a_change_of_step_queues_every_wrong_node() -> None:
    """Up and down, all that have the old value, not those that are correct (Difference d)."""
    cluster = Cluster(**many(100, "0"))
    assert cluster.queued == []
    assert cluster.deliver("ADDED", "right", "15") == sorted(many(100, None))
    cluster = Cluster(**many(101, "15"))
    for name in list(many(101, None))[:11]:
        assert cluster.deliver("DELETED", name, "15") == []
    assert len(cluster.deliver("DELETED", "n11", "15")) == 89


async def test_a_sync_takes_the_value_of_its_own_moment() -> None:
    """The value at the time of the sync counts, not an earlier one (TTL-31, TTL-62)."""
    cluster = Cluster(**many(101, "0"))
    cluster.deliver("MODIFIED", "n0", "30")
    for name in list(many(101, None))[89:]:
        cluster.deliver("DELETED", name)
    await cluster.sync("n0")
    assert cluster.written == [("n0", {"metadata": {"annotations": {ANNOTATION: "0"}}})]


async def test_ten_thousand_nodes_make_no_further_step() -> None:
    """A list of 12000 nodes queues them for 300 seconds (TTL-T15, TTL-8)."""
    cluster = Cluster(**many(12_000, None))
    assert cluster.status() == {"nodes": 12_000, "ttlSeconds": 300}
    await cluster.sync("n0")
    assert cluster.written == [("n0", {"metadata": {"annotations": {ANNOTATION: "300"}}})]


def test_all_nodes_are_followed_and_only_patched() -> None:
    """One cluster-wide watch, no selector, no repeats, no rest (TTL-6, TTL-7, Differences b, c)."""
    watch = Cluster().watch
    assert (watch.kind.api_version, watch.kind.resource, watch.kind.namespaced) == (
        "v1",
        "nodes",
        False,
    )
    assert (watch.namespace, watch.label_selector, watch.field_selector) == ("", "", "")
    assert (watch.notify_unchanged, watch.debounce) == (False, timedelta(0))
    assert Ttl().kcm_writes() == [Permission(kind=NODE, verb="patch")]
