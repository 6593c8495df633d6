"""The interface of evaluators, and what one object uses."""

import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Protocol

import msgspec

from kcm_host.api import Key, Kind, View
from kcm_host_resourcequota.quantity import NANO, Format, Quantity
from kcm_host_resourcequota.scopes import NO_SCOPES, Requirement, Vector

#: Amounts in nano units with their format, sorted by name, each name once (RQ-283, RQ-B1).
Usage = tuple[tuple[str, int, Format], ...]


class Contribution(msgspec.Struct, frozen=True):
    """What one object adds to the totals of its namespace, and to which group of them (RQ-B1)."""

    usage: Usage = ()
    vector: Vector = NO_SCOPES


def usage_of(amounts: Mapping[str, Quantity]) -> Usage:
    """Give a resource list as a usage; names repeat, so one string serves all."""
    items = amounts.items()
    return tuple(sorted((sys.intern(name), each.nano, each.format) for name, each in items))


def counts(amounts: Mapping[str, int]) -> Usage:
    """Give whole numbers as a usage."""
    return tuple(sorted((name, count * NANO, Format.DECIMAL_SI) for name, count in amounts.items()))


@lru_cache(maxsize=16384)
def contribution_of(usage: Usage, vector: Vector = NO_SCOPES) -> Contribution:
    """
    Give the contribution with these parts: one and the same for equal ones.

    Objects made from one template share it then. Bounded, so that templates long gone are let go.
    """
    return Contribution(usage, vector)


class Evaluator(Protocol):
    """
    Knows which names of a quota one resource serves and what one of its objects uses of them.

    Everything is pure: the same object, view and instant give the same answer. Evaluators hold no
    objects; what `ClaimEvaluator` knows of device classes is given to it.
    """

    @property
    def resource(self) -> str:
        """The resource and its group: `pods`, `widgets.example.com`."""

    @property
    def kind(self) -> Kind:
        """What to follow."""

    @property
    def model(self) -> type[msgspec.Struct]:
        """What is read of each object."""

    def serves(self, name: str) -> bool:
        """Say whether the usage of these objects counts under a name of a quota (RQ-60)."""

    def contribution(self, key: Key, obj: Any, view: View, now: float) -> Contribution:
        """
        Give what an object, an instance of `model`, uses at `now` (Unix seconds).

        It may hold names that no `serves` admits, and never holds one twice. Only resource claims
        look into `view`, at the pod they belong to and at that pod's other claims.
        """

    def matches(self, vector: Vector, requirement: Requirement) -> bool:
        """
        Say whether objects with this vector meet one requirement of a quota (RQ-72, RQ-76).

        A malformed requirement has no meaning here; ask only of a well-formed selection.
        """
        return vector.meets(requirement)

    def deadline(self, obj: Any) -> float | None:
        """
        Give the instant (Unix seconds) after which the contribution changes without an event.

        At the instant itself it has not changed yet (RQ-108). None: it never does.
        """
        return None
