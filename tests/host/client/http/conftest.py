"""What the tests of the HTTP client share: responses read in pieces, servers, both layers."""

import asyncio
import gc
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from host.client.conftest import Authority

from kcm_host.client.http import dialer
from kcm_host.client.http.messages import RawHeaders, Response, ResponseReader
from kcm_host.client.http.transport import Request, Transport

#: For hangs only.
SECONDS = 60.0


@dataclass(frozen=True)
class Outcome:
    """What a reader says about the bytes of one response."""

    status: int
    raw_headers: RawHeaders
    body: bytes
    is_complete: bool
    is_reusable: bool


def read(*pieces: bytes, ends: bool = False) -> Outcome:
    """Return what arrives in these pieces, and then the end; raise what the reader raises."""
    reader = ResponseReader()
    try:
        for piece in pieces:
            reader.feed(piece)
        if ends:
            reader.finish()
    finally:
        reader.close()
    body = b"".join(reader.parts)
    return Outcome(reader.status, reader.raw_headers, body, reader.is_complete, reader.is_reusable)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Return the data in pieces that begin at these places; some may be empty."""
    cuts = sorted(min(place, len(data)) for place in places)
    return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def response(body: bytes, *, head: str = "") -> bytes:
    """Return a success with this body."""
    return f"HTTP/1.1 200 OK\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Peer:
    """One connection, as the server sees it."""

    def __init__(
        self, site: "Site", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.number = len(site.peers)
        self.reader = reader
        self.writer = writer
        self._site = site

    async def request(self) -> bytes:
        """Note and return the next request; empty at the end of the connection."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            data = await self.reader.readuntil(b"\r\n\r\n")
            if length := re.search(rb"\r\nContent-Length: (\d+)\r\n", data):
                data += await self.reader.readexactly(int(length[1]))
            self._site.requests.append((self.number, data))
            return data
        return b""

    def say(self, data: bytes) -> None:
        """Send these bytes."""
        self.writer.write(data)

    def reset(self) -> None:
        """End the connection at once."""
        self.writer.transport.abort()


Speak = Callable[[Peer], Awaitable[None]]


async def echo(peer: Peer) -> None:
    """Respond to every request with its target."""
    while request := await peer.request():
        peer.say(response(request.split(b" ")[1]))


async def tunnel(peer: Peer) -> None:
    """Connect to what a CONNECT request asks for, which is on this machine."""
    if request := await peer.request():
        port = int(request.split(b" ")[1].rsplit(b":", 1)[1])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        peer.say(b"HTTP/1.1 200 Connection established\r\n\r\n")
        copying = {
            asyncio.create_task(_copy(reader, peer.writer)),
            asyncio.create_task(_copy(peer.reader, writer)),
        }
        try:
            await asyncio.wait(copying, return_when=asyncio.FIRST_COMPLETED)
        finally:
            writer.transport.abort()
            for task in copying:
                task.cancel()
            await asyncio.wait(copying)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()


class Site:
    """A server on loopback that notes what it was sent, and by which connection."""

    def __init__(self, speak: Speak, context: ssl.SSLContext | None) -> None:
        self.requests: list[tuple[int, bytes]] = []
        self.peers: list[Peer] = []
        self.url = ""
        self.port = 0
        self._speak = speak
        self.context = context
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, host: str = "127.0.0.1") -> None:
        """Listen, on a port that is free."""
        self._server = await asyncio.start_server(self._accept, host, 0, ssl=self.context)
        self.port = self._server.sockets[0].getsockname()[1]
        name = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if self.context else 'http'}://{name}:{self.port}"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(self, reader, writer)
        self.peers.append(peer)
        self._tasks.append(asyncio.create_task(self._serve(peer)))

    async def _serve(self, peer: Peer) -> None:
        with suppress(ConnectionError, ssl.SSLError):
            await self._speak(peer)
        peer.writer.close()

    async def stop(self) -> None:
        """End the server and its connections; raise what `speak` raised."""
        self._server.close()
        for task in self._tasks:
            task.cancel()
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            assert ended is None or isinstance(ended, asyncio.CancelledError), ended
        for peer in self.peers:
            peer.reset()
            with suppress(OSError):
                await peer.writer.wait_closed()

    @property
    def methods(self) -> list[tuple[int, str]]:
        """The number of the connection and the method of each request."""
        return [(number, data.split(b" ")[0].decode()) for number, data in self.requests]


StartSite = Callable[..., Awaitable[Site]]
MakeTransport = Callable[..., Transport]


@pytest.fixture
async def start_site(tmp_path: Path, authority: Authority) -> AsyncIterator[StartSite]:
    """Start servers; those with `tls` have a certificate for these names."""
    async with AsyncExitStack() as stack:

        async def start(
            speak: Speak = echo,
            *,
            tls: bool = False,
            names: tuple[str, ...] = ("127.0.0.1",),
            host: str = "127.0.0.1",
        ) -> Site:
            context = authority.issue("a server", names=names).server(tmp_path) if tls else None
            site = Site(speak, context)
            await site.start(host)
            stack.push_async_callback(site.stop)
            return site

        yield start


@pytest.fixture
async def transport_to() -> AsyncIterator[MakeTransport]:
    """Make transports to the server of a URL; they are closed at the end."""
    async with AsyncExitStack() as stack:

        def make(url: str, **options: Any) -> Transport:
            made = Transport(url, **options)
            stack.push_async_callback(made.close)
            return made

        yield make


@pytest.fixture
def trust(authority: Authority) -> ssl.SSLContext:
    """What trusts the servers of the test."""
    return ssl.create_default_context(cadata=authority.pem)


#: What is installed; `make test` installs both.
LAYERS = ["aiofastnet", "asyncio"] if dialer.is_fast else ["asyncio"]


@pytest.fixture(params=LAYERS)
def layer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Use the transports and the TLS of one of the two."""
    monkeypatch.setattr(dialer, "is_fast", request.param == "aiofastnet")
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["plain", "TLS"])
def tls(request: pytest.FixtureRequest) -> bool:
    """Whether the server of the test uses TLS."""
    return bool(request.param)


async def send(
    transport: Transport,
    method: str = "GET",
    target: str = "/",
    *,
    body: bytes = b"",
    context: ssl.SSLContext | None = None,
    seconds: float = SECONDS,
    max_bytes: int = 1 << 20,
) -> Response:
    """Send a request; return its response."""
    request = Request(method, target, {}, body)
    return await transport.round_trip(request, context, seconds=seconds, max_bytes=max_bytes)


async def until(is_true: Callable[[], object], what: str) -> None:
    """Return when something is true, looking at every turn of the event loop."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SECONDS
    while not is_true():
        assert loop.time() < deadline, f"not within {SECONDS:g} s: {what}"
        await asyncio.sleep(0)


def open_sockets() -> dict[str, int]:
    """Return the sockets of this process, and a descriptor of each."""
    found = {}
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found[str(descriptor.readlink())] = int(descriptor.name)
    return {name: number for name, number in found.items() if name.startswith("socket:")}


def connected_to(port: int) -> int:
    """Return how many sockets of this process are connected to this port."""
    count = 0
    for descriptor in open_sockets().values():
        with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as copy:
            count += copy.getpeername()[1:2] == (port,)
    return count


@pytest.fixture(autouse=True)
async def _leaves_nothing() -> AsyncIterator[None]:
    """Fail when a test leaves a socket, a task, or something that warns when it is collected."""
    sockets, tasks = open_sockets(), asyncio.all_tasks()
    yield
    await until(lambda: open_sockets().keys() <= sockets.keys(), "all sockets are closed")
    await until(lambda: len(asyncio.all_tasks()) <= len(tasks), "all tasks have ended")
    gc.collect()
