"""Nodes are told how long they may cache."""

from collections import Counter
from typing import Any

from kubernetes import client as kube
from telling import step, tell, wait_for

TTL = "node.alpha.kubernetes.io/ttl"


def play(api: Any) -> None:
    """Cross the boundary of 100 nodes."""
    core = kube.CoreV1Api(api)
    step("ttl: three nodes appear; each is told to cache for 0 seconds")
    _create_nodes(core, range(3))
    tell(wait_for(lambda: _told(core, nodes=3, value="0")))
    step("ttl: 98 more nodes appear; from 101 on, all are told 15 seconds")
    _create_nodes(core, range(3, 101))
    tell(wait_for(lambda: _told(core, nodes=101, value="15")))


def _create_nodes(core: Any, numbers: range) -> None:
    for number in numbers:
        core.create_node({"metadata": {"name": f"node-{number:03}"}})


def _told(core: Any, *, nodes: int, value: str) -> str | None:
    """Return a sentence once all nodes carry `value`."""
    found = Counter((node.metadata.annotations or {}).get(TTL) for node in core.list_node().items)
    return f"{nodes} nodes with {TTL}={value}" if found == {value: nodes} else None
