"""Nodes of a real server, for tests of the ttl controller."""

from collections.abc import Mapping
from typing import Any

from kubernetes import client

from kcm_host_testing.api_server import ApiServer

TTL = "node.alpha.kubernetes.io/ttl"


class Nodes:
    """The nodes of a server."""

    def __init__(self, server: ApiServer) -> None:
        self._core: Any = client.CoreV1Api(server.client())

    def create(self, name: str, **annotations: str) -> None:
        """Create a node with these annotations."""
        self._core.create_node({"metadata": {"name": name, "annotations": annotations}})

    def annotations(self, name: str) -> Mapping[str, str]:
        """Return the annotations of a node."""
        return self._core.read_node(name).metadata.annotations or {}

    def clear(self) -> None:
        """Delete all nodes."""
        self._core.delete_collection_node()
