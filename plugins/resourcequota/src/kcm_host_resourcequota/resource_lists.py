"""Resource lists: maps from names to quantities, how they are read, added and compared."""

from collections.abc import Iterable, Mapping

import msgspec

from kcm_host_resourcequota.quantity import Quantity, QuantityError, largest, parse, plus

ResourceList = Mapping[str, Quantity]

#: A resource list as JSON has it.
Written = dict[str, str | int | float | None]

NOTHING: ResourceList = {}


class Requirements(msgspec.Struct, frozen=True, gc=False):
    """Requests and limits, as written."""

    requests: Written | None = None
    limits: Written | None = None


def read_list(written: Written | None) -> ResourceList:
    """Give the quantities of a list; ValueError names the resource whose text is none (RQ-75)."""
    try:
        return {name: parse(text) for name, text in written.items()} if written else NOTHING
    except QuantityError as error:
        name = next(name for name, text in (written or {}).items() if not _is_quantity(text))
        raise ValueError(f"resource {name!r}: {error}") from error


def total(lists: Iterable[ResourceList]) -> dict[str, Quantity]:
    """Give the sum name by name, in the order given (RQ-303)."""
    result: dict[str, Quantity] = {}
    for each in lists:
        for name, quantity in each.items():
            result[name] = plus(result[name], quantity) if name in result else quantity
    return result


def highest(lists: Iterable[ResourceList]) -> dict[str, Quantity]:
    """Give the maximum name by name; of equal quantities the earlier one is kept (RQ-305)."""
    result: dict[str, Quantity] = {}
    for each in lists:
        for name, quantity in each.items():
            result[name] = largest(result[name], quantity) if name in result else quantity
    return result


def _is_quantity(text: str | float | None) -> bool:
    try:
        parse(text)
    except QuantityError:
        return False
    return True
