"""The names of a quota that pods serve, and what a pod's needs come to under them."""

from collections.abc import Mapping

from kcm_host_resourcequota.extended_names import (
    REQUESTS_PREFIX,
    is_extended_request,
    is_extended_resource,
)
from kcm_host_resourcequota.pod_requests import HUGE_PAGES_PREFIX, Needs
from kcm_host_resourcequota.quantity import NANO, Quantity

COUNT = "count/pods"
PODS = "pods"
LIMITS_PREFIX = "limits."

_STANDARD = ("cpu", "memory", "ephemeral-storage")
_NAMES = frozenset(
    {
        COUNT,
        PODS,
        *_STANDARD,
        *(REQUESTS_PREFIX + name for name in _STANDARD),
        *(LIMITS_PREFIX + name for name in _STANDARD),
    }
)
_PREFIXES = (HUGE_PAGES_PREFIX, REQUESTS_PREFIX + HUGE_PAGES_PREFIX)
_ONE = Quantity(NANO)


def is_pod_name(name: str) -> bool:
    """Say whether pods serve a name of a quota (RQ-100 to RQ-104)."""
    return name in _NAMES or name.startswith(_PREFIXES) or is_extended_request(name)


def charged_amounts(needs: Needs) -> Mapping[str, Quantity]:
    """Give what a pod that is charged uses, by name (RQ-130 to RQ-136)."""
    amounts = {COUNT: _ONE, PODS: _ONE}
    for name, quantity in needs.requests.items():
        if name in _STANDARD or name.startswith(HUGE_PAGES_PREFIX):
            amounts[name] = amounts[REQUESTS_PREFIX + name] = quantity
        elif is_extended_resource(name):
            amounts[REQUESTS_PREFIX + name] = quantity
    for name, quantity in needs.limits.items():
        if name in _STANDARD:
            amounts[LIMITS_PREFIX + name] = quantity
    return amounts


def uncharged_amounts() -> Mapping[str, Quantity]:
    """Give what a pod uses that has ended, or whose time to go is over (RQ-106, RQ-107)."""
    return {COUNT: _ONE}
