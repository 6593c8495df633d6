"""What is not printable, made visible: the one way in which foreign text leaves the host."""

import json
import re

#: Everything but printable ASCII; most texts have none of it.
_OTHERS = re.compile(r"[^ -~]+")


def printable(text: str) -> str:
    r"""
    Return `text` with each character that is not printable as an escape of JSON, such as `\n`.

    Names and messages come from users of the cluster and from plugins. A line end in one could fake
    a line of a log or a page, control characters could rewrite a terminal, and marks for the
    direction of writing could show a line in another order than it has. Separators other than the
    blank, unassigned characters and lone surrogates are escaped too. A backslash stays as it is;
    inside the strings of a JSON text, which escapes it, the outcome means the same as before.
    """
    return _OTHERS.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    text = found[0]
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)
