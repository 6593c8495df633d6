"""Scopes: the requirements of a quota, and the attributes of objects that they are applied to."""

import re
from collections.abc import Callable, Iterable

import msgspec

# Only these two scopes have names that operators compare; every other scope either applies to an
# object or not, whatever the operator (RQ-84, RQ-87, RQ-88).
_SCOPES_WITH_NAMES = frozenset({"PriorityClass", "VolumeAttributesClass"})
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-._A-Za-z0-9]*[A-Za-z0-9])?)?")
_LABEL_VALUE_LENGTH = 63


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """
    One entry of `spec.scopeSelector.matchExpressions`.

    It may be malformed: the API server rejects most malformed entries, but not all (RQ-92).
    """

    scope: str = msgspec.field(name="scopeName", default="")
    operator: str = ""
    values: tuple[str, ...] = ()


class Selector(msgspec.Struct, frozen=True, gc=False):
    """
    The requirements of a quota, all of which an object has to meet to be counted (RQ-72).

    `malformed` is the reason, for a reader, why the requirements are malformed; empty if they are
    not. A malformed selector selects nothing, so every name of the quota is 0 (RQ-73, RQ-B29).
    """

    requirements: tuple[Requirement, ...] = ()
    malformed: str = ""


def selector_for(scopes: Iterable[str] = (), expressions: Iterable[Requirement] = ()) -> Selector:
    """
    Return the selector of `spec.scopes` and the expressions of `spec.scopeSelector`.

    A scope of the plain list has the operator `Exists` (RQ-72). Never raises: `malformed`
    describes the first malformed requirement.
    """
    plain = (Requirement(scope=scope, operator="Exists") for scope in scopes)
    requirements = (*plain, *expressions)
    reasons = (_malformed_reason(each) for each in requirements)
    return Selector(requirements, next(filter(None, reasons), ""))


def label_matches(requirement: Requirement, value: str | None) -> bool:
    """
    Return whether a label with `value`, or an absent one for None, meets a requirement (RQ-90).

    Nothing meets an unknown operator; `selector_for` reports it as malformed.
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


class ScopeAttributes(msgspec.Struct, frozen=True):
    """
    The attributes of one object that scopes depend on (RQ-B2).

    `scopes` are those the object is in, whatever the operator of a requirement (RQ-87).
    `named_scope` is the one scope whose operators compare names, and `names` are those of the
    object, mostly one or none.
    """

    scopes: frozenset[str] = frozenset()
    named_scope: str = ""
    names: frozenset[str] = frozenset()

    def matches(self, requirement: Requirement) -> bool:
        """
        Return whether the object meets one requirement of a quota (RQ-80 to RQ-90).

        One name that meets it is enough (RQ-88, RQ-89). An object never meets a scope that its
        kind does not have (RQ-76, RQ-86).
        """
        if requirement.scope in self.scopes:
            return True
        if not self.named_scope or requirement.scope != self.named_scope:
            return False
        if not self.names:
            return label_matches(requirement, None)
        return any(label_matches(requirement, name) for name in self.names)


NO_SCOPES = ScopeAttributes()

#: Tells whether objects with some attributes are selected.
ScopeFilter = Callable[[ScopeAttributes], bool]


def _malformed_reason(requirement: Requirement) -> str:
    """Return why a requirement is malformed and what to write instead; empty if it is not."""
    scope, operator, values = requirement.scope, requirement.operator, requirement.values
    # The reference evaluates 'Exists' without reading the values, so no value is malformed.
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
    return next((_label_error(place, each) for each in values if not _is_label_value(each)), "")


def _label_error(place: str, value: str) -> str:
    return (
        f"{place} asks for {value!r}, which no selector can compare; write a class name of at most "
        f"{_LABEL_VALUE_LENGTH} letters, digits, '-', '_' and '.', beginning and ending with a "
        "letter or digit"
    )


def _is_label_value(text: str) -> bool:
    return len(text) <= _LABEL_VALUE_LENGTH and _LABEL_VALUE.fullmatch(text) is not None
