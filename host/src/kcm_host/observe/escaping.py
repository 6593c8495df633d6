"""The escape of unprintable characters in all foreign text that the host writes."""

import json
import re

#: Everything but printable ASCII; most texts have no such character.
_NOT_ASCII = re.compile(r"[^ -~]+")


def printable(text: str) -> str:
    r"""
    Return `text` with each unprintable character as an escape of JSON, such as `\n`.

    Names and messages come from users of the cluster and from plugins. A line end in one could fake
    a line of a log or a response, control characters could rewrite a terminal, and bidirectional
    marks could show a line in another order than it has. Separators other than the blank,
    unassigned characters and lone surrogates are escaped too. A backslash is not escaped: inside
    the strings of a JSON text, which escapes it, the result has the same meaning.
    """
    return _NOT_ASCII.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    text = found[0]
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)
