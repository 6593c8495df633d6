"""Manifests for the quota cluster: minimal ones, and random ones with few different names."""

import datetime as dt
import random
from collections.abc import Mapping
from typing import Any

from plugins.resourcequota.quota_objects import Manifest

NAMESPACES = ("a", "b")
NAMES = (
    "pods",
    "count/pods",
    "cpu",
    "requests.cpu",
    "limits.memory",
    "requests.example.com/gpu",
    "requests.deviceclass.resource.kubernetes.io/gpu",
    "gpu.deviceclass.resource.k8s.io/devices",
    "count/resourceclaims.resource.k8s.io",
    "services",
    "services.nodeports",
    "persistentvolumeclaims",
    "requests.storage",
    "gold.storageclass.storage.k8s.io/requests.storage",
    "configmaps",
    "count/widgets.example.com",
    "limits.example.com/nobody",
)
SCOPES: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"scopes": ["Terminating"]},
    {"scopes": ["NotTerminating", "NotBestEffort"]},
    {"scopes": ["BestEffort"]},
    {"scopes": ["PriorityClass"]},
    {"scopes": ["VolumeAttributesClass"]},
    *(
        {"scopeSelector": {"matchExpressions": [{"scopeName": scope, "operator": how, **values}]}}
        for scope, how, values in (
            ("PriorityClass", "In", {"values": ["high", "low"]}),
            ("PriorityClass", "NotIn", {"values": ["high"]}),
            ("PriorityClass", "In", {"values": ["x" * 64]}),
            ("VolumeAttributesClass", "In", {"values": ["gold"]}),
            ("VolumeAttributesClass", "DoesNotExist", {}),
        )
    ),
)


def pod(
    name: str,
    *,
    namespace: str = "a",
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    phase: str = "Running",
    uid: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Manifest:
    """Return a pod with one container."""
    resources = {"requests": dict(requests or {}), "limits": dict(limits or {})}
    made = {"name": name, "namespace": namespace, **(metadata or {})}
    if uid:
        made["uid"] = uid
    containers = [{"name": "c", "resources": resources}]
    return {
        "metadata": made,
        "spec": {"containers": containers, **spec},
        "status": {"phase": phase, **(status or {})},
    }


def named(name: str, namespace: str = "a", **fields: Any) -> Manifest:
    """Return an object with a name and nothing else."""
    return {"metadata": {"name": name, "namespace": namespace}, **fields}


def device_claim(
    name: str = "c",
    namespace: str = "a",
    *,
    count: int = 2,
    pod_uid: str = "",
    created: float = 1767225600,
) -> Manifest:
    """Return a claim for GPUs; with `pod_uid`, one made for the extended resources of pod `p`."""
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    made = named(name, namespace, spec={"devices": {"requests": [{"exactly": exactly}]}})
    made["metadata"]["creationTimestamp"] = timestamp(created)
    if pod_uid:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "controller": True}
        made["metadata"] |= {
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [{**owner, "uid": pod_uid}],
        }
    return made


def random_pod(draw: random.Random) -> Manifest:
    """Return a pod with random requests, scopes and phase."""
    requests = {
        name: draw.choice(values)
        for name, values in (
            ("cpu", ("100m", "1", "250m")),
            ("memory", ("64Mi", "100M")),
            ("example.com/gpu", ("1", "2")),
            ("deviceclass.resource.kubernetes.io/gpu", ("1",)),
        )
        if draw.random() < 0.4
    }
    spec: dict[str, Any] = {}
    if draw.random() < 0.3:
        spec["activeDeadlineSeconds"] = 60
    if draw.random() < 0.5:
        spec["priorityClassName"] = draw.choice(("high", "low"))
    status: dict[str, Any] = {}
    if draw.random() < 0.2:
        status["extendedResourceClaimStatus"] = {"resourceClaimName": draw.choice("cde")}
    return pod(
        draw.choice(("p", "q", "r", "s", "t")),
        namespace=draw.choice(NAMESPACES),
        requests=requests,
        limits={"memory": "128Mi"} if draw.random() < 0.3 else {},
        phase=draw.choice(("Running", "Running", "Failed")),
        status=status,
        **spec,
    )


def random_service(draw: random.Random) -> Manifest:
    """Return a service of any type with one or two ports."""
    sort = draw.choice(("ClusterIP", "NodePort", "LoadBalancer"))
    ports = [{"port": port, "nodePort": draw.choice((0, 30000))} for port in range(2)]
    spec = {"type": sort, "ports": ports[: draw.randint(1, 2)]}
    return named(draw.choice("xy"), draw.choice(NAMESPACES), spec=spec)


def random_volume_claim(draw: random.Random) -> Manifest:
    """Return a volume claim with random size and classes."""
    spec = {
        "storageClassName": draw.choice(("gold", "silver")),
        "resources": {"requests": {"storage": draw.choice(("1Gi", "5G", "0.1Gi"))}},
        "volumeAttributesClassName": draw.choice(("", "gold", "silver")),
    }
    return named(draw.choice("vw"), draw.choice(NAMESPACES), spec=spec)


def timestamp(seconds: float) -> str:
    """Return an instant as the server writes it."""
    when = dt.datetime.fromtimestamp(int(seconds), tz=dt.UTC)
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")
