"""A random set of objects that use quotas, as a real server accepts them."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

from plugins.resourcequota.quota_objects import Manifest, container, pod

LEAVING_SECONDS = 3000
EXTENDED = "resource.kubernetes.io/extended-resource-claim"
LIFE: Manifest = {"image": "i", "imageID": "", "ready": True, "restartCount": 0}
SIZES = ("1Mi", "100M", "1Gi", "1048576", "1.5Gi")
OTHER = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}


def status(
    name: str,
    *,
    requests: Manifest | None,
    limits: Manifest | None,
    allocated: Manifest | None,
    resources: bool,
) -> Manifest:
    """Return the status of a container, with or without `resources`."""
    in_effect = {"requests": requests, "limits": limits}
    found = {
        "resources": {each: amounts for each, amounts in in_effect.items() if amounts},
        "allocatedResources": allocated,
    }
    if not resources:
        del found["resources"]
    return {"name": name} | {each: value for each, value in found.items() if value is not None}


def resize(reason: str) -> Manifest:
    """Return the condition of a resize that is pending."""
    return {"type": "PodResizePending", "status": "True", "reason": reason}


def random_pod(name: str, rng: random.Random) -> Manifest:
    """Return a pod with a random mixture of everything that usage depends on."""
    containers = [resources(rng, f"a{n}") for n in range(rng.randint(1, 3))]
    init = [resources(rng, f"i{n}", init=True) for n in range(rng.randint(0, 3))]
    made = pod(
        *containers,
        name=name,
        init=init,
        phase=rng.choice([*["Running"] * 5, "Pending", "Succeeded", "Failed", "Unknown"]),
        statuses=list(statuses(rng, containers)),
        initContainerStatuses=list(statuses(rng, init)),
        conditions=rng.choice([[], [], [resize("Deferred")], [resize("Infeasible")]]),
        spec=spec(rng),
    )
    made["metadata"].pop("uid")
    return made


def spec(rng: random.Random) -> Manifest:
    """Return the fields for scopes and the pod level."""
    made: Manifest = {"nodeName": "n1"}
    if rng.random() < 0.3:
        made["activeDeadlineSeconds"] = 3600
    if rng.random() < 0.5:
        made["priorityClassName"] = rng.choice(["high", "low"])
    if rng.random() < 0.3:
        made["overhead"] = {"cpu": "250m", "memory": "120Mi"}
    if rng.random() < 0.2:
        limits = rng.choice([{}, {"limits": {"cpu": "300", "memory": "300Gi"}}])
        made["resources"] = {"requests": {"cpu": "99", "memory": "99G"}, **limits}
    if rng.random() < 0.3:
        made["affinity"] = affinity(rng)
    return made


def affinity(rng: random.Random) -> Manifest:
    """Return an affinity or anti-affinity, required or preferred, to some namespaces or none."""
    term = {**OTHER, **rng.choice([{}, {"namespaces": ["x"]}, {"namespaceSelector": {}}])}
    rule = "DuringSchedulingIgnoredDuringExecution"
    which: Manifest = rng.choice(
        [
            {f"required{rule}": [term]},
            {f"preferred{rule}": [{"weight": 1, "podAffinityTerm": term}]},
        ]
    )
    return {rng.choice(["podAffinity", "podAntiAffinity"]): which}


def resources(rng: random.Random, name: str, *, init: bool = False) -> Manifest:
    """Return a container with limits of at least what it requests, as the server demands."""
    requests: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    if rng.random() < 0.7:
        requests["cpu"] = rng.choice(["100m", "1", "2500m", "0", "1e-1"])
        limits |= rng.choice([{}, {"cpu": "3"}, {"cpu": "4500m"}])
    if rng.random() < 0.6:
        requests["memory"] = rng.choice(SIZES)
        limits |= rng.choice([{}, {"memory": "2Gi"}, {"memory": "3G"}])
    if rng.random() < 0.3:
        requests["ephemeral-storage"] = rng.choice(SIZES)
        limits |= rng.choice([{}, {"ephemeral-storage": "3Gi"}])
    for name_of_device in ("example.com/gpu", "deviceclass.resource.kubernetes.io/gpu"):
        if rng.random() < 0.2:
            requests[name_of_device] = limits[name_of_device] = str(rng.randint(1, 3))
    if "cpu" in requests and rng.random() < 0.2:
        requests["hugepages-2Mi"] = limits["hugepages-2Mi"] = "4Mi"
    return container(requests, limits, name=name, always=init and rng.random() < 0.5)


def statuses(rng: random.Random, containers: Sequence[Manifest]) -> Iterator[Manifest]:
    """Yield possible statuses of the containers during resizes."""
    for each in containers:
        if rng.random() < 0.4:
            continue
        amounts = {"cpu": rng.choice(["50m", "3", "1500m"]), "memory": rng.choice(SIZES)}
        yield LIFE | status(
            each["name"],
            requests=rng.choice([None, amounts, {"cpu": "2"}]),
            limits=rng.choice([None, {"cpu": "7", "memory": "7Gi"}]),
            allocated=rng.choice([None, {"cpu": "1700m"}, {"memory": "1100Mi", "cpu": "3500m"}]),
            resources=rng.random() < 0.8,
        )


def services() -> Iterator[Manifest]:
    """Yield services of all types; the server assigns missing node ports."""
    ports = [{"name": f"p{n}", "port": 80 + n} for n in range(3)]
    closed = {"allocateLoadBalancerNodePorts": False}
    rows: list[Manifest] = [
        {"type": "ClusterIP", "ports": ports[:2]},
        {"type": "NodePort", "ports": ports},
        {"type": "LoadBalancer", "ports": ports[:2]},
        {"type": "LoadBalancer", "ports": ports[:2], **closed},
        {"type": "LoadBalancer", "ports": [{**ports[0], "nodePort": 31234}, ports[1]], **closed},
        {"type": "ExternalName", "externalName": "example.com"},
    ]
    for number, row in enumerate(rows):
        yield {"kind": "Service", "metadata": {"name": f"s{number}"}, "spec": row}


def deployment() -> Manifest:
    """Return a deployment, which is only counted."""
    labels = {"app": "a"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def volume_claims() -> Iterator[Manifest]:
    """Yield volume claims of several classes, during expansions and changes of class."""
    old = {"volume.beta.kubernetes.io/storage-class": "silver"}
    named = {"volumeAttributesClassName": "fast"}
    allocated = {"allocatedResources": {"storage": "100Gi"}}
    target = {"targetVolumeAttributesClassName": "slow", "status": "Pending"}
    rows: list[tuple[str, Manifest, Manifest, Manifest]] = [
        ("10Gi", {"storageClassName": "gold"}, {}, {}),
        ("5G", {}, {}, {"phase": "Lost"}),
        ("1Gi", {"storageClassName": "gold"}, old, {}),
        ("1181116006400m", {"storageClassName": ""}, {}, {}),
        ("3Gi", {"storageClassName": "gold"}, {next(iter(old)): ""}, {}),
        ("1Gi", {}, {}, {"allocatedResources": {"storage": "1181116006400m"}}),
        ("20Gi", {"storageClassName": "gold"}, {}, {"phase": "Bound", **allocated}),
        ("1Gi", named, {}, {"phase": "Bound", "currentVolumeAttributesClassName": "slow"}),
        ("1Gi", named, {}, {"phase": "Bound"}),
        ("1Gi", {}, {}, {"phase": "Bound", "modifyVolumeStatus": target}),
    ]
    for number, (size, fields, annotations, state) in enumerate(rows):
        yield {
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": f"v{number}", "annotations": annotations},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": size}},
                **fields,
            },
            "status": state,
        }


def resource_claims(rng: random.Random, pods: Sequence[Manifest]) -> Iterator[Manifest]:
    """Yield claims of existing classes and of a missing one; some belong to pods."""
    for number in range(8):
        requests = [device_request(rng, f"r{n}") for n in range(rng.randint(1, 3))]
        metadata: Manifest = {"name": f"k{number}"}
        if rng.random() < 0.7:
            owner = rng.choice(pods)["metadata"]
            uid = rng.choice([*[owner["uid"]] * 5, "another"])
            reference = {"name": owner["name"], "uid": uid, "controller": rng.random() < 0.8}
            metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", **reference}]
            metadata["annotations"] = {EXTENDED: rng.choice(["true", "true", "false"])}
        yield {
            "kind": "ResourceClaim",
            "metadata": metadata,
            "spec": {"devices": {"requests": requests}},
        }


def device_request(rng: random.Random, name: str) -> Manifest:
    """Return a request for devices of one class, or for the first of several."""
    if rng.random() < 0.6:
        return {"name": name, "exactly": devices(rng)}
    options = [{"name": f"o{n}", **devices(rng)} for n in range(rng.randint(1, 3))]
    return {"name": name, "firstAvailable": options}


def devices(rng: random.Random) -> Manifest:
    """Return devices of one class; the server sets defaults for mode and count."""
    amount: Manifest = rng.choice([{}, {"allocationMode": "All"}, {"count": rng.randint(1, 5)}])
    return {"deviceClassName": rng.choice(["gpu", "net", "missing"]), **amount}
