"""The hooks of the servicecidrs controller."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from kcm_host.api import (
    EVENTS,
    AnyWatch,
    ApiError,
    Change,
    ControllerInfo,
    Done,
    Key,
    Later,
    NotFound,
    Outcome,
    Permission,
    Undecodable,
    Unreachable,
    View,
    Watch,
    Writer,
    hookimpl,
)
from kcm_host_servicecidrs.desired_state import (
    ADD_FINALIZER,
    READY,
    REMOVE_FINALIZER,
    TERMINATING,
    needs_sync,
    remaining_grace,
    status_body,
)
from kcm_host_servicecidrs.models import (
    IP_ADDRESS,
    SERVICE_CIDR,
    Condition,
    IPAddress,
    ServiceCIDR,
)
from kcm_host_servicecidrs.state import State

#: The field manager of the status, and the component of Events (SC-3).
COMPONENT = "service-cidr-controller"
# The deletion of an object of which no version could be decoded is not delivered.
RECHECK_INTERVAL = timedelta(minutes=1)
MAX_SHOWN = 10


def _utc_now() -> datetime:
    return datetime.now(UTC)


class ServiceCidrs:
    """
    The controller that marks ServiceCIDRs ready, and finalizes deleted ones that nothing blocks.

    A key is the name of a ServiceCIDR. The state for all decisions is in memory and follows the
    delivered changes, so that no sync iterates over all objects.
    """

    def __init__(self, now: Callable[[], datetime] = _utc_now) -> None:
        self._now = now
        self._state = State()

    @staticmethod
    @hookimpl
    def kcm_info() -> ControllerInfo:
        """Return the names that kube-controller-manager has for this controller."""
        return ControllerInfo(
            aliases=("service-cidr-controller", "service-cidrs-controller"),
            service_account="service-cidrs-controller",
            queue_name="ipaddresses",
        )

    @hookimpl
    def kcm_watches(self) -> Sequence[AnyWatch]:
        """Watch all ServiceCIDRs and all IPAddresses (SC-9)."""
        return [
            Watch(
                kind=SERVICE_CIDR,
                model=ServiceCIDR,
                keys=self._on_cidr,
                resync=lambda key: key,
            ),
            Watch(kind=IP_ADDRESS, model=IPAddress, keys=self._on_address),
        ]

    @hookimpl
    def kcm_writes(self) -> Sequence[Permission]:
        """Return the permissions to patch ServiceCIDRs and their status, and to write Events."""
        return [
            Permission(kind=SERVICE_CIDR, verb="patch"),
            Permission(kind=SERVICE_CIDR, verb="patch", subresource="status"),
            *EVENTS,
        ]

    @hookimpl
    async def kcm_sync(self, key: Key, view: View, writer: Writer) -> Outcome:
        """
        Mark a ServiceCIDR ready, or finalize a deleted one that nothing blocks (SC-50, SC-51).

        Raises `Undecodable` while the present version is undecodable: an older one must not lead to
        a write.
        """
        cidrs = view.of(SERVICE_CIDR, ServiceCIDR)
        if key in cidrs.undecodable():
            raise Undecodable(
                f"servicecidr '{key}' does not fit the fields that the controller reads; "
                "correct the object, the log names the field"
            )
        cidr = cidrs.get(key.name)
        if cidr is None:
            return Done()
        if cidr.deleted_at is None:
            return await self._set_ready(key, cidr, writer)
        # An undecodable address must not block one whose finalizer is removed already.
        found = view.of(IP_ADDRESS, IPAddress).undecodable() if cidr.has_finalizer else ()
        undecodable = {one.name for one in found}
        blocking = self._state.blocking_address(key.name, undecodable=undecodable)
        if blocking is None:
            return await self._finalize(key, cidr, cidr.deleted_at, writer=writer)
        if cidr.ready != TERMINATING:
            await self._apply_condition(key, TERMINATING, writer)
        return Later(RECHECK_INTERVAL) if blocking in undecodable else Done()

    @hookimpl
    def kcm_status(self, view: View) -> Mapping[str, Any]:
        """Return the number of objects, and the addresses that block deleted ServiceCIDRs."""
        cidrs, addresses = view.of(SERVICE_CIDR, ServiceCIDR), view.of(IP_ADDRESS, IPAddress)
        undecodable = {key.name for key in addresses.undecodable()}
        kept = (
            {"serviceCIDR": name, "keptBy": blocking}
            for name in self._state.deleting
            if (blocking := self._state.blocking_address(name, undecodable=undecodable))
        )
        return {
            "serviceCIDRs": len(cidrs),
            "managedAddresses": len(self._state.addresses),
            "undecodable": len(cidrs.undecodable()) + len(undecodable),
            "deleting": len(self._state.deleting),
            "kept": list(islice(kept, MAX_SHOWN)),
        }

    async def _set_ready(self, key: Key, cidr: ServiceCIDR, writer: Writer) -> Done:
        """Add the finalizer, then apply the condition Ready=True (SC-70 to SC-74)."""
        if not cidr.has_finalizer:
            await _patch(key, ADD_FINALIZER, writer)
        if cidr.ready == READY:
            return Done()
        try:
            await self._apply_condition(key, READY, writer)
        except (ApiError, Unreachable):
            writer.event(
                SERVICE_CIDR,
                key,
                reason="KubernetesServiceCIDRError",
                message="The ServiceCIDR Status can not be set to Ready=True",
                component=COMPONENT,
            )
            raise
        return Done()

    async def _finalize(
        self, key: Key, cidr: ServiceCIDR, deleted_at: datetime, writer: Writer
    ) -> Outcome:
        """Remove the finalizer, but not before the end of the grace period (SC-62 to SC-64)."""
        if not cidr.has_finalizer:
            return Done()
        remaining = remaining_grace(deleted_at, now=self._now())
        if remaining > timedelta(0):
            return Later(remaining)
        await _patch(key, REMOVE_FINALIZER, writer)
        return Done()

    async def _apply_condition(self, key: Key, condition: Condition, writer: Writer) -> None:
        """Apply the Ready condition (SC-81)."""
        body = status_body(condition, now=self._now())
        await writer.apply(SERVICE_CIDR, key, body, field_manager=COMPONENT, subresource="status")

    def _on_cidr(self, change: Change[ServiceCIDR], view: View) -> Iterable[Key]:
        """Queue the ServiceCIDR if it needs a sync, and deleted ones that it frees or blocks."""
        name, new = change.key.name, change.new
        changed = self._state.update_cidr(name, new)
        # Whether a deleted one is blocked is not known before all addresses are delivered.
        own = new is not None and (new.deleted_at is not None or needs_sync(new, blocked=False))
        keys = [change.key] if own else []
        return keys if change.initial else [*keys, *map(Key, self._state.needing_sync(changed))]

    def _on_address(self, change: Change[IPAddress], view: View) -> Iterable[Key]:
        """Queue the deleted ServiceCIDRs whose next write depends on this address (SC-23)."""
        changed = self._state.update_address(change.key.name, change.new)
        return () if change.initial else [Key(name) for name in self._state.needing_sync(changed)]


async def _patch(key: Key, body: Mapping[str, Any], writer: Writer) -> None:
    """Patch the finalizers; an object that is gone needs no patch (SC-71, SC-72)."""
    try:
        await writer.patch(SERVICE_CIDR, key, body, type="strategic")
    except NotFound:
        return
