"""What can be read of JSON that the decoder refuses: the outer levels, whatever is inside."""

import re

import msgspec

#: What the decoder raises. Users can have the API server send what it accepts and the decoder
#: does not: objects nested by the thousand, halves of surrogate pairs, text that is no UTF-8.
#: That must cost nobody but the one object.
REFUSALS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)

_STRING = rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)'
#: A key, another string or a bracket. A string without its end goes to the end of the text, so
#: that no text is read twice.
_TOKEN = re.compile(rb"(" + _STRING + rb")([ \t\r\n]*+:)?|[\[\]{}]", re.DOTALL)
_OPENING, _CLOSING = frozenset(b"[{"), frozenset(b"]}")

Path = tuple[str, ...]


def strings(text: bytes, wanted: frozenset[Path], enough: frozenset[Path]) -> dict[Path, str]:
    """
    Return the strings at the `wanted` paths of an object, as far as they are there.

    Any depth is read, because nothing recurses. Reading ends when all of `enough` are found:
    what follows may be large. Nothing is checked that is not needed to find the strings.
    """
    deepest = max(map(len, wanted))
    found: dict[Path, str] = {}
    keys: list[str] = []
    level = 0
    for token in _TOKEN.finditer(text):
        string, colon = token.groups()
        if string is None:
            level += 1 if text[token.start()] in _OPENING else -1
        elif not 0 < level <= deepest:
            continue
        elif colon:
            keys[level - 1 :] = [_decoded(string)]
        elif (path := tuple(keys[:level])) in wanted and len(path) == level:
            found[path] = _decoded(string)
            if enough <= found.keys():
                break
    return found


def cut(text: bytes, levels: int) -> tuple[bytes, list[bytes]]:
    """
    Return `text` with each array or object below `levels` replaced by its number, and those.

    Any depth is read, because nothing recurses. Raises `msgspec.DecodeError` when brackets are
    missing; what is cut out is not checked further.
    """
    upper: list[bytes] = []
    lower: list[bytes] = []
    level = begin = end = 0
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first in _OPENING:
            if level == levels:
                begin = token.start()
                upper += (text[end:begin], b"%d" % len(lower))
            level += 1
        elif first in _CLOSING:
            level -= 1
            if level == levels:
                end = token.end()
                lower.append(text[begin:end])
    if level:
        raise msgspec.DecodeError("JSON is malformed: its brackets do not match")
    upper.append(text[end:])
    return b"".join(upper), lower


def _decoded(string: bytes) -> str:
    """Return a string of JSON as text, empty when it is none."""
    try:
        return msgspec.json.decode(string, type=str)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
