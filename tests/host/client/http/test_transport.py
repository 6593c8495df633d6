"""Which connection a request uses, what is sent twice, and when connections end."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from host.client.conftest import Authority
from host.client.http.conftest import (
    MakeTransport,
    Peer,
    Site,
    Speak,
    StartSite,
    connected_to,
    echo,
    response,
    send,
    until,
)

from kcm_host.client.http.connection import ConnectionLost
from kcm_host.client.http.messages import Response
from kcm_host.client.http.transport import Request, Transport

Send = Callable[..., Coroutine[Any, Any, Response]]
Origin = Callable[..., Awaitable[tuple[Site, Transport, Send]]]

REPEATED = ["GET", "PUT", "DELETE"]
NOT_REPEATED = ["POST", "PATCH"]


@pytest.fixture
def origin(
    start_site: StartSite,
    transport_to: MakeTransport,
    trust: ssl.SSLContext,
    *,
    tls: bool,
    layer: str,
) -> Origin:
    """Start a server; give it, the connections to it, and what sends a request to it."""

    async def make(speak: Speak = echo) -> tuple[Site, Transport, Send]:
        site = await start_site(speak, tls=tls)
        transport = transport_to(site.url)

        async def send_to_it(method: str = "GET", target: str = "/", **more: Any) -> Response:
            more = {"context": trust if tls else None, **more}
            return await send(transport, method, target, **more)

        return site, transport, send_to_it

    return make


def once_then(*last: bytes, resets: bool = False) -> Speak:
    """Return a server of which every connection responds once, then says this, then ends."""

    async def speak(peer: Peer) -> None:
        await peer.request()
        peer.say(response(b"{}"))
        if await peer.request():
            for piece in last:
                peer.say(piece)
                await peer.writer.drain()
            if resets:
                peer.reset()

    return speak


@pytest.mark.parametrize("resets", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("method", REPEATED + NOT_REPEATED)
async def test_a_connection_that_was_closed_meanwhile(
    origin: Origin, method: str, *, resets: bool
) -> None:
    """GET, PUT and DELETE are sent once more, POST and PATCH are not: they may have been done."""
    site, _, send = await origin(once_then(resets=resets))
    await send()
    if method in REPEATED:
        assert (await send(method, body=b"x")).body == b"{}"
        assert site.methods == [(0, "GET"), (0, method), (1, method)]
    else:
        with pytest.raises(ConnectionLost) as lost:
            await send(method, body=b"x")
        assert lost.value.is_unanswered
        assert site.methods == [(0, "GET"), (0, method)]
        assert (await send(method, body=b"x")).body == b"{}"


@pytest.mark.parametrize("method", REPEATED)
async def test_nothing_is_sent_three_times(origin: Origin, method: str) -> None:
    """The second connection is a new one, so its end is an error; so is that of the first one."""
    numbers: list[int] = []

    async def speak(peer: Peer) -> None:
        if not numbers and await peer.request():
            numbers.append(peer.number)
            peer.say(response(b"{}"))
        await peer.request()

    site, _, send = await origin(speak)
    await send()
    with pytest.raises(ConnectionLost):
        await send(method)
    assert site.methods == [(0, "GET"), (0, method), (1, method)]
    with pytest.raises(ConnectionLost):
        await send(method)
    assert site.methods[3:] == [(2, method)]


@pytest.mark.parametrize(
    "part",
    [b"H", response(b"{}")[:20], response(b"{}")[:-1], b"HTTP/1.1 100 Continue\r\n\r\n"],
    ids=["a byte", "half a head", "half a body", "announced"],
)
async def test_what_was_answered_in_part_is_not_repeated(origin: Origin, part: bytes) -> None:
    """The server has done something with the request."""
    site, _, send = await origin(once_then(part))
    for method in REPEATED:
        await send()
        with pytest.raises(ConnectionLost) as lost:
            await send(method)
        assert not lost.value.is_unanswered
        assert site.methods[-2:] == [(len(site.peers) - 1, "GET"), (len(site.peers) - 1, method)]


@pytest.mark.parametrize("is_noticed", [True, False], ids=["noticed", "not noticed"])
async def test_all_connections_end_at_once(origin: Origin, *, is_noticed: bool) -> None:
    """When a server is restarted, one repetition is enough, however many connections were idle."""
    together = asyncio.Event()

    async def speak(peer: Peer) -> None:
        while await peer.request():
            if len(site.requests) >= 5:
                together.set()
            await together.wait()
            peer.say(response(b"{}"))

    site, transport, send = await origin(speak)
    await asyncio.gather(*(send() for _ in range(5)))
    assert len(site.peers) == 5
    for peer in site.peers:
        peer.reset()
    method = "GET"
    if is_noticed:
        await until(lambda: not transport._connections, "the connections have ended")
        method = "POST"
    assert (await send(method)).body == b"{}"
    assert site.methods[-1] == (5, method)


async def test_the_last_one_in_is_the_first_one_out(origin: Origin) -> None:
    """What is used is what was used last, so that the others grow old and end."""
    gates = {target: asyncio.Event() for target in "abc"}

    async def speak(peer: Peer) -> None:
        while request := await peer.request():
            if gate := gates.get(request.split()[1].decode().strip("/")):
                await gate.wait()
            peer.say(response(b"{}"))

    site, _, send = await origin(speak)
    calls = {target: asyncio.create_task(send(target=f"/{target}")) for target in gates}
    await until(lambda: len(site.requests) == 3, "all were sent")
    numbers = {data.split()[1].decode().strip("/"): number for number, data in site.requests}
    for target in "bca":
        gates[target].set()
        await calls[target]
    for _ in range(3):
        await send()
    assert {number for number, _ in site.requests[3:]} == {numbers["a"]}
    await asyncio.gather(send(), send(), send())
    assert len(site.peers) == 3


@pytest.mark.parametrize(
    "answer",
    [
        response(b"{}", head="Connection: close\r\n"),
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        response(b"{}") + b"x",
        response(b"{}") + response(b"[]"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n0\r\n\r\n",
    ],
    ids=["close", "HTTP/1.0", "a byte more", "two responses", "a chunk more"],
)
async def test_such_a_connection_is_not_used_again(origin: Origin, answer: bytes) -> None:
    """Neither one that the server ends, nor one with bytes that nobody asked for."""

    async def speak(peer: Peer) -> None:
        while await peer.request():
            peer.say(answer)

    site, _, send = await origin(speak)
    for _ in range(3):
        assert (await send("POST")).body == b"{}"
    assert site.methods == [(0, "POST"), (1, "POST"), (2, "POST")]


async def test_data_without_a_request_ends_an_idle_connection(origin: Origin) -> None:
    """Such as a 408 before the server closes: it is no response to the next request."""
    site, transport, send = await origin()
    await send()
    site.peers[0].say(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
    await until(lambda: not transport._connections, "the connection has ended")
    assert (await send("POST", "/a")).body == b"/a"
    assert site.methods == [(0, "GET"), (1, "POST")]


async def test_a_body_that_is_too_long_is_cut_off(origin: Origin) -> None:
    """What is left is not read, and no later request meets it."""
    _, _, send = await origin()
    assert await send(target="/12345678", max_bytes=9) == Response(
        200, b"/12345678", ((b"Content-Length", b"9"),)
    )
    got = await send(target="/12345678", max_bytes=8)
    assert (got.body, got.is_complete) == (b"/1234567", False)
    assert (await send(target="/a")).body == b"/a"


async def test_other_credentials_use_other_connections(
    start_site: StartSite, transport_to: MakeTransport, authority: Authority, layer: str
) -> None:
    """After the rotation of a client certificate no request is sent under the old one."""
    gate = asyncio.Event()

    async def speak(peer: Peer) -> None:
        while request := await peer.request():
            if request.startswith(b"GET /slow"):
                await gate.wait()
            peer.say(response(b"{}"))

    site = await start_site(speak, tls=True)
    transport = transport_to(site.url)
    old, new = (ssl.create_default_context(cadata=authority.pem) for _ in "on")
    await send(transport, context=old)
    slow = asyncio.create_task(send(transport, target="/slow", context=old))
    await send(transport, context=old)
    await until(lambda: len(site.requests) == 3, "all were sent")
    assert len(site.peers) == 2
    await send(transport, context=new)
    gate.set()
    await slow
    for _ in range(2):
        await send(transport, context=new)
    assert [number for number, _ in site.requests[3:]] == [2, 2, 2]
    await until(lambda: len(transport._connections) == 1, "the old connections have ended")


async def test_the_end_leaves_nothing(origin: Origin, trust: ssl.SSLContext, *, tls: bool) -> None:
    """Requests, streams, dials in flight and idle connections: all sockets are closed at once."""

    async def speak(peer: Peer) -> None:
        while request := await peer.request():
            if request.startswith(b"GET /slow"):
                peer.say(response(b"{}")[:-1])
            elif request.startswith(b"GET /watch"):
                peer.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n")
            else:
                peer.say(response(b"{}"))

    site, transport, send = await origin(speak)
    watch = Request("GET", "/watch", {})
    _, lines = await transport.open_stream(
        watch, trust if tls else None, connect_seconds=60, silence_seconds=60
    )
    reading = asyncio.create_task(lines.for_each(lambda line: False))
    slow = asyncio.create_task(send(target="/slow"))
    await asyncio.gather(send(), send())
    await until(lambda: len(site.requests) == 4, "all were sent")
    dials = [asyncio.create_task(send()) for _ in range(4)]
    await asyncio.sleep(0)
    assert connected_to(site.port) >= 4
    await transport.close()
    assert connected_to(site.port) == 0
    assert await reading == 0
    ended = await asyncio.gather(slow, *dials, return_exceptions=True)
    assert all(isinstance(each, OSError) for each in ended), ended
    with pytest.raises(OSError, match="closed"):
        await send()
