"""Amounts of resources as numbers: the same one may be written in several ways."""

from collections.abc import Callable, Mapping
from decimal import Decimal

from kubernetes.utils import parse_quantity

_parse: Callable[[str], Decimal] = parse_quantity


def in_numbers(texts: Mapping[str, str]) -> dict[str, str]:
    """Return each amount as a plain number; `1Gi`, `1024Mi` and `1073741824` are the same."""
    return {name: _number(text) for name, text in texts.items()}


def _number(text: str) -> str:
    found = _parse(text).normalize()
    return f"{found:f}"
