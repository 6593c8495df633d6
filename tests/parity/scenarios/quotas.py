"""Requests about quotas and what they count, and the clusters these are counted on."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from parity.scenario import Cluster, Scenario
from parity.steps import Ask, Together, create, delete, patch, status, together

Spec = dict[str, Any]

#: Nothing but events brings the controllers to count.
EVENTS = Cluster(
    reference_args=("--resource-quota-sync-period=5m",),
    settings={"resourcequota": {"settleTime": "1h"}},
)
_OFTEN = {
    "reference_args": ("--resource-quota-sync-period=500ms",),
    "settings": {"resourcequota": {"settleTime": "0s", "resyncPeriod": "500ms"}},
}
#: Twice a second all is counted again: whatever the reference is not told of, it soon finds.
RESYNCING = Cluster(**_OFTEN)  # type: ignore[arg-type] # given by name
#: For who plays there.
BY_CHANCE = ("counted by another",)
#: The same on a server that counts nothing itself and refuses nothing.
UNCOUNTED = Cluster(server={"disable_admission": ["ResourceQuota"]}, **_OFTEN)  # type: ignore[arg-type] # given by name
PROXIED = Cluster(proxied=True, reference_args=EVENTS.reference_args, settings=RESYNCING.settings)

CPU = {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "200m", "memory": "2Gi"}}


def story(name: str, rules: str, *steps: Any, before: Iterable[Any] = (), **more: Any) -> Scenario:
    """Return a scenario of the resourcequota controller; where nothing is said, events decide."""
    more.setdefault("cluster", EVENTS)
    more.setdefault("by_chance", BY_CHANCE if more["cluster"] is RESYNCING else ())
    return Scenario(name, "resourcequota", rules, steps, tuple(before), **more)


#: Scenarios with a resync: how often the controllers write there is chance.
resynced = partial(story, cluster=RESYNCING, counted=False)


def quota(*names: str, name: str = "q", limit: str = "1T", ns: str = "ns", **spec: Any) -> Ask:
    """Create a quota for these names, all with the same limit."""
    body = {"spec": {"hard": dict.fromkeys(names, limit), **spec}}
    return create(f"resourcequotas/${ns}/${name}", body)


def limits(name: str = "q", /, **hard: str | None) -> Ask:
    """Change limits of a quota; None takes one away."""
    return patch(f"resourcequotas/$ns/${name}", {"spec": {"hard": hard}})


def pod(name: str, resources: Spec | None = None, *, ns: str = "ns", **spec: Any) -> Ask:
    """Create a pod with one container that asks for this."""
    return pod_of(name, [container("c", resources or {})], ns=ns, **spec)


def pod_of(name: str, containers: list[Spec], *, ns: str = "ns", **spec: Any) -> Ask:
    """Create a pod of these containers."""
    # The server tracks fields of an object only if it had some of them from the beginning.
    metadata = {"labels": {"made-by": "a-scenario"}}
    fields = {"containers": containers, "automountServiceAccountToken": False, **spec}
    return create(f"pods/${ns}/${name}", {"metadata": metadata, "spec": fields})


def container(name: str, resources: Spec, **more: Any) -> Spec:
    """Return a container."""
    return {"name": name, "image": "example.com/image", "resources": resources, **more}


def asking(**requests: str) -> Spec:
    """Return resources that are asked for, without limits."""
    return {"requests": requests}


def pods(count: int, first: int = 0) -> Together:
    """Create some equal pods at a time."""
    return together(pod(f"p{number}", CPU) for number in range(first, first + count))


def phase(name: str, to: str, **more: Any) -> Ask:
    """Report the phase of a pod, as a kubelet does."""
    return status(f"pods/$ns/${name}", {"phase": to, **more})


def gone(name: str, *, resource: str = "pods") -> Ask:
    """Delete an object without grace."""
    return delete(f"{resource}/$ns/${name}", grace_seconds=0)


def some(resource: str, *names: str, ns: str = "ns") -> Together:
    """Create objects that nothing is known of but that they are there."""
    return together(create(f"{resource}/${ns}/${name}") for name in names)


def service(name: str, kind: str, *ports: Spec, **spec: Any) -> Ask:
    """Create a service of this type."""
    fields = {"type": kind, "ports": list(ports), "selector": {"a": "b"}, **spec}
    return create(f"services/$ns/${name}", {"spec": fields})


def port(number: int, **more: Any) -> Spec:
    """Return a port of a service."""
    return {"name": f"p{number}", "port": number, **more}


def volume(name: str, size: str, **spec: Any) -> Ask:
    """Create a volume claim of this size."""
    return create(f"persistentvolumeclaims/$ns/${name}", {"spec": volume_spec(size, **spec)})


def volume_spec(size: str, **spec: Any) -> Spec:
    """Return the spec of a volume claim."""
    resources = {"requests": {"storage": size}}
    return {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec}


def claim(name: str, *requests: Spec, **metadata: Any) -> Ask:
    """Create a resource claim with these requests."""
    named = [{"name": f"r{number}", **each} for number, each in enumerate(requests)]
    body = {"metadata": metadata, "spec": {"devices": {"requests": named}}}
    return create(f"resourceclaims/$ns/${name}", body)


def exactly(device_class: str, count: int | None) -> Spec:
    """Ask for so many devices of a class; None: for all."""
    mode = {"allocationMode": "All"} if count is None else {"count": count}
    return {"exactly": {"deviceClassName": f"${device_class}", **mode}}


def first_of(*wanted: tuple[str, int]) -> Spec:
    """Ask for the first of these that is to be had: (class, count)."""
    each = [
        {"name": f"s{number}", "deviceClassName": f"${name}", "count": count}
        for number, (name, count) in enumerate(wanted)
    ]
    return {"firstAvailable": each}


def device_class(name: str, **spec: Any) -> Ask:
    """Create a device class."""
    return create(f"deviceclasses/${name}", {"spec": spec})


def scope(name: str, operator: str, *values: str) -> Spec:
    """Return a scope selector with one expression."""
    expression: Spec = {"scopeName": name, "operator": operator}
    return {"matchExpressions": [{**expression, **({"values": list(values)} if values else {})}]}
