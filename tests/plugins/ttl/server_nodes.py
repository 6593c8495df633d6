"""Nodes of a real server and what a host with the ttl controller does to them, for tests."""

import secrets
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from kubernetes import client
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import Request
from kcm_host_testing.proxy import FaultProxy

#: The user of the plugins' server that may do what the controller's own role allows.
USER = "ttl"
TTL = "node.alpha.kubernetes.io/ttl"


class Nodes:
    """The nodes of a server, what a host wrote to them, and what it says about itself."""

    def __init__(self, server: ApiServer, proxy: FaultProxy, host: RunningHost) -> None:
        self.server = server
        self.proxy = proxy
        self.host = host
        self._core: Any = client.CoreV1Api(server.client())

    def create(self, *names: str, annotations: Mapping[str, str] | None = None) -> str:
        """Create nodes, several at a time, and return the version of the last."""
        return create_nodes(self.server, names, annotations=annotations)

    def report_status(self, name: str) -> str:
        """Change a node's status as a kubelet does, and return the node's new version."""
        ready = {"type": "Ready", "status": "True", "reason": secrets.token_hex(4)}
        node = self._core.patch_node_status(name, {"status": {"conditions": [ready]}})
        return str(node.metadata.resource_version)

    def read(self, name: str) -> Any:
        """Return a node as the server has it."""
        return self._core.read_node(name)

    def ttl(self, name: str) -> str | None:
        """Return the annotation of one node."""
        annotations = self.read(name).metadata.annotations or {}
        return annotations.get(TTL)

    def patches(self, name: str = "[^/]+") -> list[Request]:
        """Return the host's writes to one node, or to all."""
        return self.proxy.requests(method="PATCH", path=f"^/api/v1/nodes/{name}$")

    def wait_until_idle(self, name: str) -> dict[str, Any]:
        """Return when the host has done all it has to; needs a node to make harmless events on."""
        return self.host.wait_until_settled("ttl", "nodes", lambda: self.report_status(name))


def create_nodes(
    server: ApiServer, names: Iterable[str], *, annotations: Mapping[str, str] | None = None
) -> str:
    """Create nodes, several at a time, and return the version of the last."""
    core: Any = client.CoreV1Api(server.client())

    def create(name: str) -> int:
        # The server tracks fields of an object only if it had some of them from the beginning.
        labels = {"made-by": "a-test"}
        metadata = {"name": name, "annotations": annotations, "labels": labels}
        return int(core.create_node({"metadata": metadata}).metadata.resource_version)

    with ThreadPoolExecutor(8) as pool:
        return str(max(pool.map(create, names)))


def delete_all_nodes(server: ApiServer) -> None:
    """Delete all nodes of a server."""
    client.CoreV1Api(server.client()).delete_collection_node()


@contextmanager
def ttl_host(server: ApiServer, *, user: str = USER, workers: int = 5) -> Iterator[Nodes]:
    """Run a host with the ttl controller alone, behind a proxy of its own."""
    config = {"controllers": {"ttl": {"workers": workers}}}
    with (
        FaultProxy(server) as proxy,
        RunningHost(config, kubeconfig=proxy.kubeconfig(user)) as host,
    ):
        yield Nodes(server, proxy, host)
