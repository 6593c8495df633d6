"""The same objects, counted by our evaluators and by the reference."""

import json
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from eventually import eventually
from kubernetes import client
from plugins.resourcequota.quota_objects import (
    GPU_DEVICES,
    IMPLICIT_GPU,
    KINDS,
    REQUESTS_GPU,
    Manifest,
    Namespace,
)
from plugins.resourcequota.quota_population import (
    LEAVING_SECONDS,
    deployment,
    random_pod,
    resource_claims,
    services,
    volume_claims,
)

from kcm_host.api import Quantity
from kcm_host_resourcequota.scopes import Requirement, selector_for
from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.reference import Reference

SEEDS = range(30)
PODS_OF_EACH = 3
CLASSES = {"gpu": "example.com/gpu", "net": ""}
COMPUTE = ("cpu", "memory", "ephemeral-storage")
POD_NAMES = [
    *("pods", "count/pods", *COMPUTE),
    *(f"{prefix}.{name}" for prefix in ("requests", "limits") for name in COMPUTE),
    *("hugepages-2Mi", "requests.hugepages-2Mi", REQUESTS_GPU, IMPLICIT_GPU),
]
CLAIM_NAMES = ["persistentvolumeclaims", "count/persistentvolumeclaims", "requests.storage"]
STORAGE = [
    f"{name}.storageclass.storage.k8s.io/{resource}"
    for name in ("gold", "silver", "nosuch")
    for resource in ("persistentvolumeclaims", "requests.storage")
]
OTHERS = [
    *("services", "count/services", "services.nodeports", "services.loadbalancers"),
    *("configmaps", "count/configmaps", "count/secrets", "resourcequotas"),
    *("count/resourceclaims.resource.k8s.io", GPU_DEVICES, "count/deployments.apps"),
    "net.deviceclass.resource.k8s.io/devices",
    "missing.deviceclass.resource.k8s.io/devices",
    "requests.deviceclass.resource.kubernetes.io/net",
    "requests.deviceclass.resource.kubernetes.io/missing",
]
#: The names that a quota with a priority class may have.
CLASSED = [name for name in POD_NAMES if "ephemeral" not in name and "hugepages" not in name]
TERMINATING = [*("pods", "count/pods", "cpu", "memory", "limits.cpu"), "requests.memory"]


def selecting(scope: str, operator: str, *values: str) -> Manifest:
    """Return a scope selector."""
    expression = {"scopeName": scope, "operator": operator, "values": list(values)}
    return {"scopeSelector": {"matchExpressions": [expression]}}


#: Name of a quota -> its names and scopes.
QUOTAS: Mapping[str, tuple[list[str], Manifest]] = {
    "everything": ([*POD_NAMES, *CLAIM_NAMES, *STORAGE, *OTHERS], {}),
    "terminating": (TERMINATING, {"scopes": ["Terminating"]}),
    "running": (TERMINATING, {"scopes": ["NotTerminating"]}),
    "best-effort": (["pods", "count/pods"], {"scopes": ["BestEffort"]}),
    "not-best-effort": (TERMINATING, {"scopes": ["NotBestEffort"]}),
    "both": (TERMINATING, {"scopes": ["NotBestEffort", "NotTerminating"]}),
    "crossing": (["pods"], {"scopes": ["CrossNamespacePodAffinity"]}),
    "some-class": (CLASSED, selecting("PriorityClass", "Exists")),
    "no-class": (CLASSED, selecting("PriorityClass", "DoesNotExist")),
    "high": (CLASSED, selecting("PriorityClass", "In", "high")),
    "not-high": (CLASSED, selecting("PriorityClass", "NotIn", "high")),
    "malformed": (CLASSED, selecting("PriorityClass", "In", "a b")),
    "counts": (["count/configmaps", "count/pods"], {"scopes": ["Terminating"]}),
    "slow": (CLAIM_NAMES, selecting("VolumeAttributesClass", "In", "slow")),
    "fast": (CLAIM_NAMES, selecting("VolumeAttributesClass", "In", "fast")),
    "not-fast": (CLAIM_NAMES, selecting("VolumeAttributesClass", "NotIn", "fast")),
    "any-attributes": (CLAIM_NAMES, selecting("VolumeAttributesClass", "Exists")),
    "no-attributes": (CLAIM_NAMES, selecting("VolumeAttributesClass", "DoesNotExist")),
}


class Populated:
    """A server with objects of every kind that uses quotas."""

    def __init__(self, server: ApiServer) -> None:
        self.core: Any = client.CoreV1Api(server.client())
        self.custom: Any = client.CustomObjectsApi(server.client())

    def fill(self) -> None:
        """Create device classes and, in one namespace for each seed, objects and quotas."""
        for name, explicit in CLASSES.items():
            spec = {"extendedResourceName": explicit} if explicit else {}
            body = {"metadata": {"name": name}, "spec": spec}
            self.custom.create_cluster_custom_object(
                "resource.k8s.io", "v1", "deviceclasses", {**_typed("DeviceClass"), **body}
            )
        for seed in SEEDS:
            self._fill_namespace(f"ns{seed}", random.Random(seed))

    def _fill_namespace(self, name: str, rng: random.Random) -> None:
        self.core.create_namespace({"metadata": {"name": name}})
        pods = [self._add_pod(name, random_pod(f"p{n}", rng), rng) for n in range(PODS_OF_EACH)]
        if name == "ns0":
            self._add_the_rest(name)
        claims = list(resource_claims(rng, pods))
        for each in claims:
            self._add_claim(name, each)
        self._name_extended_claims(name, pods, claims, rng)
        for quota, (names, scopes) in QUOTAS.items():
            spec = {"hard": dict.fromkeys(names, "1k"), **scopes}
            self.core.create_namespaced_resource_quota(
                name, {"metadata": {"name": quota}, "spec": spec}
            )

    def _add_the_rest(self, namespace: str) -> None:
        """Create the objects that are not random."""
        for each in services():
            self.core.create_namespaced_service(namespace, each)
        for each in volume_claims():
            self._add_volume_claim(namespace, each)
        for number in range(3):
            named = {"metadata": {"name": f"m{number}"}}
            self.core.create_namespaced_config_map(namespace, named)
        self.core.create_namespaced_secret(namespace, {"metadata": {"name": "s"}})
        self.custom.create_namespaced_custom_object(
            "apps", "v1", namespace, "deployments", deployment()
        )

    def _add_pod(self, namespace: str, pod: Manifest, rng: random.Random) -> Manifest:
        """Create a pod, write its status, and delete some of them with a grace period."""
        fate = rng.choice(["stay", "stay", "leave", "expire"])
        pod["metadata"]["finalizers"] = ["example.com/held"]
        made = self.core.create_namespaced_pod(namespace, pod)
        name = pod["metadata"]["name"]
        self.core.patch_namespaced_pod_status(name, namespace, {"status": pod["status"]})
        if fate != "stay":
            grace = 1 if fate == "expire" else LEAVING_SECONDS
            self.core.delete_namespaced_pod(name, namespace, grace_period_seconds=grace)
        return {"metadata": {"name": name, "uid": made.metadata.uid}, "spec": pod["spec"]}

    def _add_volume_claim(self, namespace: str, claim: Manifest) -> None:
        self.core.create_namespaced_persistent_volume_claim(namespace, claim)
        self.core.patch_namespaced_persistent_volume_claim_status(
            claim["metadata"]["name"], namespace, {"status": claim["status"]}
        )

    def _add_claim(self, namespace: str, claim: Manifest) -> None:
        self.custom.create_namespaced_custom_object(
            "resource.k8s.io",
            "v1",
            namespace,
            "resourceclaims",
            {**_typed("ResourceClaim"), **claim},
        )

    def _name_extended_claims(
        self, namespace: str, pods: list[Manifest], claims: list[Manifest], rng: random.Random
    ) -> None:
        """Write the claims of some pods into their status, some of them wrong."""
        for pod in pods:
            mapping = extended_request(pod)
            if mapping is None or rng.random() < 0.5:
                continue
            claim = rng.choice(claims)["metadata"]["name"]
            named = {"requestMappings": [mapping], "resourceClaimName": claim}
            self.core.patch_namespaced_pod_status(
                pod["metadata"]["name"],
                namespace,
                {"status": {"extendedResourceClaimStatus": named}},
            )

    def objects(self) -> Iterator[Manifest]:
        """Return every object of the namespaces, as the server has it."""
        for kind in KINDS.values():
            if kind.group == "example.com":
                continue
            answer = (
                self.custom.list_cluster_custom_object(kind.group, kind.version, kind.resource)
                if kind.group
                else self._core_objects(kind.name)
            )
            yield from ({**each, "kind": kind.name} for each in answer["items"])

    def _core_objects(self, kind: str) -> Any:
        words = re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()
        read = getattr(self.core, f"list_{words}_for_all_namespaces")
        return json.loads(read(_preload_content=False).data)


def extended_request(pod: Manifest) -> Manifest | None:
    """Return the first request of a pod for devices; None if it has none."""
    for each in (*pod["spec"]["containers"], *pod["spec"]["initContainers"]):
        for name in each["resources"].get("requests", {}):
            if "/" in name:
                return {"containerName": each["name"], "resourceName": name, "requestName": "r"}
    return None


def _typed(kind: str) -> Manifest:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind}


def calculated(objects: list[Manifest], now: float) -> dict[str, dict[str, int]]:
    """Return the usage of every quota, from our evaluators."""
    used = {}
    for name in {each["metadata"]["namespace"] for each in objects}:
        own = [each for each in objects if each["metadata"]["namespace"] == name]
        space = Namespace(*own, classes=CLASSES, name=name)
        for quota in (each for each in own if each["kind"] == "ResourceQuota"):
            spec = quota["spec"]
            expressions = spec.get("scopeSelector", {}).get("matchExpressions", [])
            requirements = [
                Requirement(each["scopeName"], each["operator"], tuple(each.get("values", ())))
                for each in expressions
            ]
            selector = selector_for(spec.get("scopes", ()), requirements)
            path = f"{name}/{quota['metadata']['name']}"
            used[path] = space.naive(spec["hard"], selector, now=now)
    return used


def written(objects: list[Manifest]) -> dict[str, dict[str, int]]:
    """Return the usage that the reference wrote into every quota."""
    return {
        f"{each['metadata']['namespace']}/{each['metadata']['name']}": {
            name: Quantity.parse(text).nano
            for name, text in each.get("status", {}).get("used", {}).items()
        }
        for each in objects
        if each["kind"] == "ResourceQuota"
    }


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names that differ, with both numbers."""
    return {
        f"{path}: {name}": (ours[path].get(name), theirs[path].get(name))
        for path in ours
        for name in ours[path].keys() | theirs[path].keys()
        if ours[path].get(name) != theirs[path].get(name)
    }


def test_the_reference_computes_the_same_numbers(
    own_api_server: Callable[..., ApiServer], kube_binaries: Any
) -> None:
    """Every name of every quota of thirty random namespaces (sections 7 to 12, RQ-304)."""
    server = own_api_server(
        disable_admission=["ResourceQuota", "Priority", "RuntimeClass"], audit=False
    )
    populated = Populated(server)
    populated.fill()

    def agreed() -> list[Manifest] | None:
        found = list(populated.objects())
        return None if differences(calculated(found, time.time()), written(found)) else found

    with Reference(server, ["resourcequota"], extra_args=["--resource-quota-sync-period=3s"]):
        objects = eventually(agreed, "both come to the same numbers", timeout_seconds=60)
    assert_colourful(objects)


def assert_colourful(objects: list[Manifest]) -> None:
    """Check that the server kept the fields that usage depends on."""
    text = json.dumps(objects)
    for part in (
        *("allocatedResources", "Infeasible", 'restartPolicy": "Always', "overhead"),
        *("deletionGracePeriodSeconds", "extendedResourceClaimStatus", "namespaceSelector"),
        *("firstAvailable", "modifyVolumeStatus", "currentVolumeAttributesClassName"),
    ):
        assert part in text, part
    used = written(objects)
    never = {
        f"{quota}: {name}"
        for quota, (names, _) in QUOTAS.items()
        for name in names
        if not any(used[path].get(name) for path in used if path.endswith(f"/{quota}"))
    }
    assert never == {
        *(f"malformed: {name}" for name in CLASSED),
        *(f"everything: {name}" for name in STORAGE if name.startswith("nosuch")),
        "counts: count/configmaps",
    }
