"""May a ServiceCIDR go, or which IPAddress keeps it? Decided from memory alone (SC-98)."""

from collections.abc import Iterable

from kcm_host_servicecidrs.addresses import Addresses
from kcm_host_servicecidrs.prefixes import parse_address
from kcm_host_servicecidrs.ranges import Ranges


def keeper_of(
    name: str, ranges: Ranges, addresses: Addresses, *, unreadable: Iterable[str] = ()
) -> str | None:
    """
    Give the name of one IPAddress that keeps the ServiceCIDR called `name`; None: it may go.

    It may go when each of its ranges lies in another ServiceCIDR's (SC-90 to SC-92), or when no
    managed address can be had from it alone (SC-93 to SC-97). `unreadable` are names of
    IPAddresses whose labels cannot be read: they count as managed.
    """
    if has_parent(name, ranges):
        return None
    prefixes, labels = ranges.of(name)
    for prefix in prefixes:
        for keeper, address in addresses.within(prefix, labels=labels):
            if ranges.serving(address) == [name]:
                return keeper
    for keeper in unreadable:
        hidden = parse_address(keeper)
        if hidden is not None and ranges.serving(hidden) == [name]:
            return keeper
    return None


def has_parent(name: str, ranges: Ranges) -> bool:
    """
    Whether each range of a ServiceCIDR lies in another one's; an equal range counts (SC-90).

    True for one without ranges.
    """
    return all(ranges.holding(prefix) != [name] for prefix in ranges.of(name).prefixes)
