"""What a single YAML value means."""

import re
from typing import Protocol

import yaml

from kcm_host.config.tree import Scalar

_DECIMAL = re.compile(r"[-+]?[0-9]{1,4000}", re.ASCII)
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]{1,3000}", re.ASCII)
_TEXT_TAGS = ("str", "timestamp", "value", "merge")


class Mark(Protocol):
    """A place in a text, counted from 0; PyYAML and libyaml each have a class of their own."""

    @property
    def line(self) -> int:
        """Lines before it."""
        ...

    @property
    def column(self) -> int:
        """Characters before it in its line."""
        ...


class Unreadable(Exception):
    """The document uses YAML in a way that settings have no place for; `mark` says where."""

    def __init__(self, fact: str, mark: Mark | None) -> None:
        super().__init__(fact)
        self.fact = fact
        self.mark = mark


def scalar_value(node: yaml.ScalarNode) -> Scalar:
    """
    The value of a scalar, by the rules of YAML 1.2 where PyYAML still follows 1.1.

    So `yes`, `off`, `1:30` and dates are texts and `010` is ten. Raises Unreadable for tags that
    are none of the plain types.
    """
    text: str = node.value
    kind = node.tag.removeprefix("tag:yaml.org,2002:")
    if kind in _TEXT_TAGS:
        return text
    match kind:
        case "null":
            return None
        case "bool":
            return {"true": True, "false": False}.get(text.lower(), text)
        case "int":
            return _whole(text)
        case "float":
            return _fraction(text)
    raise Unreadable(f"tag '{node.tag}' is not supported; leave it out", node.start_mark)


def _whole(text: str) -> int | str:
    if _DECIMAL.fullmatch(text):
        return int(text)
    return int(text, 16) if _HEXADECIMAL.fullmatch(text) else text


def _fraction(text: str) -> float | str:
    try:
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError:
        return text
