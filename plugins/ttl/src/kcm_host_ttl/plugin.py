"""The ttl controller: tells kubelets, by an annotation on every node, how long they may cache."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kcm_host.api import (
    Change,
    Discovery,
    Done,
    Key,
    Kind,
    Permission,
    View,
    Watch,
    Writer,
    hookimpl,
)
from kcm_host_ttl.boundaries import NodeCount, parse_seconds

log = logging.getLogger(__name__)

NODE = Kind("", "v1", "Node", "nodes", namespaced=False)
ANNOTATION = "node.alpha.kubernetes.io/ttl"


class Annotations(msgspec.Struct, frozen=True, gc=False):
    """The one annotation this controller reads."""

    ttl: str | None = msgspec.field(name=ANNOTATION, default=None)


class Metadata(msgspec.Struct, frozen=True, gc=False):
    """A node's metadata, as far as it matters here."""

    annotations: Annotations | None = None


class Node(msgspec.Struct, frozen=True, gc=False):
    """A node: nothing but metadata, so nothing else is fetched."""

    metadata: Metadata

    @property
    def ttl(self) -> str | None:
        """The annotation's text."""
        annotations = self.metadata.annotations
        return annotations.ttl if annotations else None


class Ttl:
    """
    Keeps the annotation of every node at the value for the present number of nodes.

    The count follows the changes told (TTL-11), starts at zero with each start and is never
    read back from annotations (TTL-10).
    """

    def __init__(self) -> None:
        self._count = NodeCount()

    @hookimpl
    def kcm_watches(self, settings: None, discovery: Discovery) -> list[Watch[Node]]:
        """Follow all nodes (TTL-6)."""
        return [Watch(kind=NODE, model=Node, keys=self._keys, resync=lambda key: key)]

    @hookimpl
    def kcm_writes(self, settings: None) -> list[Permission]:
        """Patch nodes, nothing else (TTL-7, TTL-50)."""
        return [Permission(NODE, "patch")]

    @hookimpl
    async def kcm_sync(self, key: Key, view: View, writer: Writer, settings: None) -> Done:
        """Patch one node's annotation if it is not the desired number (TTL-30 to TTL-34)."""
        node = view.of(NODE, Node).get(key.name)
        if node is not None and self._wrong(node):
            seconds = str(self._count.seconds)
            await writer.patch(NODE, key, {"metadata": {"annotations": {ANNOTATION: seconds}}})
        return Done()

    @hookimpl
    def kcm_status(self, view: View, settings: None) -> Mapping[str, Any]:
        """Show the count and the value that follows from it."""
        return {"nodes": self._count.nodes, "ttlSeconds": self._count.seconds}

    def _keys(self, change: Change[Node], view: View) -> Iterable[Key]:
        """Queue the nodes that carry a wrong value: this one, or any after a change of step."""
        before = self._count.seconds
        self._recount(change, view)
        if self._count.seconds != before and not change.initial:
            nodes = view.of(NODE, Node).items()
            return [key for key, node in nodes if self._wrong(node)]
        if change.new is not None and self._wrong(change.new):
            return [change.key]
        return ()

    def _recount(self, change: Change[Node], view: View) -> None:
        if change.initial:
            # The store holds the whole initial list: count it at its first change, so that no
            # node is queued for a value that only held on the way.
            if self._count.nodes == 0:
                self._count.add(len(list(view.of(NODE, Node).items())))
        elif change.old is None:
            self._count.add()
        elif change.new is None:
            try:
                self._count.remove()
            except ValueError as error:
                log.warning("node count off", extra={"kv": {"error": str(error)}})

    def _wrong(self, node: Node) -> bool:
        seconds = self._count.seconds
        # Nearly all nodes carry the very text this controller writes: no need to parse it.
        return node.ttl != str(seconds) and parse_seconds(node.ttl) != seconds
