"""The state that decides whether a deleted ServiceCIDR may go."""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from kcm_host_servicecidrs.desired_state import is_settled
from kcm_host_servicecidrs.indexes import Addresses, Managed, Ranges
from kcm_host_servicecidrs.models import IPAddress, ServiceCIDR
from kcm_host_servicecidrs.prefixes import Prefix, parse_address


class Keepers:
    """
    The addresses that keep each ServiceCIDR that is being deleted.

    All are looked for once a ServiceCIDR; afterwards each address that comes or goes is one step,
    however many others there are. Ranges change rarely: then everything is looked for again.
    """

    def __init__(self, ranges: Ranges, addresses: Addresses) -> None:
        self._ranges = ranges
        self._addresses = addresses
        #: By ServiceCIDR, in no order that matters; a dict for its first entry.
        self._known: dict[str, dict[str, None]] = {}

    def first(self, name: str, *, unreadable: Iterable[str] = ()) -> str | None:
        """
        Return the name of one IPAddress that keeps the ServiceCIDR `name`, None if it may go.

        It may go when each of its ranges lies in another ServiceCIDR's (SC-90 to SC-92), or when no
        managed address can be had from it alone (SC-93 to SC-97). `unreadable` are names of
        IPAddresses whose labels cannot be read: they count as managed.
        """
        if has_parent(name, self._ranges):
            return None
        if name not in self._known:
            self._known[name] = dict.fromkeys(self._all(name))
        if known := self._known[name]:
            return next(iter(known))
        for keeper in unreadable:
            hidden = parse_address(keeper)
            if hidden is not None and self._ranges.serving(hidden) == [name]:
                return keeper
        return None

    def came(self, keeper: str, managed: Managed) -> None:
        """Take note of an address that is there now."""
        if not self._known:
            return
        serving = self._ranges.serving(managed.address)
        if len(serving) != 1 or managed.label not in self._ranges.of(serving[0]).labels:
            return
        known = self._known.get(serving[0])
        if known is not None:
            known[keeper] = None

    def went(self, keeper: str, managed: Managed) -> None:
        """Take note of an address that is there no longer."""
        if not self._known:
            return
        for name in self._ranges.serving(managed.address):
            self._known.get(name, {}).pop(keeper, None)

    def forget(self, name: str) -> None:
        """Take note that a ServiceCIDR is gone, or is not being deleted."""
        self._known.pop(name, None)

    def ranges_changed(self) -> None:
        """Take note that ranges are others now: any address may keep others."""
        self._known.clear()

    def _all(self, name: str) -> Iterator[str]:
        prefixes, labels = self._ranges.of(name)
        for prefix in prefixes:
            for keeper, address in self._addresses.within(prefix, labels=labels):
                if self._ranges.serving(address) == [name]:
                    yield keeper


def has_parent(name: str, ranges: Ranges) -> bool:
    """
    Whether each range of a ServiceCIDR lies in another one's; an equal range counts (SC-90).

    True for one without ranges.
    """
    return all(ranges.holding(prefix) != [name] for prefix in ranges.of(name).prefixes)


class Memory:
    """
    All that is needed to say whether a ServiceCIDR may go, parsed once and in order.

    An object whose present version cannot be read stays as it was.
    """

    def __init__(self) -> None:
        self._ranges = Ranges()
        #: Not read from the view, which is ahead of the changes told while a list comes in.
        self._deleting: dict[str, ServiceCIDR] = {}
        self.addresses = Addresses()
        self._keepers = Keepers(self._ranges, self.addresses)

    @property
    def deleting(self) -> list[str]:
        """The names of the ServiceCIDRs that are being deleted, in order."""
        return sorted(self._deleting)

    def put_cidr(self, name: str, state: ServiceCIDR | None) -> AbstractSet[str]:
        """
        Take one ServiceCIDR's present state, None: it is gone.

        Gives those being deleted that it may have freed or blocked: if its ranges are others now,
        all that share an address with those it had or has.
        """
        before = self._ranges.of(name)
        self._deleting.pop(name, None)
        if state is not None:
            self._ranges.put(name, state.spec.cidrs or ())
        else:
            self._ranges.remove(name)
        if state is not None and state.deleted_at is not None:
            self._deleting[name] = state
        else:
            self._keepers.forget(name)
        after = self._ranges.of(name)
        if after == before:
            return frozenset()
        self._keepers.ranges_changed()
        return self._overlapping(name, {*before.prefixes, *after.prefixes})

    def put_address(self, name: str, state: IPAddress | None) -> AbstractSet[str]:
        """
        Take one IPAddress's present state, None: it is gone.

        Gives those being deleted that a Service could have had it from, or can now (SC-23).
        """
        before = self.addresses.remove(name)
        after = self.addresses.put(name, state) if state is not None else None
        if before is not None:
            self._keepers.went(name, before)
        if after is not None:
            self._keepers.came(name, after)
        if not self._deleting:
            return frozenset()
        touched = (one.address for one in (before, after) if one is not None)
        serving = map(self._ranges.serving, touched)
        return self._deleting.keys() & frozenset().union(*serving)

    def keeper(self, name: str, *, unreadable: Iterable[str] = ()) -> str | None:
        """Return an IPAddress that keeps a ServiceCIDR from going: see `Keepers.first`."""
        return self._keepers.first(name, unreadable=unreadable)

    def unsettled(self, names: Iterable[str]) -> list[str]:
        """Give those of these, which are being deleted, that have something left to do."""
        return [
            name
            for name in names
            if not is_settled(self._deleting[name], kept=self.keeper(name) is not None)
        ]

    def _overlapping(self, name: str, own: AbstractSet[Prefix]) -> frozenset[str]:
        return frozenset(
            other
            for other in self._deleting
            if other != name
            and any(
                theirs.overlaps(one) for theirs in self._ranges.of(other).prefixes for one in own
            )
        )
