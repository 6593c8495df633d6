"""What one object uses of a quota's names, and what scopes can ask of it."""

import sys
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from kcm_host_resourcequota.quantity import NANO, Format, Quantity
from kcm_host_resourcequota.selection import Requirement, label_matches

#: Amounts in nano units with their format, sorted by name, each name once (RQ-283, RQ-B1).
Usage = tuple[tuple[str, int, Format], ...]


class Vector(msgspec.Struct, frozen=True):
    """
    Everything that scopes can ask of one object (RQ-B2).

    `scopes` are those it is in, whatever a requirement's operator says (RQ-87). `named_scope` is
    the one scope whose operators compare names, and `names` are the object's, often one or none.
    """

    scopes: frozenset[str] = frozenset()
    named_scope: str = ""
    names: frozenset[str] = frozenset()

    def meets(self, requirement: Requirement) -> bool:
        """
        Say whether the object meets one requirement of a quota (RQ-80 to RQ-90).

        One name that meets it is enough (RQ-88, RQ-89). A scope that the object knows nothing of
        is never met (RQ-76, RQ-86).
        """
        if requirement.scope in self.scopes:
            return True
        if not self.named_scope or requirement.scope != self.named_scope:
            return False
        if not self.names:
            return label_matches(requirement, None)
        return any(label_matches(requirement, name) for name in self.names)


NO_SCOPES = Vector()


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
