"""The resourcequota controller: random pods and claims, with everything that usage depends on."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from parity.scenario import Cluster
from parity.scenarios.quotas import RESYNCING, scope, story
from parity.steps import Ask, Wait, create, delete, status
from parity.words import uid_of

Body = dict[str, Any]

SEEDS, PODS = range(6), range(8)
CLASSES = {"gpu": "example.com/gpu", "net": ""}
DEVICES = ("example.com/gpu", "deviceclass.resource.kubernetes.io/gpu")
EXTENDED = "resource.kubernetes.io/extended-resource-claim"
SIZES = ("1Mi", "100M", "1Gi", "1048576", "1.5Gi")
#: Of requests, and limits that are not below any of them.
AMOUNTS = {
    "cpu": (("100m", "1", "2500m", "0", "1e-1"), ("3", "4500m")),
    "memory": (SIZES, ("2Gi", "3G")),
    "ephemeral-storage": (SIZES, ("3Gi",)),
}
#: The names that a quota with a priority class may have.
CLASSED = [
    *("pods", "count/pods", "cpu", "memory", "requests.cpu", "requests.memory"),
    *("limits.cpu", "limits.memory", *(f"requests.{name}" for name in DEVICES)),
]
NAMES = [
    *(*CLASSED, "ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage"),
    *("hugepages-2Mi", "requests.hugepages-2Mi", "count/resourceclaims.resource.k8s.io"),
    *(f"{name}.deviceclass.resource.k8s.io/devices" for name in ("gpu", "net", "missing")),
    *(f"requests.deviceclass.resource.kubernetes.io/{name}" for name in ("net", "missing")),
]
TERMINATING = ["pods", "count/pods", "cpu", "memory", "limits.cpu", "requests.memory"]
#: Name of a quota -> its names and scopes.
QUOTAS: dict[str, tuple[list[str], Body]] = {
    "everything": (NAMES, {}),
    "terminating": (TERMINATING, {"scopes": ["Terminating"]}),
    "running": (TERMINATING, {"scopes": ["NotTerminating"]}),
    "best-effort": (["pods", "count/pods"], {"scopes": ["BestEffort"]}),
    "both": (TERMINATING, {"scopes": ["NotBestEffort", "NotTerminating"]}),
    "crossing": (["pods"], {"scopes": ["CrossNamespacePodAffinity"]}),
    "some-class": (CLASSED, {"scopeSelector": scope("PriorityClass", "Exists")}),
    "no-class": (CLASSED, {"scopeSelector": scope("PriorityClass", "DoesNotExist")}),
    "high": (CLASSED, {"scopeSelector": scope("PriorityClass", "In", "high")}),
    "not-high": (CLASSED, {"scopeSelector": scope("PriorityClass", "NotIn", "high")}),
    "malformed": (CLASSED, {"scopeSelector": scope("PriorityClass", "In", "a b")}),
}


class _Population:
    """Draws the objects of one namespace."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._choice = self._random.choice
        self._ns = f"$n{seed}"

    def _is(self, probability: float) -> bool:
        return self._random.random() < probability

    def asks(self) -> Iterator[Ask]:
        """Create pods, claims and quotas; some pods are being deleted, or should be gone."""
        for number in PODS:
            yield from self._pod(f"pods/{self._ns}/p{number}")
        for number in range(8):
            yield create(f"resourceclaims/{self._ns}/k{number}", self._claim())
        for name, (names, scopes) in QUOTAS.items():
            spec = {"hard": dict.fromkeys(names, "1k"), **scopes}
            yield create(f"resourcequotas/{self._ns}/{name}", {"spec": spec})

    def _pod(self, ref: str) -> Iterator[Ask]:
        containers = [self._container(f"a{n}") for n in range(self._random.randint(1, 3))]
        init = [
            {**self._container(f"i{n}"), **self._choice(({}, {"restartPolicy": "Always"}))}
            for n in range(self._random.randint(0, 3))
        ]
        spec = {"containers": containers, "initContainers": init, **self._spec()}
        yield create(ref, {"metadata": {"finalizers": ["example.com/held"]}, "spec": spec})
        yield status(ref, self._status(containers, init))
        if self._is(0.5):
            yield delete(ref, grace_seconds=self._choice((1, 3000)))

    def _container(self, name: str) -> Body:
        """Return a container with limits of at least what it requests, as the server demands."""
        requests: dict[str, str] = {}
        limits: dict[str, str] = {}
        for resource, (asked, most) in AMOUNTS.items():
            if self._is(0.6):
                requests[resource] = self._choice(asked)
                limits |= self._choice(({}, {resource: self._choice(most)}))
        for resource in DEVICES:
            if self._is(0.2):
                requests[resource] = limits[resource] = self._choice("123")
        if "cpu" in requests and self._is(0.2):
            requests["hugepages-2Mi"] = limits["hugepages-2Mi"] = "4Mi"
        resources = {"requests": requests, "limits": limits}
        return {"name": name, "image": "i", "resources": resources}

    def _spec(self) -> Body:
        """Return the fields for scopes and the pod level."""
        made: Body = {"nodeName": "n1", "automountServiceAccountToken": False}
        if self._is(0.3):
            made["activeDeadlineSeconds"] = 3600
        if self._is(0.5):
            made["priorityClassName"] = self._choice(("high", "low"))
        if self._is(0.3):
            made["overhead"] = {"cpu": "250m", "memory": "120Mi"}
        if self._is(0.2):
            limits = self._choice(({}, {"limits": {"cpu": "300", "memory": "300Gi"}}))
            made["resources"] = {"requests": {"cpu": "99", "memory": "99G"}, **limits}
        if self._is(0.3):
            made["affinity"] = self._affinity()
        return made

    def _affinity(self) -> Body:
        to: Body = self._choice(({}, {"namespaces": ["x"]}, {"namespaceSelector": {}}))
        term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}, **to}
        rule = "DuringSchedulingIgnoredDuringExecution"
        weighted = [{"weight": 1, "podAffinityTerm": term}]
        which = self._choice(({f"required{rule}": [term]}, {f"preferred{rule}": weighted}))
        return {self._choice(("podAffinity", "podAntiAffinity")): which}

    def _status(self, containers: Sequence[Body], init: Sequence[Body]) -> Body:
        """Return a phase, and what was allocated and is in effect during resizes."""
        pending = {"type": "PodResizePending", "status": "True"}
        reasons = self._choice(([], [], ["Deferred"], ["Infeasible"]))
        found: Body = {
            "phase": self._choice((*["Running"] * 5, "Pending", "Succeeded", "Failed", "Unknown")),
            "conditions": [{**pending, "reason": reason} for reason in reasons],
            "containerStatuses": self._statuses(containers),
            "initContainerStatuses": self._statuses(init),
        }
        asked = [
            {"containerName": each["name"], "resourceName": name, "requestName": "r"}
            for each in (*containers, *init)
            for name in DEVICES
            if name in each["resources"]["requests"]
        ]
        if asked and self._is(0.6):
            named = {"resourceClaimName": f"k{self._random.randrange(8)}"}
            found["extendedResourceClaimStatus"] = {"requestMappings": asked[:1], **named}
        return found

    def _statuses(self, containers: Sequence[Body]) -> list[Body]:
        allocated = ({"cpu": "1700m"}, {"memory": "1100Mi", "cpu": "3500m"})
        life = {"image": "i", "imageID": "", "ready": True, "restartCount": 0}
        found = []
        for each in containers:
            requests = {"cpu": self._choice(("50m", "3", "1500m")), "memory": self._choice(SIZES)}
            in_effect = {
                **self._choice(({}, {"requests": requests}, {"requests": {"cpu": "2"}})),
                **self._choice(({}, {"limits": {"cpu": "7", "memory": "7Gi"}})),
            }
            told: Body = {"name": each["name"], **life}
            told |= self._choice(({}, {"resources": in_effect}, {"resources": in_effect}))
            told |= self._choice(({}, *({"allocatedResources": each} for each in allocated)))
            found += [told] if self._is(0.6) else []
        return found

    def _claim(self) -> Body:
        """Return a claim of existing classes and of a missing one; some belong to pods."""
        requests = [self._request(f"r{n}") for n in range(self._random.randint(1, 3))]
        metadata: Body = {}
        if self._is(0.7):
            name = f"p{self._random.choice(PODS)}"
            uid = self._choice((*[uid_of("pods", name)] * 5, "another"))
            owner = {"name": name, "uid": uid, "controller": self._is(0.8)}
            metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", **owner}]
            metadata["annotations"] = {EXTENDED: self._choice(("true", "true", "false"))}
        return {"metadata": metadata, "spec": {"devices": {"requests": requests}}}

    def _request(self, name: str) -> Body:
        """Return a request for devices of one class, or for the first of several."""
        if self._is(0.6):
            return {"name": name, "exactly": self._devices()}
        options = range(self._random.randint(1, 3))
        return {
            "name": name,
            "firstAvailable": [{"name": f"o{n}", **self._devices()} for n in options],
        }

    def _devices(self) -> Body:
        """Return devices of one class; the server sets defaults for mode and count."""
        count = {"count": self._random.randint(1, 5)}
        amount = self._choice(({}, {"allocationMode": "All"}, count))
        return {"deviceClassName": self._choice(("gpu", "net", "missing")), **amount}


SCENARIOS = (
    story(
        "random pods and claims",
        "sections 7 to 12, RQ-304",
        # So long that the pods with a grace period of one second have expired.
        Wait(5.0),
        before=(
            *(
                create(
                    f"deviceclasses/{name}", {"spec": {"extendedResourceName": extended or None}}
                )
                for name, extended in CLASSES.items()
            ),
            *(ask for seed in SEEDS for ask in _Population(seed).asks()),
        ),
        cluster=Cluster(
            server={"disable_admission": ["ResourceQuota", "Priority", "RuntimeClass"]},
            reference_args=RESYNCING.reference_args,
            settings=RESYNCING.settings,
        ),
        counted=False,
        differs=("resourcequota c",),
    ),
)
