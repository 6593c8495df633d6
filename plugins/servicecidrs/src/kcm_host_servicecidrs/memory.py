"""What the changes told so far amount to: ranges, addresses, and who is being deleted."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from kcm_host_servicecidrs.addresses import Addresses
from kcm_host_servicecidrs.bodies import is_settled
from kcm_host_servicecidrs.keepers import Keepers
from kcm_host_servicecidrs.model import IPAddress, ServiceCIDR
from kcm_host_servicecidrs.prefixes import Prefix
from kcm_host_servicecidrs.ranges import Ranges


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
