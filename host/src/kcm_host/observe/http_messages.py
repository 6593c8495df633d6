"""Requests to the endpoints and their responses, as bytes of HTTP/1.1."""

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from kcm_host.api.states import ControllerState, HostState, StreamState
from kcm_host.observe.escaping import printable

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"

INDEX = """\
kcm-host

/livez            is the event loop alive
/readyz           does every enabled controller run; ?verbose names them all
/status           everything the host knows about itself, as JSON
/metrics          for Prometheus
"""


class Answer(msgspec.Struct, frozen=True):
    """One page: HTTP status, body and its type."""

    status: int
    body: bytes
    content_type: str = TEXT


def text(status: int, body: str) -> Answer:
    """Give a page of plain text; what is foreign in it has gone through `printable`."""
    return Answer(status, body.encode())


def stalled(seconds: float, plugin: str) -> str:
    """Give one sentence about a stall and who causes it."""
    holder = f"controller '{plugin}' blocks it" if plugin else "no plugin's code was seen in it"
    return printable(f"the event loop has not answered for {seconds:.0f} s: {holder}")


def readyz(state: HostState, *, verbose: bool) -> Answer:
    """
    Give 200 when the host is ready, else 503 and a line for each controller that is not.

    `verbose` adds lines for those that are. The form of the lines is that of Kubernetes' own
    health pages, but reasons are not withheld.
    """
    if state.ready and not verbose:
        return text(200, "ok")
    lines = [
        printable(
            f"[+]{one.name} ok{f', idle: {one.idle}' if one.idle else ''}"
            if one.ready
            else f"[-]{one.name} failed: {reason(one, state.streams)}"
        )
        for one in state.controllers
        if verbose or not one.ready
    ]
    lines.append(f"readyz check {'passed' if state.ready else 'failed'}\n")
    return text(200 if state.ready else 503, "\n".join(lines))


def reason(controller: ControllerState, streams: tuple[StreamState, ...]) -> str:
    """Give why a controller is not ready: its own problem, or what it still waits for."""
    if controller.problem:
        return controller.problem
    waits = [
        f"{one.resource}: {one.error}" if one.error else one.resource
        for one in streams
        if controller.name in one.controllers and not one.synced
    ]
    return f"{controller.phase}, waits for {', '.join(waits)}" if waits else controller.phase


def status_text(state: HostState) -> str:
    """Return the whole state as JSON; what a plugin's status holds beyond JSON is shown as text."""
    try:
        return msgspec.json.encode(state, enc_hook=as_json).decode()
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(msgspec.to_builtins(state, enc_hook=as_json, str_keys=True))


def status(shown: str) -> Answer:
    """Return the page of a `status_text`."""
    return Answer(200, printable(shown).encode(), JSON)


def as_json(value: object) -> Any:
    """Give the nearest JSON value for what is none."""
    return dict(value) if isinstance(value, Mapping) else str(value)


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
