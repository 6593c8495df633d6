"""The desired state of a ServiceCIDR, and the bodies of the writes that lead to it."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from kcm_host_servicecidrs.models import FINALIZER, Condition, ServiceCIDR

#: How long a ServiceCIDR that nothing blocks stays, so that every API server stops to allocate
#: addresses from it.
GRACE_PERIOD = timedelta(seconds=10)

READY = Condition(type="Ready", status="True", message="Kubernetes Service CIDR is ready")
TERMINATING = Condition(
    type="Ready",
    status="False",
    reason="Terminating",
    message="There are still IPAddresses referencing the ServiceCIDR, "
    "please remove them or create a new ServiceCIDR",
)

ADD_FINALIZER: Mapping[str, Any] = {"metadata": {"finalizers": [FINALIZER]}}
REMOVE_FINALIZER: Mapping[str, Any] = {
    "metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}
}


def needs_sync(cidr: ServiceCIDR, *, blocked: bool) -> bool:
    """Return whether a sync would write; `blocked`: addresses block it, if it is being deleted."""
    if cidr.deleted_at is None:
        return not cidr.has_finalizer or cidr.ready != READY
    return cidr.ready != TERMINATING if blocked else cidr.has_finalizer


def remaining_grace(deleted_at: datetime, *, now: datetime) -> timedelta:
    """Return the rest of the grace period; zero or less when it is over (SC-62)."""
    return GRACE_PERIOD - (now - deleted_at)


def status_body(condition: Condition, *, now: datetime) -> dict[str, Any]:
    """Return the body of the status apply: this one condition, with time `now` (SC-82 to SC-85)."""
    entry = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return {"status": {"conditions": [entry]}}
