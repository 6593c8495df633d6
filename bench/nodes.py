"""Nodes as a kubelet leaves them, about 5 KB each, and what their ttl annotation should be."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from bench.calls import NAMES_ONLY, STRATEGIC, Call
from bench.clones import clone
from bench.outcome import require
from bench.stage import Stage

TTL = "node.alpha.kubernetes.io/ttl"
NODES = "/api/v1/nodes"
NEW_NODE = "node-new"
NOW = "2026-01-01T00:00:00Z"
IMAGES = 10
CONDITIONS = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")


def create_node(stage: Stage, name: str) -> dict[str, Any]:
    """Register a node as its kubelet does, without the annotation."""
    path = f"{NODES}?fieldManager=kubelet"
    answer: dict[str, Any] = stage.calls.one(Call("POST", path, node(name)))
    return answer


def delete_node(stage: Stage, name: str) -> None:
    """Remove a node."""
    stage.calls.one(Call("DELETE", f"{NODES}/{name}"))


def load_nodes(stage: Stage, count: int, *, ttl: str) -> Sequence[str]:
    """Put so many nodes with this annotation on the stage; give their names."""
    names = [f"node-{number:05}" for number in range(count)]
    uid = create_node(stage, names[0])["metadata"]["uid"]
    patch = {"metadata": {"annotations": {TTL: ttl}}}
    path = f"{NODES}/{names[0]}?fieldManager=kube-controller-manager"
    stage.calls.one(Call("PATCH", path, patch, kind=STRATEGIC))
    clone(stage.etcd, path_end=f"/minions/{names[0]}", uid=uid, names=names[1:])
    return names


def send_heartbeats(stage: Stage, names: Sequence[str]) -> None:
    """Report every node's conditions once more, as kubelets do when something changed."""
    stage.calls.all(
        [
            Call("PATCH", f"{NODES}/{name}/status", _heartbeat(position), kind=STRATEGIC)
            for position, name in enumerate(names)
        ]
    )


def require_ttl(stage: Stage, *, ttl: str, count: int, who: str) -> None:
    """Raise `WrongOutcome` unless there are so many nodes and all carry this annotation."""
    listed = stage.calls.one(Call("GET", NODES, accept=NAMES_ONLY))["items"]
    found = Counter(each["metadata"].get("annotations", {}).get(TTL) for each in listed)
    require(
        found == {ttl: count},
        f"{who}: all of {count} nodes should carry {TTL}={ttl}, but there are {dict(found)}",
    )


def _heartbeat(position: int) -> dict[str, Any]:
    hours, seconds = divmod(position, 3600)
    # Another day than `NOW`: a report that changes nothing is an event for nobody.
    time = f"2026-01-02T{hours:02}:{seconds // 60:02}:{seconds % 60:02}Z"
    conditions = [{"type": kind, "lastHeartbeatTime": time} for kind in CONDITIONS]
    return {"status": {"conditions": conditions}}


def node(name: str) -> dict[str, Any]:
    """Return the body of a node."""
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "m5.large",
        "topology.kubernetes.io/region": "eu-central-1",
        "topology.kubernetes.io/zone": "eu-central-1a",
    }
    annotations = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
    return {
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"podCIDR": "10.1.2.0/24", "podCIDRs": ["10.1.2.0/24"]},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": "10.2.3.4"},
                {"type": "Hostname", "address": name},
            ],
            "allocatable": _resources(cpu="1930m", memory="7244720Ki"),
            "capacity": _resources(cpu="2", memory="7910320Ki"),
            "conditions": [_condition(kind) for kind in CONDITIONS],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "images": [_image(number) for number in range(IMAGES)],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "3c8d19a5-7f0a-4b43-9d86-93e9b0b2c1f4",
                "containerRuntimeVersion": "containerd://2.1.0",
                "kernelVersion": "6.12.0-generic",
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.36.0",
                "machineID": "ec2f3ad0a8cc4a2f9ad0b1c0b8a53d11",
                "operatingSystem": "linux",
                "osImage": "Linux",
                "systemUUID": "ec2f3ad0-a8cc-4a2f-9ad0-b1c0b8a53d11",
            },
        },
    }


def _resources(*, cpu: str, memory: str) -> dict[str, str]:
    return {
        "cpu": cpu,
        "memory": memory,
        "pods": "110",
        "ephemeral-storage": "20470Mi",
        "hugepages-2Mi": "0",
    }


def _condition(kind: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": "True" if kind == "Ready" else "False",
        "reason": f"Kubelet{kind}",
        "message": f"kubelet reports {kind} as it should be",
        "lastHeartbeatTime": NOW,
        "lastTransitionTime": NOW,
    }


def _image(number: int) -> dict[str, Any]:
    digest = f"{number:02x}" * 32
    repository = f"registry.example/team/application-{number}"
    return {
        "names": [f"{repository}@sha256:{digest}", f"{repository}:v1.{number}.0"],
        "sizeBytes": 50_000_000 + number,
    }
