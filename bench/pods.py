"""Pods as a kubelet leaves them, about 5 KB each, and fresh ones as a user sends them."""

from collections.abc import Mapping
from typing import Any

from bench.calls import STRATEGIC, Call
from bench.nodes import NOW
from bench.stage import Stage

NAMESPACES = "/api/v1/namespaces"
CONDITIONS = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
)
VARIABLES = 3


def create_namespaces(stage: Stage, names: list[str]) -> None:
    """Create empty namespaces."""
    stage.calls.all([Call("POST", NAMESPACES, {"metadata": {"name": name}}) for name in names])


def creation(namespace: str, pod: Mapping[str, Any]) -> Call:
    """Return the request that creates a pod, as a ReplicaSet would."""
    path = f"{NAMESPACES}/{namespace}/pods?fieldManager=kube-controller-manager"
    return Call("POST", path, pod)


def deletion(namespace: str, name: str) -> Call:
    """Return the request that removes a pod at once, as a kubelet does at the end."""
    return Call("DELETE", f"{NAMESPACES}/{namespace}/pods/{name}", {"gracePeriodSeconds": 0})


def create_running(stage: Stage, namespace: str, pod: Mapping[str, Any]) -> str:
    """Create a pod on a node and report it as running; give its uid."""
    placed = {**pod, "spec": {**pod["spec"], "nodeName": "node-00000"}}
    uid: str = stage.calls.one(creation(namespace, placed))["metadata"]["uid"]
    path = f"{NAMESPACES}/{namespace}/pods/{pod['metadata']['name']}/status?fieldManager=kubelet"
    stage.calls.one(Call("PATCH", path, {"status": _running()}, kind=STRATEGIC))
    return uid


def pod(
    name: str,
    *,
    requests: Mapping[str, str],
    priority_class: str | None = None,
    template: str | None = None,
) -> dict[str, Any]:
    """
    Return the body of a pod with one container.

    `template` is the ResourceClaimTemplate that its one claim is made from.
    """
    container: dict[str, Any] = {
        "name": "main",
        "image": "registry.example/team/application:v1.0.0",
        "args": ["serve", "--port=8080", "--log-level=info"],
        "env": [_variable(number) for number in range(VARIABLES)],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 10},
        "resources": {"requests": dict(requests)},
        "volumeMounts": [{"name": "settings", "mountPath": "/etc/application"}],
    }
    spec: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [{"name": "settings", "configMap": {"name": "application-settings"}}],
    }
    if priority_class is not None:
        spec["priorityClassName"] = priority_class
    if template is not None:
        container["resources"]["claims"] = [{"name": "device"}]
        spec["resourceClaims"] = [{"name": "device", "resourceClaimTemplateName": template}]
    labels = {
        "app.kubernetes.io/name": "application",
        "app.kubernetes.io/instance": "application-main",
        "pod-template-hash": "6d4cf56db6",
    }
    annotations = {"bench.kcm-host.example/checksum": "0123456789abcdef" * 4}
    metadata = {"name": name, "labels": labels, "annotations": annotations}
    return {"metadata": metadata, "spec": spec}


def _variable(number: int) -> dict[str, str]:
    return {"name": f"APPLICATION_SETTING_{number}", "value": f"the value of setting {number}"}


def _running() -> dict[str, Any]:
    return {
        "phase": "Running",
        "startTime": NOW,
        "hostIP": "10.2.3.4",
        "hostIPs": [{"ip": "10.2.3.4"}],
        "podIP": "10.1.2.3",
        "podIPs": [{"ip": "10.1.2.3"}],
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": NOW} for kind in CONDITIONS
        ],
        "containerStatuses": [
            {
                "name": "main",
                "containerID": f"containerd://{'3c' * 32}",
                "image": "registry.example/team/application:v1.0.0",
                "imageID": f"registry.example/team/application@sha256:{'5d' * 32}",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": NOW}},
            }
        ],
    }
