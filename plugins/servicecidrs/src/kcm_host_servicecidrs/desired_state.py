"""What a ServiceCIDR should look like, and what is sent to make it so."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from kcm_host_servicecidrs.models import FINALIZER, Condition, ServiceCIDR

#: How long a free ServiceCIDR stays, so that every API server stops handing out its addresses.
GRACE = timedelta(seconds=10)

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


def is_settled(cidr: ServiceCIDR, *, kept: bool) -> bool:
    """Whether nothing is left to do; `kept` says that it may not go, if it is being deleted."""
    if cidr.deleted_at is None:
        return cidr.has_finalizer and cidr.ready == READY
    return cidr.ready == TERMINATING if kept else not cidr.has_finalizer


def grace_left(deleted_at: datetime, *, now: datetime) -> timedelta:
    """Give how long a free ServiceCIDR has to stay; zero or less when it is over (SC-62)."""
    return GRACE - (now - deleted_at)


def status_body(condition: Condition, *, now: datetime) -> dict[str, Any]:
    """Give the body of the status apply: this one condition, as of now (SC-82 to SC-85)."""
    entry = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return {"status": {"conditions": [entry]}}
