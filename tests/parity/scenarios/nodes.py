"""Requests about nodes, for the scenarios that need some."""

from collections.abc import Iterable

from parity.steps import Ask, Together, create, delete, patch, status, together

TTL = "node.alpha.kubernetes.io/ttl"


def node(name: str, ttl: str | None = None, **annotations: str) -> Ask:
    """Create a node, with this value of the annotation; with `other=` for example with more."""
    # The server tracks fields of an object only if it had some of them from the beginning.
    metadata = {
        "labels": {"made-by": "a-scenario"},
        "annotations": {**annotations, **({} if ttl is None else {TTL: ttl})},
    }
    return create(f"nodes/${name}", {"metadata": metadata})


def annotate(name: str, ttl: str | None) -> Ask:
    """Set or remove the annotation by hand."""
    return patch(f"nodes/${name}", {"metadata": {"annotations": {TTL: ttl}}})


def nodes(numbers: Iterable[int], ttl: str | None = None) -> Together:
    """Create numbered nodes."""
    return together(node(f"n{number:04}", ttl) for number in numbers)


def gone(numbers: Iterable[int]) -> Together:
    """Delete numbered nodes."""
    return together(delete(f"nodes/$n{number:04}") for number in numbers)


def heartbeat(name: str, beat: int) -> Ask:
    """Report a node's status as a kubelet does: the reference looks at a node only then."""
    ready = {"type": "Ready", "status": "True", "reason": f"Beat{beat}"}
    return status(f"nodes/${name}", {"conditions": [ready]})


def heartbeats(numbers: Iterable[int], beat: int) -> Together:
    """Report the status of numbered nodes, as kubelets do."""
    return together(heartbeat(f"n{number:04}", beat) for number in numbers)
