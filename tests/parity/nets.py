"""Addresses of a scenario's own: they begin `10.$.` or `fd00:$:`, as its names begin with `$`."""

import re

#: How an address begins, around the number that is each scenario's own.
V4, V6 = ("10.", "."), ("fd00:", ":")


def with_own_nets(text: str, prefix: str) -> str:
    """Return a text with the number that belongs to a prefix in its addresses."""
    for head, tail in (V4, V6):
        text = text.replace(f"{head}${tail}", f"{head}{_number(prefix)}{tail}")
    return text


def without_nets(text: str, prefix: str) -> str:
    """Return a text with `$` again where an address of this prefix has its number."""
    for head, tail in (V4, V6):
        own = rf"(?<![\w.:]){re.escape(head)}{_number(prefix)}{re.escape(tail)}(?=[0-9a-f:])"
        text = re.sub(own, f"{head}${tail}", text)
    return text


def is_in_own_net(name: str, prefix: str) -> bool:
    """Return whether an object with this name is an address of this prefix."""
    return without_nets(name, prefix) != name


def _number(prefix: str) -> int:
    """Return 1 or more: 10.0.0.0 and what follows are the API server's own."""
    digits = "".join(filter(str.isdigit, prefix))
    return 1 + int(digits or 0)
