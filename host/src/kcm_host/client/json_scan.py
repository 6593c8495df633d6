"""Access to the outer levels of JSON that the decoder refuses."""

import re

import msgspec

#: What the decoder raises. Users can store objects that the API server accepts and the decoder
#: does not: thousands of nested levels, halves of surrogate pairs, text that is not UTF-8. Only
#: that one object may be affected.
DECODE_ERRORS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)

_STRING = rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)'
#: A key, another string or a bracket. A string without an end extends to the end of the text, so
#: that no text is scanned twice.
_TOKEN = re.compile(rb"(" + _STRING + rb")([ \t\r\n]*+:)?|[\[\]{}]", re.DOTALL)
_OPENING, _CLOSING = frozenset(b"[{"), frozenset(b"]}")

Path = tuple[str, ...]


def find_strings(
    text: bytes, wanted: frozenset[Path], sufficient: frozenset[Path]
) -> dict[Path, str]:
    """
    Return the strings at those of the `wanted` paths that the object has.

    The depth is not limited, because nothing recurses. The scan ends when all `sufficient` paths
    are found: the rest may be large. Syntax that does not affect the strings is not checked.
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
            keys[level - 1 :] = [_decode_string(string)]
        elif (path := tuple(keys[:level])) in wanted and len(path) == level:
            found[path] = _decode_string(string)
            if sufficient <= found.keys():
                break
    return found


def cut_below(text: bytes, levels: int) -> tuple[bytes, list[bytes]]:
    """
    Return `text` with each array or object below `levels` replaced by its number, and those.

    The depth is not limited, because nothing recurses. What is cut out is not checked. Raise
    `msgspec.DecodeError` when brackets are missing.
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


def _decode_string(string: bytes) -> str:
    """Return a JSON string as text; empty when it is malformed."""
    try:
        return msgspec.json.decode(string, type=str)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
