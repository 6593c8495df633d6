"""Objects that use quotas, the real stores of the host, and a naive form of section 6."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from view_stores import stores_of

from kcm_host.api import Key, Kind, Quantity
from kcm_host.informer.cache_view import CacheView
from kcm_host.informer.decoder import ModelDecoder
from kcm_host.informer.store import Entry, Store
from kcm_host_resourcequota.evaluators.base import Evaluator
from kcm_host_resourcequota.evaluators.extended_resources import DeviceClass, DeviceClasses
from kcm_host_resourcequota.evaluators.persistentvolumeclaims import (
    PERSISTENT_VOLUME_CLAIM,
    PersistentVolumeClaimEvaluator,
)
from kcm_host_resourcequota.evaluators.pods import POD, PodEvaluator
from kcm_host_resourcequota.evaluators.registry import ObjectCountEvaluator
from kcm_host_resourcequota.evaluators.resourceclaims import (
    INDEXES,
    RESOURCE_CLAIM,
    OldestClaims,
    ResourceClaim,
    ResourceClaimEvaluator,
)
from kcm_host_resourcequota.evaluators.services import SERVICE, ServiceEvaluator
from kcm_host_resourcequota.scopes import Requirement, selector_for

Manifest = dict[str, Any]
Amounts = Mapping[str, str | int]

NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z
CREATED = "2027-01-15T07:00:00Z"

GPU_DEVICES = "gpu.deviceclass.resource.k8s.io/devices"
REQUESTS_GPU = "requests.example.com/gpu"
IMPLICIT_GPU = "requests.deviceclass.resource.kubernetes.io/gpu"

#: Kinds that are only counted.
COUNTED = (
    Kind(group="", version="v1", name="ConfigMap", resource="configmaps"),
    Kind(group="", version="v1", name="Secret", resource="secrets"),
    Kind(group="", version="v1", name="ReplicationController", resource="replicationcontrollers"),
    Kind(group="", version="v1", name="ResourceQuota", resource="resourcequotas"),
    Kind(group="apps", version="v1", name="Deployment", resource="deployments"),
    Kind(group="example.com", version="v1", name="Widget", resource="widgets"),
)
KINDS = {
    kind.name: kind for kind in (POD, SERVICE, PERSISTENT_VOLUME_CLAIM, RESOURCE_CLAIM, *COUNTED)
}


def container(
    requests: Amounts | None = None,
    limits: Amounts | None = None,
    *,
    name: str = "",
    always: bool = False,
) -> Manifest:
    """Return a container; `always` makes an init container a sidecar."""
    resources = {"requests": requests, "limits": limits}
    made: Manifest = {"name": name, "image": "i", "resources": _given(resources)}
    return made | ({"restartPolicy": "Always"} if always else {})


def amounts(text: str) -> dict[str, str]:
    """Return amounts by name."""
    return {name: amount for name, _, amount in (each.partition("=") for each in text.split())}


def both(text: str) -> dict[str, dict[str, str]]:
    """Return requests and limits of `cpu=1 memory=1Gi / cpu=2`, as far as there are any."""
    requests, _, limits = f" {text} ".partition(" / ")
    found = {"requests": amounts(requests), "limits": amounts(limits)}
    return {name: each for name, each in found.items() if each}


def box(text: str, *, name: str = "", **fields: Any) -> Manifest:
    """Return a container."""
    return {"name": name, "image": "i", "resources": both(text), **fields}


def pod(
    *containers: Manifest,
    name: str = "p",
    init: Sequence[Manifest] = (),
    spec: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    phase: str | None = "Running",
    statuses: Sequence[Manifest] = (),
    **status_fields: Any,
) -> Manifest:
    """Return a pod; by default it has one container without resources."""
    names: Iterable[Manifest] = containers or [container()]
    return {
        "kind": "Pod",
        "metadata": {"name": name, "uid": f"uid-{name}", **(metadata or {})},
        "spec": {
            "containers": _numbered("c", names),
            "initContainers": _numbered("i", init),
            **(spec or {}),
        },
        "status": _given({"phase": phase, "containerStatuses": list(statuses), **status_fields}),
    }


def counted(kind: str, name: str, **metadata: Any) -> Manifest:
    """Return an object that is only counted."""
    return {"kind": kind, "metadata": {"name": name, **metadata}}


def nano(amounts: Amounts) -> dict[str, int]:
    """Return amounts as numbers, for comparison (RQ-270)."""
    return {name: Quantity.parse(amount).nano for name, amount in amounts.items()}


def requirement(scope: str, operator: str, *values: str) -> Requirement:
    """Return one expression of a scope selector."""
    return Requirement(scope, operator, values)


class Namespace:
    """The objects of one namespace and the device classes of a cluster, in the host's stores."""

    name = "ns"

    def __init__(self, *objects: Manifest, classes: Mapping[str, str] | None = None) -> None:
        """Store objects; `classes` maps device classes to explicit names."""
        self.device_classes = DeviceClasses()
        self.oldest_claims = OldestClaims()
        self.evaluators: list[Evaluator] = [
            PodEvaluator(),
            ServiceEvaluator(),
            PersistentVolumeClaimEvaluator(),
            ResourceClaimEvaluator(self.device_classes, self.oldest_claims),
            *(ObjectCountEvaluator(kind) for kind in COUNTED),
        ]
        self._stores: dict[str, Store[Any]] = {e.resource: Store(e.kind) for e in self.evaluators}
        for index, function in INDEXES.items():
            self._stores[str(RESOURCE_CLAIM)].add_index("test", index, function, _fail)
        stores = {(e.kind, e.model): self._stores[e.resource] for e in self.evaluators}
        self.view = CacheView("test", stores_of("test", stores))
        for class_name, explicit in (classes or {}).items():
            self.declare(class_name, explicit)
        for each in objects:
            self.put(each)

    def put(self, manifest: Manifest) -> None:
        """Store an object, decoded from JSON."""
        kind = KINDS[manifest["kind"]]
        model = next(e.model for e in self.evaluators if e.kind == kind)
        obj = ModelDecoder(model).decode_object(json.dumps(manifest).encode())
        meta = manifest["metadata"]
        key = Key(meta["name"], meta.get("namespace", self.name))
        self._stores[str(kind)].put(key, Entry(obj, meta.get("uid", ""), ""))
        if isinstance(obj, ResourceClaim):
            self.oldest_claims.put(key, obj)

    def put_undecodable(self, kind: str, name: str) -> None:
        """Store an object of which no version could be decoded."""
        bad: Entry[Any] = Entry(None, f"uid-{name}", "", undecodable=True)
        self._stores[str(KINDS[kind])].put(Key(name, self.name), bad)

    def remove(self, kind: str, name: str) -> None:
        """Remove an object."""
        self._stores[str(KINDS[kind])].delete(Key(name, self.name))
        if kind == RESOURCE_CLAIM.name:
            self.oldest_claims.put(Key(name, self.name), None)

    def declare(self, class_name: str, explicit: str = "") -> frozenset[str]:
        """Declare a device class; return the names that claims now handle or no longer handle."""
        spec = {"extendedResourceName": explicit} if explicit else {}
        return self.device_classes.put(class_name, msgspec.convert({"spec": spec}, DeviceClass))

    def used(
        self,
        *hard: str,
        scopes: Iterable[str] = (),
        selector: Iterable[Requirement] = (),
        now: float = NOW,
    ) -> dict[str, int]:
        """Return usage as the reference computes it, from all objects (RQ-60 to RQ-77)."""
        wanted = selector_for(scopes, selector)
        matched = {name for name in hard if any(e.handles(name) for e in self.evaluators)}
        used = dict.fromkeys(matched, 0)
        for evaluator in self.evaluators:
            if wanted.malformed or not any(map(evaluator.handles, matched)):
                continue
            for key, obj in self.view.of(evaluator.kind, evaluator.model).items():
                one = evaluator.contribution(key, obj, self.view, now)
                if key.namespace != self.name or not all(
                    evaluator.matches(one.attributes, each) for each in wanted.requirements
                ):
                    continue
                for name, amount, _ in one.usage:
                    if name in matched:
                        used[name] += amount
        return used


def _given(fields: Mapping[str, Any]) -> Manifest:
    return {name: value for name, value in fields.items() if value}


def _numbered(letter: str, containers: Iterable[Manifest]) -> list[Manifest]:
    """Return names to the containers that have none."""
    return [
        {**each, "name": each["name"] or f"{letter}{number}"}
        for number, each in enumerate(containers)
    ]


def _fail(_key: Key, error: BaseException) -> None:
    raise error
