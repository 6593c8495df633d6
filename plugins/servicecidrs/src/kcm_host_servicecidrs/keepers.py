"""May a ServiceCIDR go, or which IPAddress keeps it? Decided from memory alone (SC-98)."""

from collections.abc import Iterable, Iterator

from kcm_host_servicecidrs.addresses import Addresses, Managed
from kcm_host_servicecidrs.prefixes import parse_address
from kcm_host_servicecidrs.ranges import Ranges


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
