"""Requests to the endpoints and their responses, as bytes of HTTP/1.1."""

import re
from email.utils import formatdate
from http import HTTPStatus

import msgspec

TEXT = "text/plain; charset=utf-8"
METHODS = frozenset({"GET", "HEAD"})


class Request(msgspec.Struct, frozen=True):
    """One request; path and query are not decoded."""

    method: str
    path: str
    query: str


class Response(msgspec.Struct, frozen=True):
    """One response: HTTP status, body and content type."""

    status: int
    body: bytes
    content_type: str = TEXT


def text(status: int, body: str) -> Response:
    """Return a response of plain text; foreign text in it has gone through `printable`."""
    return Response(status, body.encode())


BAD_REQUEST = text(400, "this is no HTTP request\n")
TOO_LARGE = text(431, "the head of the request is too large\n")

_REQUEST_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([!-~\x80-\xff]+) HTTP/(\d)\.\d")
_ABSOLUTE_FORM = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
#: The ends of a head that are accepted; some people type requests by hand.
_HEAD_ENDS = (b"\n\r\n", b"\n\n")


def can_begin_request(head: bytes | bytearray) -> bool:
    """Return whether the first byte can begin a request; that of a TLS client hello cannot."""
    return not head or 0x21 <= head[0] <= 0x7E


def end_of_head(head: bytes | bytearray, start: int) -> int:
    """Return where the head ends, -1 while it does not; its first `start` bytes were searched."""
    found = [at for end in _HEAD_ENDS if (at := head.find(end, max(0, start - 2))) >= 0]
    return min(found, default=-1)


def parse(head: bytes) -> Request | Response:
    """
    Return the request of a complete head, or the response that refuses it.

    Header fields are not read: none of them changes a response, and each connection ends with its
    first response.
    """
    line, _, _ = head.partition(b"\n")
    parts = _REQUEST_LINE.fullmatch(line.removesuffix(b"\r"))
    if parts is None:
        return BAD_REQUEST
    method, target, major = (part.decode("latin-1") for part in parts.groups())
    if major != "1":
        return text(505, "only HTTP/1.0 and HTTP/1.1 are supported\n")
    if method not in METHODS:
        return text(405, "only GET and HEAD are supported\n")
    if not target.startswith("/"):
        absolute = _ABSOLUTE_FORM.match(target)
        if absolute is None:
            return BAD_REQUEST
        target = target[absolute.end() :]
    path, _, query = target.partition("#")[0].partition("?")
    return Request(method, path or "/", query)


def encode(response: Response, *, with_body: bool) -> bytes:
    """Return a response as bytes: status line, header fields and, if wanted, the body."""
    fields = {
        "Server": "kcm-host",
        "Date": formatdate(usegmt=True),
        "Content-Type": response.content_type,
        "Content-Length": str(len(response.body)),
        "Cache-Control": "no-cache, private",
        "X-Content-Type-Options": "nosniff",
        "Connection": "close",
    }
    if response.status == HTTPStatus.METHOD_NOT_ALLOWED:
        fields["Allow"] = ", ".join(sorted(METHODS))
    lines = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return head + response.body if with_body else head
