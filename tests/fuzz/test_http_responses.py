"""Responses of any bytes are read as h11 and aiohttp read them, in whatever pieces they arrive."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import h11
import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_exceptions import BadHttpMessage, PayloadEncodingError
from aiohttp.http_parser import HttpResponseParserPy
from fuzz_input import one_input
from host.client.http.conftest import cut, read
from hypothesis import given
from hypothesis import strategies as st

from kcm_host.client.http.messages import BadResponse

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Reading:
    """A complete response, as one of the implementations reads it."""

    status: int
    headers: Headers
    body: bytes


# What is sent.

names = st.sampled_from(
    [b"Date", b"X-Kubernetes-Pf-Flowschema-Uid", b"etag", b"A", b"!#$%&'*+.^_`|~"]
)
values = st.sampled_from(
    [b"", b"x", b'"a, b"', b"Sun, 22 Nov 2026 14:51:53 GMT", b"\xe4\xff", b"a\tb"]
)
spaces = st.sampled_from([b"", b" ", b"\t", b"  "])
connections = st.sampled_from([b"close", b"keep-alive", b"Upgrade", b"x, close", b"Close"])
lines = st.one_of(
    st.tuples(names, spaces, values, spaces).map(lambda of: b"%b:%b%b%b\r\n" % of),
    connections.map(lambda value: b"Connection: %b\r\n" % value),
)
heads = st.lists(lines, max_size=4).map(b"".join)
statuses = st.one_of(
    st.sampled_from([b"200 OK", b"201 Created", b"204 No Content", b"304 Not Modified", b"429 "]),
    st.sampled_from([b"409 Conflict", b"500 \xe4", b"200", b"205 Reset", b"599 x y"]),
)
versions = st.sampled_from([b"HTTP/1.1"] * 5 + [b"HTTP/1.0"])
announced = st.tuples(st.sampled_from([b"100 Continue", b"103 Early Hints", b"102 x"]), heads).map(
    lambda of: b"HTTP/1.1 %b\r\n%b\r\n" % of
)
extensions = st.sampled_from([b"", b"", b";a", b";a=b", b';a="b"'])
chunks = st.tuples(st.binary(min_size=1, max_size=20), extensions).map(
    lambda of: b"%x%b\r\n%b\r\n" % (len(of[0]), of[1], of[0])
)


@st.composite
def responses(draw: st.DrawFn) -> bytes:
    """Draw a valid response, also with what may stand before it."""
    start = b"%b %b\r\n%b" % (draw(versions), draw(statuses), draw(heads))
    match draw(st.integers(0, 3)):
        case 0:
            body = draw(st.binary(max_size=40))
            framed = b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        case 1:
            body = b"".join(draw(st.lists(chunks, max_size=4)))
            end = b"0%b\r\n%b\r\n" % (draw(extensions), draw(heads))
            framed = b"Transfer-Encoding: chunked\r\n\r\n" + body + end
        case 2:
            framed = b"\r\n" + draw(st.binary(max_size=40))
        case _:
            framed = b"Content-Length: 0\r\n\r\n"
    return b"".join(draw(st.lists(announced, max_size=2))) + start + framed


TOKENS = [
    *(b"\r\n", b"\n", b"\r", b"\x00", b" ", b"\t", b":", b",", b";", b"0", b"1", b"-", b"\xff"),
    *(b"Content-Length: 3\r\n", b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n"),
    *(b"Transfer-Encoding: gzip, chunked\r\n", b"Transfer-Encoding: identity\r\n", b"\r\n\r\n"),
    *(b"Connection: close\r\n", b"Upgrade: h2c\r\n", b"HTTP/1.1 200 OK\r\n", b" folded\r\n"),
    *(b"HTTP/1.1 101 Switching Protocols\r\n", b"ffffffffffffffffff", b"0\r\n\r\n", b"chunked"),
]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Draw a response with a few parts replaced, inserted, repeated or left out."""
    data = draw(responses())
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        until = at + draw(st.sampled_from([0, 0, 1, 2, 10]))
        new = draw(
            st.one_of(st.sampled_from(TOKENS), st.binary(max_size=3), st.just(data[at : at + 20]))
        )
        data = data[:at] + new + data[until:]
    return data


inputs = st.one_of(
    responses(), mutated(), mutated(), st.tuples(responses(), mutated()).map(b"".join)
)


# How it is read.


def read_by_us(pieces: list[bytes], *, ends: bool) -> tuple[Reading | None, bool]:
    """Return the response, if it is complete, and whether another one can follow."""
    try:
        got = read(*pieces, ends=ends)
    except BadResponse:
        return None, False
    headers = [(name.lower(), value.strip(b" \t")) for name, value in got.raw_headers]
    return (Reading(got.status, headers, got.body) if got.is_complete else None), got.is_reusable


def read_by_h11(data: bytes, *, ends: bool) -> Reading | None:
    """Return the response, if it is complete."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    connection.send(h11.Request(method="GET", target="/", headers=[("Host", "kube")]))
    connection.send(h11.EndOfMessage())
    try:
        return _of_events(_events(connection, data, ends=ends))
    except h11.RemoteProtocolError:
        return None


def _events(connection: h11.Connection, data: bytes, *, ends: bool) -> Iterator[Any]:
    for piece in (data, b"") if ends else (data,):
        connection.receive_data(piece)
        yield from iter(connection.next_event, h11.NEED_DATA)


def _of_events(events: Iterator[Any]) -> Reading | None:
    status, headers, body = 0, Headers(), b""
    for event in events:
        match event:
            case h11.Response():
                status, headers = event.status_code, list(event.headers)
            case h11.Data():
                body += bytes(event.data)
            case h11.EndOfMessage():
                return Reading(status, headers + list(event.headers), body)
            case h11.ConnectionClosed() | h11.PAUSED:
                return None
    return None


@pytest.fixture(scope="module")
def aiohttp_protocol() -> Iterator[BaseProtocol]:
    """Return what aiohttp's parser needs beside the bytes."""
    loop = asyncio.new_event_loop()
    yield BaseProtocol(loop)
    loop.close()


def read_by_aiohttp(protocol: BaseProtocol, data: bytes, *, ends: bool) -> Reading | None:
    """Return the response without its trailers, if it is complete."""
    try:
        return _read_by_aiohttp(protocol, [data], ends=ends)
    except (BadHttpMessage, PayloadEncodingError, ValueError):
        # Byte by byte: where something bad follows, what was read before it would be lost.
        pieces = [data[place : place + 1] for place in range(len(data))]
    try:
        return _read_by_aiohttp(protocol, pieces, ends=ends)
    except (BadHttpMessage, PayloadEncodingError, ValueError):
        return None


def _read_by_aiohttp(protocol: BaseProtocol, pieces: list[bytes], *, ends: bool) -> Reading | None:
    parser = HttpResponseParserPy(
        protocol, protocol._loop, 2**16, read_until_eof=True, auto_decompress=False
    )
    found: list[tuple[Any, Any]] = []
    for piece in pieces:
        messages, upgraded, _ = parser.feed_data(piece)
        found += [each for each in messages if each[0].code >= 200]
        if upgraded or (found and found[0][1].is_eof()):
            break
    else:
        if ends:
            parser.feed_eof()
    if not found or not found[0][1].is_eof() or found[0][1].exception():
        return None
    message, payload = found[0]
    headers = [(name.lower(), value) for name, value in message.raw_headers]
    return Reading(message.code, headers, payload.read_nowait())


def is_same(ours: Reading, theirs: Reading) -> bool:
    """Compare; some of ours are trailers, which aiohttp does not show."""
    return (ours.status, ours.body) == (theirs.status, theirs.body) and (
        ours.headers[: len(theirs.headers)] == theirs.headers
    )


#: What we refuse although both others read it, and why that is right or does not matter.
REFUSED = {
    "an announcement that ends the connection": rb"HTTP/1.\d 1\d\d.*\n(?:.+\n)*?connection:.*close",
    "line ends without CR": rb"[^\r]\n",
    "a header in several lines": rb"\n[ \t]",
    "an announcement in HTTP/1.0": rb"HTTP/1\.0 1\d\d",
    "a length among the trailers": rb"\n0\r\n(?s:.*)content-length:",
    "another version": rb"HTTP/(?!1\.[01])",
    "CR without LF": rb"\r[^\n]",
    "control characters": rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]",
    "spaces in or an empty chunk extension": rb"\n[0-9a-f]+[ \t]*;(?!\w+(=\w+|=\"\w*\")?\r)",
}
#: What we accept although both others refuse it.
ACCEPTED = {
    "line ends before a response": rb"(\A|\n\r\n)[\r\n]",
    "another coding before that in chunks": rb"transfer-encoding:(?s:.*)transfer-encoding:",
}


def is_listed(data: bytes, exceptions: dict[str, bytes]) -> bool:
    """Return whether one of these patterns is in the data."""
    return any(re.search(each, data, re.IGNORECASE) for each in exceptions.values())


@given(data=inputs, places=st.lists(st.integers(0, 300), max_size=8), ends=st.booleans())
def test_responses_are_read_alike(
    aiohttp_protocol: BaseProtocol, data: bytes, places: list[int], *, ends: bool
) -> None:
    """What both accept, we accept; what we accept, one of them does; pieces do not matter."""
    with one_input("HTTP response"):
        ours, is_reusable = read_by_us(cut(data, places), ends=ends)
    assert read_by_us([data], ends=ends) == (ours, is_reusable)
    first = read_by_h11(data, ends=ends)
    second = read_by_aiohttp(aiohttp_protocol, data, ends=ends)
    if ours is None:
        both = first is not None and second is not None and is_same(first, second)
        assert not both or is_listed(data, REFUSED), (first, second)
    elif not is_listed(data, ACCEPTED):
        assert any(is_same(ours, each) for each in (first, second) if each), (ours, first, second)
