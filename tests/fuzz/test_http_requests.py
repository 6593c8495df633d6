"""Any input to the port of the endpoints has a response or is closed, and the next is served."""

import asyncio
import logging
import re
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress

import pytest
from fuzz_input import MOST_SECONDS, one_input
from hypothesis import given
from hypothesis import strategies as st
from virtual_time import VirtualTimeLoop

from kcm_host.observe.http_messages import Request, Response, text
from kcm_host.observe.http_server import LIMITS, HttpConnection, HttpServer

HANG_SECONDS = 60.0
RESPONSE = re.compile(rb"HTTP/1\.1 (\d{3}) [ -~]+\r\n(?:[A-Za-z-]+: [ -~]+\r\n)+\r\n", re.DOTALL)
PROBE = b"GET /livez HTTP/1.1\r\nHost: kcm\r\n\r\n"

methods = st.sampled_from([b"GET", b"HEAD", b"POST", b"OPTIONS", b"BREW", b"get", b"CONNECT", b""])
targets = st.one_of(
    st.sampled_from(
        [
            *(b"/livez", b"/readyz?verbose", b"/status", b"/metrics", b"*", b"/%", b"/%zz%00"),
            *(b"http://a/livez", b"http://[::1/livez", b"//livez", b"/livez?%ff=%&&;=", b"a:1"),
        ]
    ),
    st.binary(max_size=40),
    st.integers(1, 20_000).map(lambda size: b"/" + b"a" * size),
)
versions = st.sampled_from([b"HTTP/1.1", b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.10", b""])
ends = st.sampled_from([b"\r\n", b"\n", b"\r", b""])
fields = st.one_of(
    st.sampled_from(
        [
            *(
                b"Host: kcm",
                b"Connection: keep-alive",
                b"Content-Length: 5",
                b"Expect: 100-continue",
            ),
            *(b"Content-Length: -1", b"Transfer-Encoding: chunked", b" folded", b": none", b"\x00"),
        ]
    ),
    st.binary(max_size=60),
    st.integers(1, 30_000).map(lambda size: b"X: " + b"x" * size),
)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """Draw something built like a request."""
    line = b" ".join(draw(st.tuples(methods, targets, versions)))
    end = draw(ends)
    head = end.join([line, *draw(st.lists(fields, max_size=6)), b"", b""])
    return head + draw(st.binary(max_size=20))


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Draw a good request with some bytes changed, inserted or left out."""
    data = bytearray(PROBE)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(data)


inputs = st.one_of(
    requests(), mutated(), st.binary(max_size=300), st.lists(requests(), max_size=4).map(b"".join)
)


@st.composite
def pieces(draw: st.DrawFn) -> list[bytes]:
    """Draw an input in pieces, as it comes out of a slow network."""
    data = draw(inputs)
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


async def respond(request: Request) -> Response:
    """Respond, or fail as an endpoint with a mistake does."""
    if request.path == "/status":
        raise ValueError(f"cannot show {request.query}")
    return text(200, f"{request.path}\n")


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    """Run one server for all inputs."""
    server = HttpServer(socket.AF_INET, ("127.0.0.1", 0), respond)
    server.start()
    yield server
    server.stop()


def exchange(server: HttpServer, sent: Sequence[bytes]) -> bytes:
    """Send some pieces and then the end; give everything that came back."""
    with closing(socket.create_connection(server.address, timeout=HANG_SECONDS)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(BrokenPipeError, ConnectionResetError):
            for piece in sent:
                client.sendall(piece)
        with suppress(OSError):
            client.shutdown(socket.SHUT_WR)
        came = b""
        with suppress(ConnectionResetError):
            while data := client.recv(65_536):
                came += data
        return came


def check(answer: bytes) -> None:
    """Fail unless this is nothing, or one whole answer."""
    if answer:
        head = RESPONSE.match(answer)
        assert head, answer[:200]
        length = re.search(rb"\r\nContent-Length: (\d+)\r\n", head[0])
        assert length
        assert len(answer) - head.end() in (0, int(length[1]))
        assert int(head[1]) in (200, 400, 404, 405, 431, 500, 505)


@given(sent=pieces())
def test_server_answers_or_closes(server: HttpServer, sent: list[bytes]) -> None:
    """Each input over a real connection gets one answer or none, in less than a second of CPU."""
    clock = time.pthread_getcpuclockid(server._thread.ident or 0)
    before = time.clock_gettime(clock)
    with one_input("HTTP request"):
        check(exchange(server, sent))
        answer = exchange(server, [PROBE])
    assert answer.endswith(b"\r\n\r\n/livez\n")
    assert time.clock_gettime(clock) - before < MOST_SECONDS
    assert len(server.connections) <= 2


class Wire(asyncio.Transport):
    """A transport that takes everything at once and remembers it."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.came = b""
        self.over = asyncio.get_running_loop().create_future()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take some bytes."""
        assert not self.over.done()
        self.came += bytes(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Take note of nothing: the buffer is always empty."""

    def get_write_buffer_size(self) -> int:
        """Return how much is not sent yet."""
        return 0

    def write_eof(self) -> None:
        """End the own direction."""

    def close(self) -> None:
        """End both directions."""
        if not self.over.done():
            self.over.set_result(None)

    abort = close


async def dribble(server: HttpServer, sent: Sequence[tuple[float, bytes]], *, ends: bool) -> None:
    """Send pieces with waits between; the connection must be over by its deadline."""
    loop = asyncio.get_running_loop()
    wire, connection = Wire(), HttpConnection(server)
    began = loop.time()
    connection.connection_made(wire)
    for wait, piece in sent:
        await asyncio.wait({wire.over}, timeout=wait)
        if wire.over.done():
            break
        connection.data_received(piece)
    if ends and not wire.over.done() and not connection.eof_received():
        wire.close()
    await wire.over
    assert loop.time() - began <= LIMITS.request_seconds
    connection.connection_lost(None)
    check(wire.came)


@given(
    sent=st.lists(st.tuples(st.floats(0, 20), st.one_of(inputs, st.binary(max_size=4)))),
    ends=st.booleans(),
)
def test_no_slowness_outlives_the_deadline(sent: list[tuple[float, bytes]], *, ends: bool) -> None:
    """However slowly the pieces come, each connection is over 10 s after it began (F-15)."""
    server = HttpServer(socket.AF_INET, ("127.0.0.1", 0), respond)
    loop = VirtualTimeLoop()
    try:
        with one_input("HTTP request in pieces, slowly"):
            loop.run_until_complete(dribble(server, sent, ends=ends))
        assert len(server.connections) == 0
    finally:
        loop.close()
        server.stop()


@given(data=st.binary(min_size=1, max_size=200), size=st.integers(0, 3 * LIMITS.head_bytes))
def test_head_is_bounded(server: HttpServer, data: bytes, size: int) -> None:
    """A head without end is refused once it is too large, however it goes on."""
    with one_input("HTTP head without end"):
        rest = (data * (size // len(data) + 1))[:size].replace(b"\n", b"")
        check(exchange(server, [b"GET / HTTP/1.1\r\nX: ", rest]))


@pytest.fixture(autouse=True)
def _no_tracebacks(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail when an input makes the server raise anything but what an endpoint raises."""
    caplog.set_level(logging.DEBUG)
    yield
    bad = [one for one in caplog.records if one.exc_info and one.getMessage() != "endpoint failed"]
    assert [one.getMessage() for one in bad] == []
