"""Requests about ServiceCIDRs and addresses, for the scenarios that need some."""

from typing import Any

from parity.steps import Ask, Wait, create, delete, patch, status

FINALIZER = "networking.k8s.io/service-cidr-finalizer"
OTHER = "example.com/wait"
V4, LOWER, UPPER = "10.$.0.0/24", "10.$.0.0/25", "10.$.0.128/25"
LARGE, SMALL = "10.$.0.0/16", "10.$.0.0/26"
V6, LARGE_V6 = "fd00:$::/112", "fd00:$::/64"
#: With this and the wait for quiet after it, whatever is free has gone. The grace is 10 s after a
#: time that the server cuts to whole seconds, so 9 s after a deletion it is not yet over.
GRACE = Wait(10.5, assumes=9.0, since="servicecidrs")

READY = ("True", "", "Kubernetes Service CIDR is ready")
TERMINATING = (
    "False",
    "Terminating",
    (
        "There are still IPAddresses referencing the ServiceCIDR, "
        "please remove them or create a new ServiceCIDR"
    ),
)


def cidr(name: str, *cidrs: str, finalizers: tuple[str, ...] = ()) -> Ask:
    """Create a ServiceCIDR."""
    # The server tracks fields of an object only if it had some of them from the beginning.
    metadata = {"labels": {"made-by": "a-scenario"}, "finalizers": list(finalizers)}
    return create(f"servicecidrs/${name}", {"metadata": metadata, "spec": {"cidrs": list(cidrs)}})


def gone(name: str) -> Ask:
    """Delete a ServiceCIDR."""
    return delete(f"servicecidrs/${name}")


def edit(name: str, **fields: Any) -> Ask:
    """Merge fields into a ServiceCIDR."""
    return patch(f"servicecidrs/${name}", fields)


def finalize(name: str, *finalizers: str) -> Ask:
    """Put these finalizers in place of those it has."""
    return edit(name, metadata={"finalizers": list(finalizers) or None})


def touch(name: str) -> Ask:
    """Change what no controller reads."""
    return edit(name, metadata={"annotations": {"touched": "by a scenario"}})


def say(name: str, state: str, reason: str, message: str) -> Ask:
    """Overwrite the Ready condition by hand, with a time long ago."""
    return status(f"servicecidrs/{name}", {"conditions": [condition(state, reason, message)]})


def condition(state: str, reason: str, message: str, kind: str = "Ready") -> dict[str, str]:
    """Return a condition with a time long ago."""
    time = "2020-01-01T00:00:00Z"
    return {
        "type": kind,
        "status": state,
        "reason": reason,
        "message": message,
        "lastTransitionTime": time,
    }


def service(name: str, last: int) -> Ask:
    """Create a Service with the address `10.$.0.LAST`: its range has to be known by then."""
    spec = {"clusterIP": f"10.$.0.{last}", "ports": [{"port": 80}]}
    return create(f"services/$ns/${name}", {"spec": spec})


def no_service(name: str) -> Ask:
    """Delete a Service, and its address with it."""
    return delete(f"services/$ns/${name}")


def address(name: str, *, manager: str = "ipallocator.k8s.io", family: str | None = None) -> Ask:
    """
    Create an IPAddress of no Service; `family` is its label if it is to be another than is true.

    The server removes a managed one after a minute. `name` must have its shortest form.
    """
    label = ("IPv6" if ":" in name else "IPv4") if family is None else family
    labels = {
        "ipaddress.kubernetes.io/managed-by": manager,
        "ipaddress.kubernetes.io/ip-family": label,
    }
    parent = {"resource": "services", "namespace": "default", "name": "nobody"}
    kept = {key: value for key, value in labels.items() if value}
    return create(
        f"ipaddresses/{name}", {"metadata": {"labels": kept}, "spec": {"parentRef": parent}}
    )


def no_address(name: str) -> Ask:
    """Delete an IPAddress."""
    return delete(f"ipaddresses/{name}")


def relabel(name: str, manager: str) -> Ask:
    """Change the manager of an IPAddress to somebody else."""
    labels = {"ipaddress.kubernetes.io/managed-by": manager}
    return patch(f"ipaddresses/{name}", {"metadata": {"labels": labels}})
