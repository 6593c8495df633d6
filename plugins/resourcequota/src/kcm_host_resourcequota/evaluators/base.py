"""The interface of evaluators, and the contribution of one object."""

import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Protocol

import msgspec

from kcm_host.api import Key, Kind, Quantity, QuantityFormat, View
from kcm_host_resourcequota.scopes import NO_SCOPES, Requirement, ScopeAttributes

#: Amounts in nano units with their format, sorted by name, each name once (RQ-283, RQ-B1).
Usage = tuple[tuple[str, int, QuantityFormat], ...]


class Contribution(msgspec.Struct, frozen=True):
    """The usage of one object, and the scope attributes by which it is grouped (RQ-B1)."""

    usage: Usage = ()
    attributes: ScopeAttributes = NO_SCOPES


def usage_of(amounts: Mapping[str, Quantity]) -> Usage:
    """Return a resource list as a usage; equal names share one string."""
    items = amounts.items()
    return tuple(sorted((sys.intern(name), each.nano, each.format) for name, each in items))


def count_usage(amounts: Mapping[str, int]) -> Usage:
    """Return counts as a usage."""
    return tuple(
        sorted(
            (name, count * Quantity.NANO, QuantityFormat.DECIMAL_SI)
            for name, count in amounts.items()
        )
    )


@lru_cache(maxsize=16384)
def contribution_of(usage: Usage, attributes: ScopeAttributes = NO_SCOPES) -> Contribution:
    """
    Return the contribution with these fields, the same object for equal fields.

    Objects made from one template share it. The cache is bounded: old templates are evicted.
    """
    return Contribution(usage, attributes)


class Evaluator(Protocol):
    """
    Computes the usage of the objects of one resource.

    All methods are pure: equal object, view and time give an equal result. Evaluators hold no
    objects; `ResourceClaimEvaluator` gets the state of device classes from outside.
    """

    @property
    def resource(self) -> str:
        """The resource with its group: `pods`, `widgets.example.com`."""

    @property
    def kind(self) -> Kind:
        """The kind to watch."""

    @property
    def model(self) -> type[msgspec.Struct]:
        """The model of an object."""

    def handles(self, name: str) -> bool:
        """Return whether these objects are counted under a name of a quota (RQ-60)."""

    def contribution(self, key: Key, obj: Any, view: View, now: float) -> Contribution:
        """
        Return the contribution of `obj`, an instance of `model`, at `now` (Unix seconds).

        It may contain names that `handles` excludes, and contains each name once. Only resource
        claims read `view`: the pod they belong to and the other claims of that pod.
        """

    def matches(self, attributes: ScopeAttributes, requirement: Requirement) -> bool:
        """
        Return whether objects with these attributes meet a requirement of a quota (RQ-72, RQ-76).

        The result for a malformed requirement is undefined.
        """
        return attributes.matches(requirement)

    def expiration(self, obj: Any) -> float | None:
        """
        Return the time (Unix seconds) after which the contribution changes without an event.

        At this time itself it has not changed yet (RQ-108). None: it never changes so.
        """
        return None
