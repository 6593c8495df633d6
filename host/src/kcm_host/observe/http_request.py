"""The head of one HTTP request, read as far as the pages need it."""

import re

import msgspec

from kcm_host.observe.answers import Answer, text

_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([!-~\x80-\xff]+) HTTP/(\d)\.\d")
_ABSOLUTE = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
#: How the end of a head may look; some people type requests by hand.
_ENDS = (b"\n\r\n", b"\n\n")

METHODS = frozenset({"GET", "HEAD"})
BAD_REQUEST = text(400, "this is no HTTP request\n")
TOO_LARGE = text(431, "the head of the request is too large\n")


class Request(msgspec.Struct, frozen=True):
    """What somebody asks for: a path and a query, neither of them decoded."""

    method: str
    path: str
    query: str


def begins_a_request(head: bytes | bytearray) -> bool:
    """Return whether the first byte can begin a request; a TLS client hello cannot."""
    return not head or 0x21 <= head[0] <= 0x7E


def end_of_head(head: bytes | bytearray, start: int) -> int:
    """Return where the head ends, -1 while it does not; its first `start` bytes were seen."""
    found = [at for end in _ENDS if (at := head.find(end, max(0, start - 2))) >= 0]
    return min(found, default=-1)


def parse(head: bytes) -> Request | Answer:
    """
    Return the request of a whole head, or the answer that refuses it.

    Header fields are not read: none of them changes an answer, and each connection ends with its
    first answer.
    """
    line, _, _ = head.partition(b"\n")
    parts = _LINE.fullmatch(line.removesuffix(b"\r"))
    if parts is None:
        return BAD_REQUEST
    method, target, major = (part.decode("latin-1") for part in parts.groups())
    if major != "1":
        return text(505, "only HTTP/1.0 and HTTP/1.1 are spoken here\n")
    if method not in METHODS:
        return text(405, "only GET and HEAD are answered here\n")
    if not target.startswith("/"):
        absolute = _ABSOLUTE.match(target)
        if absolute is None:
            return BAD_REQUEST
        target = target[absolute.end() :]
    path, _, query = target.partition("#")[0].partition("?")
    return Request(method, path or "/", query)
