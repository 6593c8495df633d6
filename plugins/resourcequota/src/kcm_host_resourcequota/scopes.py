"""Which objects a quota is about: its scopes and its scope selector as one conjunction."""

import re
from collections.abc import Iterable

import msgspec

# Only these two scopes carry a name that operators compare; every other scope is looked up by
# itself, whatever its operator says (RQ-84, RQ-87, RQ-88).
_SCOPES_WITH_NAMES = frozenset({"PriorityClass", "VolumeAttributesClass"})
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-._A-Za-z0-9]*[A-Za-z0-9])?)?")
_LABEL_VALUE_LENGTH = 63


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """
    One condition, in the form of an entry of `spec.scopeSelector.matchExpressions`.

    It may be nonsense: the server of today refuses most of that, but not all (RQ-92).
    """

    scope: str = msgspec.field(name="scopeName", default="")
    operator: str = ""
    values: tuple[str, ...] = ()


class Selection(msgspec.Struct, frozen=True, gc=False):
    """
    What a quota asks of the objects it counts: every requirement, or nothing at all (RQ-72).

    `malformed` says for people why the requirements have no meaning; empty means they have one. A
    malformed selection counts nothing, so every name of the quota is 0 (RQ-73, RQ-B29).
    """

    requirements: tuple[Requirement, ...] = ()
    malformed: str = ""


def selection_of(scopes: Iterable[str] = (), expressions: Iterable[Requirement] = ()) -> Selection:
    """
    Give the selection that `spec.scopes` and the expressions of `spec.scopeSelector` ask for.

    A scope of the plain list is one that must exist (RQ-72). Never raises: the first requirement
    without meaning is described in `malformed`.
    """
    plain = (Requirement(scope=scope, operator="Exists") for scope in scopes)
    requirements = (*plain, *expressions)
    reasons = (_why_malformed(each) for each in requirements)
    return Selection(requirements, next(filter(None, reasons), ""))


def label_matches(requirement: Requirement, value: str | None) -> bool:
    """
    Say whether a label with `value`, or an absent one for None, meets a requirement (RQ-90).

    An unknown operator is met by nothing; `selection_of` has called it malformed before.
    """
    match requirement.operator:
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
    return False


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


def _why_malformed(requirement: Requirement) -> str:
    """Say what is wrong with a requirement and what to write instead; empty if nothing is."""
    scope, operator, values = requirement.scope, requirement.operator, requirement.values
    # The reference answers 'Exists' before it reads the values, so nothing in them is wrong.
    if scope not in _SCOPES_WITH_NAMES or operator == "Exists":
        return ""
    place = f"the scope selector's requirement on {scope!r}"
    if operator not in ("In", "NotIn", "DoesNotExist"):
        return (
            f"{place} has the unknown operator {operator!r}; "
            "write 'In', 'NotIn', 'Exists' or 'DoesNotExist'"
        )
    if operator == "DoesNotExist" and values:
        return f"{place} has values beside 'DoesNotExist'; leave them out, or write 'NotIn'"
    if operator != "DoesNotExist" and not values:
        return f"{place} has no values beside {operator!r}; give at least one"
    return next((_why_no_label(place, each) for each in values if not _is_label_value(each)), "")


def _why_no_label(place: str, value: str) -> str:
    return (
        f"{place} asks for {value!r}, which no selector can compare; write a class name of at most "
        f"{_LABEL_VALUE_LENGTH} letters, digits, '-', '_' and '.', beginning and ending with a "
        "letter or digit"
    )


def _is_label_value(text: str) -> bool:
    return len(text) <= _LABEL_VALUE_LENGTH and _LABEL_VALUE.fullmatch(text) is not None
