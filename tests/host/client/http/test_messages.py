"""HTTP/1.1 messages: what a request says, where a response ends, and what is refused."""

from collections.abc import Iterator

import h11
import pytest
from host.client.http.conftest import Outcome, cut, read
from hypothesis import given
from hypothesis import strategies as st

from kcm_host.client.http.messages import (
    MAX_HEAD_BYTES,
    BadResponse,
    Response,
    ResponseReader,
    encode_request,
)

OK = b"HTTP/1.1 200 OK\r\n"
TWO = b"Content-Length: 2\r\n\r\n{}"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"

#: Bytes, status, body, whether another response can follow.
COMPLETE = {
    "length": (OK + TWO, 200, b"{}", True),
    "no body": (OK + b"Content-Length: 0\r\n\r\n", 200, b"", True),
    "no reason": (b"HTTP/1.1 200\r\n" + TWO, 200, b"{}", True),
    "line ends before it": (b"\r\n\r\n" + OK + TWO, 200, b"{}", True),
    "headers without values": (OK + b"A:\r\nB: \r\nC:\t \r\n" + TWO, 200, b"{}", True),
    "chunks": (OK + CHUNKED + b"1\r\n{\r\n01\r\n}\r\n0\r\n\r\n", 200, b"{}", True),
    "chunk extension": (OK + CHUNKED + b'2;a="b";c\r\n{}\r\n0;d\r\n\r\n', 200, b"{}", True),
    "trailers": (OK + CHUNKED + b"2\r\n{}\r\n0\r\nA: b\r\nC:\r\n\r\n", 200, b"{}", True),
    "continue": (b"HTTP/1.1 100 Continue\r\nA: b\r\n\r\n" + OK + TWO, 200, b"{}", True),
    "two hints": (b"HTTP/1.1 103 Hints\r\nA: b\r\n\r\n" * 2 + OK + TWO, 200, b"{}", True),
    "204": (b"HTTP/1.1 204 No\r\n\r\n", 204, b"", True),
    "204 with a length": (b"HTTP/1.1 204 No\r\nContent-Length: 2\r\n\r\n", 204, b"", True),
    "304": (b"HTTP/1.1 304 No\r\nETag: x\r\n\r\n", 304, b"", True),
    "304 with a length": (b"HTTP/1.1 304 No\r\nContent-Length: 2\r\n\r\n", 304, b"", True),
    "304 in chunks": (b"HTTP/1.1 304 No\r\n" + CHUNKED, 304, b"", True),
    "upgrade offered": (OK + b"Upgrade: h2c\r\nConnection: Upgrade\r\n" + TWO, 200, b"{}", True),
    "connection: close": (OK + b"Connection: close\r\n" + TWO, 200, b"{}", False),
    "close, in a list": (OK + b"connection: x, Close\r\n" + TWO, 200, b"{}", False),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\n" + TWO, 200, b"{}", False),
    "HTTP/1.0 kept": (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" + TWO, 200, b"{}", True),
}
#: Bytes without a response: refused, however they are cut.
MALFORMED = {
    "a page": b"<html>503</html>",
    "TLS alert": b"\x15\x03\x01\x00\x02\x02\x46",
    "another protocol": b"SSH-2.0-OpenSSH_9.9\r\n",
    "HTTP/2": b"HTTP/2.0 200 OK\r\n" + TWO,
    "HTTP/0.9": b"HTTP/0.9 200 OK\r\n" + TWO,
    "a status of two digits": b"HTTP/1.1 20 OK\r\n" + TWO,
    "status 099": b"HTTP/1.1 099 OK\r\n" + TWO,
    "status 000": b"HTTP/1.1 000 OK\r\n" + TWO,
    "another protocol switched to": b"HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "101 without a protocol": b"HTTP/1.1 101 S\r\n\r\n" + OK + TWO,
    "line ends without CR": OK.replace(b"\r", b"") + TWO.replace(b"\r", b""),
    "two lengths": OK + b"Content-Length: 3\r\n" + TWO,
    "the same length twice": OK + b"Content-Length: 2\r\n" + TWO,
    "a list of lengths": OK + b"Content-Length: 2, 2\r\n\r\n{}",
    "length and chunks": OK + b"Content-Length: 2\r\n" + CHUNKED + b"2\r\n{}\r\n0\r\n\r\n",
    "chunks and length": OK + b"Transfer-Encoding: chunked\r\n" + TWO,
    "negative length": OK + b"Content-Length: -2\r\n\r\n{}",
    "signed length": OK + b"Content-Length: +2\r\n\r\n{}",
    "empty length": OK + b"Content-Length:\r\n\r\n{}",
    "huge length": OK + b"Content-Length: 18446744073709551616\r\n\r\n{}",
    "huge chunk": OK + CHUNKED + b"10000000000000000\r\n{}",
    "chunk without a size": OK + CHUNKED + b";a\r\n{}\r\n0\r\n\r\n",
    "chunk without an end": OK + CHUNKED + b"1\r\n{}\r\n0\r\n\r\n",
    "a name with a space": OK + b"A : b\r\n" + TWO,
    "a header without a name": OK + b": b\r\n" + TWO,
    "a folded header": OK + b"A: b\r\n c\r\n" + TWO,
    "NUL in a header": OK + b"A: \x00\r\n" + TWO,
}


def every_cut(data: bytes) -> Iterator[list[bytes]]:
    """Give the data whole, in two pieces in every way, and byte by byte."""
    for place in range(len(data)):
        yield cut(data, [place])
    yield cut(data, list(range(len(data))))


@pytest.mark.parametrize(
    ("data", "status", "body", "is_reusable"), COMPLETE.values(), ids=list(COMPLETE)
)
def test_a_response_ends_where_it_says(
    data: bytes, status: int, body: bytes, *, is_reusable: bool
) -> None:
    """By its length, its last chunk or its status; however the bytes are cut."""
    for pieces in every_cut(data):
        got = read(*pieces)
        assert (got.status, got.body, got.is_complete) == (status, body, True)
        assert got.is_reusable == is_reusable
        # Not before its last byte.
        *before, last = [piece for piece in pieces if piece]
        assert not read(*before, last[:-1]).is_complete


@pytest.mark.parametrize("data", MALFORMED.values(), ids=list(MALFORMED))
def test_what_is_no_response_is_refused(data: bytes) -> None:
    """Two readings of one response are none: the next request would read what is left."""
    for pieces in every_cut(data):
        with pytest.raises(BadResponse):
            read(*pieces)


@pytest.mark.parametrize("extra", [b"x", b"\x00", OK + TWO, b"HTTP/1.1 408 Timeout\r\n\r\n"])
@pytest.mark.parametrize("name", ["length", "chunks", "204", "connection: close"])
def test_data_after_a_response_does_not_change_it(name: str, extra: bytes) -> None:
    """In the same piece or a later one: the response stands, the connection is not used again."""
    data, status, body, _ = COMPLETE[name]
    for pieces in [*every_cut(data + extra), [data, extra]]:
        got = read(*pieces)
        assert (got.status, got.body, got.is_complete) == (status, body, True)
        assert not got.is_reusable


@pytest.mark.parametrize(
    ("data", "is_complete"),
    [
        (OK + b"\r\n{}", True),
        (OK + b"Connection: keep-alive\r\n\r\n{}", True),
        (b"HTTP/1.0 200 OK\r\n\r\n{}", True),
        (OK + b"Content-Length: 3\r\n\r\n{}", False),
        (OK + CHUNKED + b"2\r\n{}\r\n", False),
        (OK + CHUNKED + b"2\r\n{}\r\n0\r\n", False),
        (OK + b"Transfer-Encoding: gzip\r\n\r\n{}", False),
    ],
)
def test_the_end_of_the_connection_is_one_of_the_body(data: bytes, *, is_complete: bool) -> None:
    """Of a body without a length only; what is cut off is not complete."""
    for pieces in every_cut(data):
        assert not read(*pieces).is_complete
        got = read(*pieces, ends=True)
        assert (got.body, got.is_complete, got.is_reusable) == (b"{}", is_complete, False)


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 2", OK + b"A: b\r\n", b"HTTP/1.1 100 C\r\n\r\n"])
def test_an_end_before_the_head_is_no_response(data: bytes) -> None:
    """Also after a response that only announces another."""
    assert read(data, ends=True) == Outcome(0, read(data).raw_headers, b"", False, False)


def test_a_header_is_found_by_its_name() -> None:
    """In any case, with all its values, without the white space around them."""
    got = read(OK + b"retry-AFTER:  5 \t\r\nVary: a\r\nvary: b \r\n" + TWO)
    response = Response(got.status, got.body, got.raw_headers)
    assert response.header(b"retry-after") == "5"
    assert response.header(b"vary") == "a, b"
    assert response.header(b"etag") == ""


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"", b"\r\n"),
        (OK + b"A: ", b"b"),
        (OK, b"A: b\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (OK + CHUNKED + b"2;", b"a=b;"),
        (OK + CHUNKED, b"0" * 8),
        (OK + CHUNKED + b"0\r\n", b"A: b\r\n"),
    ],
    ids=["line ends", "value", "headers", "hints", "extension", "chunk size", "trailers"],
)
def test_what_is_no_body_is_bounded(start: bytes, more: bytes) -> None:
    """A head, trailers or extensions without an end are refused at 64 KiB (F-25)."""
    piece = more * (4096 // len(more))
    with pytest.raises(BadResponse):
        read(start, *[piece] * (MAX_HEAD_BYTES // len(piece) + 2))


def test_a_body_is_not_bounded_by_the_limit_of_the_head() -> None:
    """Neither one of some length, nor small chunks with heads of their own."""
    length = b"Content-Length: %d\r\n\r\n" % (4 * MAX_HEAD_BYTES)
    assert read(OK + length, *[b"x" * 1024] * 256).is_complete
    chunks = [b"1;extension\r\n", b"x\r\n"] * 8192
    assert len(read(OK + CHUNKED, *chunks).body) == 8192


def test_one_reader_reads_the_responses_of_a_connection() -> None:
    """Nothing of a response is left in the next one."""
    reader = ResponseReader()
    for data, status, body, is_reusable in COMPLETE.values():
        if is_reusable:
            reader.start()
            reader.feed(data)
            assert (reader.status, b"".join(reader.parts), reader.size) == (status, body, len(body))
            assert reader.raw_headers == read(data).raw_headers
    reader.close()


TOKENS = st.text("abcXYZ-09", min_size=1, max_size=9)
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=255, categories=["L", "N", "P"]))


@given(
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE"]),
    target=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1),
    headers=st.dictionaries(TOKENS, VALUES, max_size=4),
    body=st.binary(max_size=50),
)
def test_a_request_says_what_it_was_given(
    method: str, target: str, headers: dict[str, str], body: bytes
) -> None:
    """Another implementation reads the same: method, target, headers, body, and no more."""
    server = h11.Connection(h11.SERVER)
    server.receive_data(
        encode_request(method, target, headers={"Host": "kube", **headers}, body=body)
    )
    request, *data = iter(server.next_event, h11.NEED_DATA)
    assert isinstance(request, h11.Request)
    assert (request.method.decode(), request.target.decode()) == (method, target)
    sent = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
    length = (
        [(b"content-length", b"%d" % len(body))]
        if body or method in ("POST", "PUT", "PATCH")
        else []
    )
    assert list(request.headers) == [(b"host", b"kube"), *sent, *length]
    assert b"".join(bytes(each.data) for each in data if isinstance(each, h11.Data)) == body
    assert server.their_state is h11.DONE


@pytest.mark.parametrize("bad", ["\r", "\n", "\r\n", "a\r\nHost: b", "a\n b"])
def test_no_header_adds_another(bad: str) -> None:
    """A line end in a name, a value or a target is refused: it would begin a request of its own."""
    for headers in ({"A": bad}, {bad: "a"}, {"A": "b", "C": bad}):
        with pytest.raises(ValueError, match="line end"):
            encode_request("GET", "/", headers=headers)
    with pytest.raises(ValueError, match="not usable as the target"):
        encode_request("GET", f"/{bad}", headers={})


@pytest.mark.parametrize("target", ["/a b", "/\x00", "/\x7f", "/ä", "/\u2028"])
def test_a_target_is_visible_ascii(target: str) -> None:
    """Everything else has to be encoded before."""
    with pytest.raises(ValueError, match="not usable as the target"):
        encode_request("GET", target, headers={})
