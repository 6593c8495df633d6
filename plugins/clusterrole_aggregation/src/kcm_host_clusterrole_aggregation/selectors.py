"""Label selectors, compiled to functions of labels (CRA-40 to CRA-48)."""

import re
from collections.abc import Callable, Mapping

from kcm_host_clusterrole_aggregation.models import LabelSelector, Requirement

Matcher = Callable[[Mapping[str, str]], bool]

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_LENGTH = 63
_SUBDOMAIN_LENGTH = 253
_NAME_FORM = (
    'at most 63 letters, digits, "-", "_" and ".", beginning and ending with a letter or digit'
)


class InvalidSelector(ValueError):
    """An invalid selector: its role cannot be synced until the selector is corrected."""


def compile_selector(selector: LabelSelector, *, place: str) -> Matcher:
    """
    Return the function that returns whether labels match.

    All requirements must hold; without any, every mapping matches (CRA-40, CRA-42). Raises
    `InvalidSelector`, which begins with `place`, for the first invalid requirement.
    """
    equalities = (
        Requirement(key=key, operator="In", values=(value,))
        for key, value in (selector.match_labels or {}).items()
    )
    try:
        matchers = [_matcher(each) for each in (*equalities, *(selector.match_expressions or ()))]
    except InvalidSelector as error:
        raise InvalidSelector(f"{place}: {error}") from None
    if len(matchers) == 1:
        return matchers[0]
    return lambda labels: all(matches(labels) for matches in matchers)


def _matcher(requirement: Requirement) -> Matcher:
    """Return the matcher of one requirement; a missing label is in no set of values."""
    key, values = requirement.key, frozenset(requirement.values or ())
    _check_key(key)
    match requirement.operator:
        case "In":
            _check_values(requirement)
            return lambda labels: labels.get(key) in values
        case "NotIn":
            _check_values(requirement)
            return lambda labels: labels.get(key) not in values
        case "Exists":
            _check_no_values(requirement)
            return lambda labels: key in labels
        case "DoesNotExist":
            _check_no_values(requirement)
            return lambda labels: key not in labels
    raise InvalidSelector(
        f"operator {requirement.operator!r} for label {key!r} is not supported; "
        "write 'In', 'NotIn', 'Exists' or 'DoesNotExist'"
    )


def _check_key(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    if not _is_name(name) or (slash and not _is_subdomain(prefix)):
        raise InvalidSelector(
            f"{key!r} cannot be the name of a label; write {_NAME_FORM}, "
            "where wanted after a lower-case DNS name and '/'"
        )


def _check_values(requirement: Requirement) -> None:
    if not requirement.values:
        raise InvalidSelector(
            f"{requirement.operator!r} for label {requirement.key!r} has no values; give at "
            "least one, or ask for 'Exists' or 'DoesNotExist'"
        )
    for value in requirement.values:
        if value and not _is_name(value):
            raise InvalidSelector(
                f"{value!r} cannot be the value of label {requirement.key!r}; "
                f"write nothing, or {_NAME_FORM}"
            )


def _check_no_values(requirement: Requirement) -> None:
    if requirement.values:
        raise InvalidSelector(
            f"{requirement.operator!r} for label {requirement.key!r} has values; leave them "
            "out, or ask for 'In' or 'NotIn'"
        )


def _is_name(text: str) -> bool:
    return len(text) <= _NAME_LENGTH and _NAME.fullmatch(text) is not None


def _is_subdomain(text: str) -> bool:
    return len(text) <= _SUBDOMAIN_LENGTH and _SUBDOMAIN.fullmatch(text) is not None
