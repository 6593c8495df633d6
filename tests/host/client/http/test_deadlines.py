"""When a request, a stream or an idle connection ends because nothing arrives."""

import asyncio
import ssl
from collections.abc import AsyncIterator

import pytest
from host.client.http.conftest import response, send

from kcm_host.client.http.connection import MAX_ERROR_BYTES, HTTPConnection, Owner
from kcm_host.client.http.lines import LineStream
from kcm_host.client.http.messages import Response
from kcm_host.client.http.transport import IDLE_SECONDS, Request, Transport

pytestmark = pytest.mark.virtual_time

WATCH = Request("GET", "/watch", {})
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PARTS = [b"H", response(b"{}")[:20], response(b"{}")[:-1], b"HTTP/1.1 100 Continue\r\n\r\n"]


class Wire(asyncio.Transport):
    """A transport without a socket; `arrive` is what the peer sends."""

    def __init__(self, connection: HTTPConnection) -> None:
        super().__init__()
        self.connection = connection
        self.written: list[bytes] = []
        self.is_reading_paused = False
        self._is_closing = False
        connection.connection_made(self)

    def arrive(self, data: bytes) -> None:
        """Hand these bytes to the connection, unless it takes none."""
        assert not self.is_reading_paused
        if not self._is_closing:
            self.connection.data_received(data)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take some bytes."""
        self.written.append(bytes(data))

    def pause_reading(self) -> None:
        """Note that nothing may arrive."""
        self.is_reading_paused = True

    def resume_reading(self) -> None:
        """Note that something may arrive."""
        self.is_reading_paused = False

    def is_closing(self) -> bool:
        """Return whether this is the end."""
        return self._is_closing

    def abort(self) -> None:
        """End, one turn later."""
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)

    close = abort


class Wires:
    """Stands for the dialer: each connection is a wire; a dial may take some time."""

    def __init__(self) -> None:
        self.made: list[Wire] = []
        self.dial_seconds = 0.0

    async def dial(self, owner: Owner, _: ssl.SSLContext | None) -> HTTPConnection:
        """See `Dialer`."""
        if self.dial_seconds:
            await after(self.dial_seconds)
        self.made.append(Wire(HTTPConnection(owner)))
        return self.made[-1].connection

    @property
    def last(self) -> Wire:
        """The connection that was opened last."""
        return self.made[-1]


@pytest.fixture
def wires() -> Wires:
    """What the transport of the test opens."""
    return Wires()


@pytest.fixture
async def transport(wires: Wires, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Transport]:
    """A transport without sockets."""
    made = Transport("http://kube.example")
    monkeypatch.setattr(made, "_dialer", wires)
    yield made
    await made.close()


def now() -> float:
    """Return the virtual time."""
    return asyncio.get_running_loop().time()


async def after(seconds: float) -> None:
    """Return when this much virtual time has passed."""
    await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=seconds)


async def stream(transport: Transport, wires: Wires, *, silence: float = 150.0) -> LineStream:
    """Open a stream; its head has to arrive."""
    opened = asyncio.create_task(
        transport.open_stream(WATCH, None, connect_seconds=30, silence_seconds=silence)
    )
    await after(1)
    wires.last.arrive(CHUNKED)
    return (await opened)[1]


@pytest.mark.parametrize("part", [b"", *PARTS])
async def test_a_response_that_does_not_end_is_late(
    transport: Transport, wires: Wires, part: bytes
) -> None:
    """Whatever of it has arrived; the connection is not used again."""
    began = now()
    late = asyncio.create_task(send(transport, seconds=30))
    await after(29)
    wires.last.arrive(part)
    with pytest.raises(TimeoutError):
        await late
    assert now() - began == 30
    assert wires.last.is_closing()
    again = asyncio.create_task(send(transport, seconds=30))
    await after(1)
    wires.last.arrive(response(b"{}"))
    assert ((await again).body, len(wires.made)) == (b"{}", 2)


async def test_a_slow_response_is_late_as_a_whole(transport: Transport, wires: Wires) -> None:
    """A byte in each second is progress, and does not help."""
    began = now()
    late = asyncio.create_task(send(transport, seconds=30))
    for byte in response(b"x" * 100):
        await after(1)
        wires.last.arrive(bytes([byte]))
    with pytest.raises(TimeoutError):
        await late
    assert now() - began > 30
    assert wires.last.is_closing()


async def test_the_time_of_the_dial_is_part_of_the_request(
    transport: Transport, wires: Wires
) -> None:
    """One deadline for both; a dial without an end is late as well."""
    began = now()
    wires.dial_seconds = 29.0
    with pytest.raises(TimeoutError):
        await send(transport, seconds=30)
    assert (now() - began, len(wires.made)) == (30, 1)
    wires.dial_seconds = 1e6
    with pytest.raises(TimeoutError):
        await send(transport, seconds=30)
    with pytest.raises(TimeoutError):
        await transport.open_stream(WATCH, None, connect_seconds=20, silence_seconds=150)
    assert (now() - began, len(wires.made)) == (80, 1)


async def test_deadlines_are_of_each_request(transport: Transport, wires: Wires) -> None:
    """One timer serves all; a later request with an earlier deadline is ended before."""
    began = now()
    ended = {}

    async def late(seconds: float) -> None:
        with pytest.raises(TimeoutError):
            await send(transport, seconds=seconds)
        ended[seconds] = now() - began

    await asyncio.gather(*(late(seconds) for seconds in (30.0, 10.0, 20.0, 10.0)))
    assert ended == {10.0: 10, 20.0: 20, 30.0: 30}


async def test_idle_connections_end(transport: Transport, wires: Wires) -> None:
    """75 s after their last request: before the API server does that (90 s)."""
    for _ in range(2):
        call = asyncio.create_task(send(transport))
        await after(40)
        wires.last.arrive(response(b"{}"))
        await call
    assert len(wires.made) == 1
    await after(IDLE_SECONDS - 1)
    assert not wires.last.is_closing()
    await after(2)
    assert wires.last.is_closing()
    assert not transport._connections


async def test_an_end_that_was_noticed_fails_no_request(transport: Transport, wires: Wires) -> None:
    """An idle connection that has ended in this turn of the loop is not used, also by a POST."""
    for is_end in (True, False):
        call = asyncio.create_task(send(transport))
        await after(1)
        wires.last.arrive(response(b"{}"))
        await call
        if is_end:
            wires.last.connection.eof_received()
        else:
            wires.last.abort()
            wires.last.connection.abort()
        count = len(wires.made)
        call = asyncio.create_task(send(transport, "POST"))
        await after(1)
        wires.last.arrive(response(b"{}"))
        assert (await call).body == b"{}"
        assert len(wires.made) == count + 1


async def test_the_silence_of_a_stream_ends_it(transport: Transport, wires: Wires) -> None:
    """As a normal end (IQ-116, IQ-117): 150 s after the last byte, whatever that was."""
    lines = await stream(transport, wires)
    reading = asyncio.create_task(lines.for_each(lambda line: False))
    for part in (b"4\r\n", b"one\n", b"\r\n4\r\n", b"two"):
        await after(149)
        wires.last.arrive(part)
    began = now()
    assert await reading == 1
    assert now() - began == 150
    assert wires.last.is_closing()


async def test_silence_before_the_head_is_late(transport: Transport, wires: Wires) -> None:
    """There is no stream yet that could end."""
    with pytest.raises(TimeoutError):
        await transport.open_stream(WATCH, None, connect_seconds=30, silence_seconds=150)
    assert wires.last.is_closing()


async def test_a_paused_stream_is_not_silent(transport: Transport, wires: Wires) -> None:
    """Where nobody reads, the peer has to wait, for any time; then silence counts again."""
    lines = await stream(transport, wires)
    wires.last.arrive(b"8\r\none\ntwo\n\r\n")
    assert wires.last.is_reading_paused
    await after(100_000)
    assert not wires.last.is_closing()
    found: list[bytes] = []

    def one(line: bytes) -> bool:
        found.append(line)
        return True

    assert await lines.for_each(one) == 1
    await after(100_000)
    assert not wires.last.is_closing()
    began = now()
    assert await lines.for_each(lambda line: False) == 1
    assert now() - began == 150
    assert not wires.last.is_reading_paused
    assert wires.last.is_closing()


@pytest.mark.parametrize("status", [b"410 Gone", b"429 Slow", b"304 Not Modified"])
async def test_an_error_is_no_stream(transport: Transport, wires: Wires, status: bytes) -> None:
    """It is returned whole, and its connection ends at once, not after the silence."""
    opening = asyncio.create_task(
        transport.open_stream(WATCH, None, connect_seconds=30, silence_seconds=150)
    )
    await after(1)
    body = b"" if status.startswith(b"304") else b"no\n"
    wires.last.arrive(b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n" % (status, len(body)))
    await after(1)
    wires.last.arrive(body)
    got, lines = await opening
    assert (got.status, got.body) == (int(status[:3]), body)
    assert await lines.for_each(lambda line: False) == 0
    assert wires.last.is_closing()


@pytest.mark.parametrize("is_stream", [False, True], ids=["request", "stream"])
async def test_an_error_is_cut_off(transport: Transport, wires: Wires, *, is_stream: bool) -> None:
    """At 1 MiB, without waiting for its end (F-25); the limit of the request is for successes."""

    async def ask() -> Response:
        if not is_stream:
            return await send(transport, max_bytes=10)
        opened = transport.open_stream(WATCH, None, connect_seconds=30, silence_seconds=150)
        return (await opened)[0]

    call = asyncio.create_task(ask())
    await after(1)
    wires.last.arrive(b"HTTP/1.1 500 No\r\n\r\n" + b"x" * 1000)
    await after(1)
    assert not call.done()
    wires.last.arrive(b"x" * MAX_ERROR_BYTES)
    error = await call
    assert (error.status, len(error.body), error.is_complete) == (500, MAX_ERROR_BYTES, False)
    assert wires.last.is_closing()
