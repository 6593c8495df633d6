"""The servicecidrs controller: ranges for the addresses of Services, ready or free to go."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from kcm_host.api import (
    EVENT,
    AnyWatch,
    ApiError,
    Change,
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
    grace_left,
    is_settled,
    status_body,
)
from kcm_host_servicecidrs.models import IP_ADDRESS, SERVICE_CIDR, Condition, IPAddress, ServiceCIDR
from kcm_host_servicecidrs.state import Memory

#: Owner of the status, and who Events come from (SC-3).
COMPONENT = "service-cidr-controller"
# Nobody is told when an object goes that never could be read.
LOOK_AGAIN = timedelta(minutes=1)
SHOWN_KEPT = 10


def _utc_now() -> datetime:
    return datetime.now(UTC)


class ServiceCidrs:
    """
    Marks living ServiceCIDRs ready, and lets deleted ones go when no address needs them.

    A key is the name of a ServiceCIDR. What it takes to decide is kept in memory, in step with
    the changes told, so that no sync looks at all objects.
    """

    def __init__(self, now: Callable[[], datetime] = _utc_now) -> None:
        self._now = now
        self._memory = Memory()

    @hookimpl
    def kcm_watches(self) -> Sequence[AnyWatch]:
        """Follow all ServiceCIDRs and all IPAddresses (SC-9)."""
        return [
            Watch(
                kind=SERVICE_CIDR,
                model=ServiceCIDR,
                keys=self._cidr_keys,
                resync=lambda key: key,
            ),
            Watch(kind=IP_ADDRESS, model=IPAddress, keys=self._address_keys),
        ]

    @hookimpl
    def kcm_writes(self) -> Sequence[Permission]:
        """Patch ServiceCIDRs and their status, and tell Events."""
        return [
            Permission(SERVICE_CIDR, "patch"),
            Permission(SERVICE_CIDR, "patch", "status"),
            Permission(EVENT, "create"),
            Permission(EVENT, "patch"),
        ]

    @hookimpl
    async def kcm_sync(self, key: Key, view: View, writer: Writer) -> Outcome:
        """
        Complete a living ServiceCIDR, or see whether a deleted one may go (SC-50, SC-51).

        Raises `Undecodable` while the present version does not fit: an older one is no ground
        for a write.
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
            return await self._complete(key, cidr, writer)
        # One that was let go already is not held back by what nobody is told of.
        hidden = view.of(IP_ADDRESS, IPAddress).undecodable() if cidr.has_finalizer else ()
        unreadable = {one.name for one in hidden}
        keeper = self._memory.keeper(key.name, unreadable=unreadable)
        if keeper is None:
            return await self._let_go(key, cidr, cidr.deleted_at, writer)
        if cidr.ready != TERMINATING:
            await self._report(key, TERMINATING, writer)
        return Later(LOOK_AGAIN) if keeper in unreadable else Done()

    @hookimpl
    def kcm_status(self, view: View) -> Mapping[str, Any]:
        """Say how many there are, and what keeps those that are being deleted."""
        cidrs, addresses = view.of(SERVICE_CIDR, ServiceCIDR), view.of(IP_ADDRESS, IPAddress)
        unreadable = {key.name for key in addresses.undecodable()}
        kept = (
            {"serviceCIDR": name, "keptBy": keeper}
            for name in self._memory.deleting
            if (keeper := self._memory.keeper(name, unreadable=unreadable))
        )
        return {
            "serviceCIDRs": len(cidrs),
            "managedAddresses": len(self._memory.addresses),
            "undecodable": len(cidrs.undecodable()) + len(unreadable),
            "deleting": len(self._memory.deleting),
            "kept": list(islice(kept, SHOWN_KEPT)),
        }

    async def _complete(self, key: Key, cidr: ServiceCIDR, writer: Writer) -> Done:
        """Add the finalizer, then say that it is ready (SC-70 to SC-74)."""
        if not cidr.has_finalizer:
            await _patch(key, ADD_FINALIZER, writer)
        if cidr.ready == READY:
            return Done()
        try:
            await self._report(key, READY, writer)
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

    async def _let_go(
        self, key: Key, cidr: ServiceCIDR, deleted_at: datetime, writer: Writer
    ) -> Outcome:
        """Remove the finalizer, but not before the grace is over (SC-62 to SC-64)."""
        if not cidr.has_finalizer:
            return Done()
        left = grace_left(deleted_at, now=self._now())
        if left > timedelta(0):
            return Later(left)
        await _patch(key, REMOVE_FINALIZER, writer)
        return Done()

    async def _report(self, key: Key, condition: Condition, writer: Writer) -> None:
        """Write the Ready condition (SC-81)."""
        body = status_body(condition, now=self._now())
        await writer.apply(SERVICE_CIDR, key, body, field_manager=COMPONENT, subresource="status")

    def _cidr_keys(self, change: Change[ServiceCIDR], view: View) -> Iterable[Key]:
        """Queue a ServiceCIDR with something to do, and deleted ones that it frees or blocks."""
        name, new = change.key.name, change.new
        touched = self._memory.put_cidr(name, new)
        # Whether one that is being deleted may go is not known before all addresses are.
        due = new is not None and (new.deleted_at is not None or not is_settled(new, kept=False))
        own = [change.key] if due else []
        return own if change.initial else [*own, *map(Key, self._memory.unsettled(touched))]

    def _address_keys(self, change: Change[IPAddress], view: View) -> Iterable[Key]:
        """Queue the deleted ServiceCIDRs to which this address makes a difference (SC-23)."""
        touched = self._memory.put_address(change.key.name, change.new)
        return () if change.initial else [Key(name) for name in self._memory.unsettled(touched)]


async def _patch(key: Key, body: Mapping[str, Any], writer: Writer) -> None:
    """Change the finalizers; an object that is gone needs none (SC-71, SC-72)."""
    try:
        await writer.patch(SERVICE_CIDR, key, body)
    except NotFound:
        return
