"""The hooks of the ttl controller, and the fields that it reads of Nodes."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kcm_host.api import (
    Change,
    ControllerInfo,
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

NODE = Kind(group="", version="v1", name="Node", resource="nodes", namespaced=False)
ANNOTATION = "node.alpha.kubernetes.io/ttl"


class Annotations(msgspec.Struct, frozen=True, gc=False):
    """The one annotation that is read."""

    ttl: str | None = msgspec.field(name=ANNOTATION, default=None)


class Metadata(msgspec.Struct, frozen=True, gc=False):
    """The metadata of a node."""

    annotations: Annotations | None = None


class Node(msgspec.Struct, frozen=True, gc=False):
    """A Node. The model has only metadata, so only metadata is requested from the server."""

    metadata: Metadata

    @property
    def ttl(self) -> str | None:
        """The text of the annotation."""
        annotations = self.metadata.annotations
        return annotations.ttl if annotations else None


class Ttl:
    """
    The controller that keeps an annotation of every node at the value for the number of nodes.

    The annotation is the number of seconds that a kubelet may cache. The count follows the
    delivered changes (TTL-11), starts at zero with each start and is never read back from
    annotations (TTL-10).
    """

    def __init__(self) -> None:
        self._count = NodeCount()

    @staticmethod
    @hookimpl
    def kcm_info() -> ControllerInfo:
        """Return the names that kube-controller-manager has for this controller."""
        return ControllerInfo(
            aliases=("ttl-controller",),
            service_account="ttl-controller",
            queue_name="ttlcontroller",
        )

    @hookimpl
    def kcm_watches(self) -> list[Watch[Node]]:
        """Watch all nodes (TTL-6)."""
        return [Watch(kind=NODE, model=Node, keys=self._on_node, resync=lambda key: key)]

    @hookimpl
    def kcm_writes(self) -> list[Permission]:
        """Return the permission to patch nodes (TTL-7, TTL-50)."""
        return [Permission(kind=NODE, verb="patch")]

    @hookimpl
    async def kcm_sync(self, key: Key, view: View, writer: Writer) -> Done:
        """Patch the annotation of one node if it is not the desired number (TTL-30 to TTL-34)."""
        node = view.of(NODE, Node).get(key.name)
        if node is not None and self._needs_patch(node):
            annotations = {ANNOTATION: str(self._count.ttl_seconds)}
            body = {"metadata": {"annotations": annotations}}
            await writer.patch(NODE, key, body, type="strategic")
        return Done()

    @hookimpl
    def kcm_status(self) -> Mapping[str, Any]:
        """Return the count and the value that follows from it."""
        return {"nodes": self._count.nodes, "ttlSeconds": self._count.ttl_seconds}

    def _on_node(self, change: Change[Node], view: View) -> Iterable[Key]:
        """Queue the node if its value is wrong; after a change of step, every such node."""
        before = self._count.ttl_seconds
        self._update_count(change, view)
        if self._count.ttl_seconds != before and not change.initial:
            nodes = view.of(NODE, Node).items()
            return [key for key, node in nodes if self._needs_patch(node)]
        if change.new is not None and self._needs_patch(change.new):
            return [change.key]
        return ()

    def _update_count(self, change: Change[Node], view: View) -> None:
        if change.initial:
            # The cache has the full initial list: it is counted at its first change, so that no
            # node is queued for the value of a step in between.
            if self._count.nodes == 0:
                self._count.add(len(list(view.of(NODE, Node).items())))
        elif change.old is None:
            self._count.add()
        elif change.new is None:
            try:
                self._count.remove()
            except ValueError as error:
                log.warning("node count wrong", extra={"kv": {"error": str(error)}})

    def _needs_patch(self, node: Node) -> bool:
        seconds = self._count.ttl_seconds
        # Nearly all nodes have exactly the text that this controller writes: no parsing needed.
        return node.ttl != str(seconds) and parse_seconds(node.ttl) != seconds
