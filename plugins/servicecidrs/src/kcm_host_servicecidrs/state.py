"""The state by which a deleted ServiceCIDR may be finalized, or is blocked by IPAddresses."""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from kcm_host_servicecidrs.desired_state import needs_sync
from kcm_host_servicecidrs.indexes import AddressIndex, CidrIndex, ManagedAddress
from kcm_host_servicecidrs.models import IPAddress, ServiceCIDR
from kcm_host_servicecidrs.prefixes import Prefix, parse_address


class BlockingAddresses:
    """
    The addresses that block the deletion of each deleted ServiceCIDR (SC-98).

    They are searched once for each ServiceCIDR; afterwards each address that is created or deleted
    costs one step, however many others there are. Ranges change rarely: a change of a range starts
    all searches again.
    """

    def __init__(self, cidrs: CidrIndex, addresses: AddressIndex) -> None:
        self._cidrs = cidrs
        self._addresses = addresses
        #: ServiceCIDR -> names of its addresses; a dict, because a set has no first item.
        self._blocking: dict[str, dict[str, None]] = {}

    def first(self, name: str, *, undecodable: Iterable[str] = ()) -> str | None:
        """
        Return the name of one IPAddress that blocks the ServiceCIDR `name`, None if there is none.

        It is not blocked when each of its ranges lies in another ServiceCIDR's (SC-90 to SC-92), or
        when no managed address can be had from it alone (SC-93 to SC-97). `undecodable` are names
        of IPAddresses whose labels cannot be decoded: they count as managed.
        """
        if has_parent(name, self._cidrs):
            return None
        if name not in self._blocking:
            self._blocking[name] = dict.fromkeys(self._search(name))
        if found := self._blocking[name]:
            return next(iter(found))
        for candidate in undecodable:
            address = parse_address(candidate)
            if address is not None and self._cidrs.containing_address(address) == [name]:
                return candidate
        return None

    def add(self, address_name: str, managed: ManagedAddress) -> None:
        """Add an address that now exists."""
        if not self._blocking:
            return
        cidrs = self._cidrs.containing_address(managed.address)
        if len(cidrs) != 1 or managed.label not in self._cidrs.get(cidrs[0]).labels:
            return
        found = self._blocking.get(cidrs[0])
        if found is not None:
            found[address_name] = None

    def remove(self, address_name: str, managed: ManagedAddress) -> None:
        """Remove an address that no longer exists."""
        if not self._blocking:
            return
        for name in self._cidrs.containing_address(managed.address):
            self._blocking.get(name, {}).pop(address_name, None)

    def discard_cidr(self, name: str) -> None:
        """Remove a ServiceCIDR that is gone, or is not being deleted."""
        self._blocking.pop(name, None)

    def clear(self) -> None:
        """Discard all results after a change of ranges: any address may block another one."""
        self._blocking.clear()

    def _search(self, name: str) -> Iterator[str]:
        prefixes, labels = self._cidrs.get(name)
        for prefix in prefixes:
            for address_name, address in self._addresses.within(prefix, labels=labels):
                if self._cidrs.containing_address(address) == [name]:
                    yield address_name


def has_parent(name: str, cidrs: CidrIndex) -> bool:
    """
    Return whether each range of a ServiceCIDR lies in another one's; equal ranges count (SC-90).

    True for one without ranges.
    """
    return all(cidrs.containing_prefix(prefix) != [name] for prefix in cidrs.get(name).prefixes)


class State:
    """
    The ranges, the managed addresses, and the ServiceCIDRs that are being deleted.

    Parsed once and updated by each change, so that no sync iterates over all objects. An object
    whose present version is undecodable keeps its last decodable state.
    """

    def __init__(self) -> None:
        self._cidrs = CidrIndex()
        #: Not read from the view: during a list the view is ahead of the delivered changes.
        self._deleting: dict[str, ServiceCIDR] = {}
        self.addresses = AddressIndex()
        self._blocking = BlockingAddresses(self._cidrs, self.addresses)

    @property
    def deleting(self) -> list[str]:
        """The names of the ServiceCIDRs that are being deleted, in order."""
        return sorted(self._deleting)

    def update_cidr(self, name: str, state: ServiceCIDR | None) -> AbstractSet[str]:
        """
        Replace the state of one ServiceCIDR, None: it is gone.

        Returns the deleted ServiceCIDRs that the change may have freed or blocked: if the ranges
        changed, all that share an address with the old or the new ones.
        """
        before = self._cidrs.get(name)
        self._deleting.pop(name, None)
        if state is not None:
            self._cidrs.put(name, state.spec.cidrs or ())
        else:
            self._cidrs.remove(name)
        if state is not None and state.deleted_at is not None:
            self._deleting[name] = state
        else:
            self._blocking.discard_cidr(name)
        after = self._cidrs.get(name)
        if after == before:
            return frozenset()
        self._blocking.clear()
        return self._overlapping(name, {*before.prefixes, *after.prefixes})

    def update_address(self, name: str, state: IPAddress | None) -> AbstractSet[str]:
        """
        Replace the state of one IPAddress, None: it is gone.

        Returns the deleted ServiceCIDRs that a Service could have had it from, or can now (SC-23).
        """
        before = self.addresses.remove(name)
        after = self.addresses.put(name, state) if state is not None else None
        if before is not None:
            self._blocking.remove(name, before)
        if after is not None:
            self._blocking.add(name, after)
        if not self._deleting:
            return frozenset()
        changed = (one.address for one in (before, after) if one is not None)
        containing = map(self._cidrs.containing_address, changed)
        return self._deleting.keys() & frozenset().union(*containing)

    def blocking_address(self, name: str, *, undecodable: Iterable[str] = ()) -> str | None:
        """Return an IPAddress that blocks a ServiceCIDR: see `BlockingAddresses.first`."""
        return self._blocking.first(name, undecodable=undecodable)

    def needing_sync(self, names: Iterable[str]) -> list[str]:
        """Return those of these deleted ServiceCIDRs for which a sync would write."""
        return [
            name
            for name in names
            if needs_sync(self._deleting[name], blocked=self.blocking_address(name) is not None)
        ]

    def _overlapping(self, name: str, changed: AbstractSet[Prefix]) -> frozenset[str]:
        """Return the other deleted ServiceCIDRs with a range that overlaps a changed one."""
        return frozenset(
            other
            for other in self._deleting
            if other != name and self._overlaps(self._cidrs.get(other).prefixes, changed)
        )

    @staticmethod
    def _overlaps(own: Iterable[Prefix], changed: AbstractSet[Prefix]) -> bool:
        return any(prefix.overlaps(one) for prefix in own for one in changed)
