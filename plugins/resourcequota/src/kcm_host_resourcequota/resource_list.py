"""Resource lists: quantities by resource name."""

from collections.abc import Iterable, Mapping

import msgspec

from kcm_host.api import Quantity, QuantityError

parse = Quantity.parse
NANO = Quantity.NANO

ResourceList = Mapping[str, Quantity]

#: A resource list as it is in JSON.
RawResourceList = dict[str, str | int | float | None]

NO_RESOURCES: ResourceList = {}


class RawRequirements(msgspec.Struct, frozen=True, gc=False):
    """Requests and limits as they are in JSON."""

    requests: RawResourceList | None = None
    limits: RawResourceList | None = None


def parse_list(raw: RawResourceList | None) -> ResourceList:
    """Return the quantities of a list; raise ValueError with the invalid resource (RQ-75)."""
    try:
        return {name: parse(text) for name, text in raw.items()} if raw else NO_RESOURCES
    except QuantityError as error:
        name = next(name for name, text in (raw or {}).items() if not _is_quantity(text))
        raise ValueError(f"resource {name!r}: {error}") from error


def sum_lists(lists: Iterable[ResourceList]) -> dict[str, Quantity]:
    """Return the sum name by name, in the order given (RQ-303)."""
    result: dict[str, Quantity] = {}
    for each in lists:
        for name, quantity in each.items():
            result[name] = result[name] + quantity if name in result else quantity
    return result


def max_lists(lists: Iterable[ResourceList]) -> dict[str, Quantity]:
    """Return the maximum name by name; of equal quantities the earlier one is kept (RQ-305)."""
    result: dict[str, Quantity] = {}
    for each in lists:
        for name, quantity in each.items():
            result[name] = max(result[name], quantity) if name in result else quantity
    return result


def _is_quantity(text: str | float | None) -> bool:
    try:
        parse(text)
    except QuantityError:
        return False
    return True
