"""A request that is given up at any turn of the event loop leaves nothing behind."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from host.client.http.conftest import (
    SECONDS,
    MakeTransport,
    Peer,
    Site,
    StartSite,
    connected_to,
    response,
    send,
    tunnel,
    until,
)

from kcm_host.client.http.transport import Request, Transport

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
#: Many more than anything here takes.
MOST_TURNS = 5_000

Use = Callable[[Transport, ssl.SSLContext | None], Awaitable[object]]
GiveUp = Callable[[Transport, asyncio.Task[object]], Awaitable[None]]


@pytest.fixture(autouse=True)
async def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses are found in the same turn: a thread takes any number of them."""

    async def find(host: str, port: int, **_: Any) -> list[Any]:
        family = socket.AF_INET
        return [(family, socket.SOCK_STREAM, 0, "", (host, port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", find)


async def speak(peer: Peer) -> None:
    """Respond with the target, in pieces that arrive in different turns."""
    while request := await peer.request():
        target = request.split(b" ")[1]
        if target.startswith(b"/watch"):
            pieces = [CHUNKED, b"4\r\none\n\r\n", b"4\r\ntwo\n\r\n", b"0\r\n\r\n"]
        else:
            whole = response(target)
            pieces = [whole[:9], whole[9:-3], whole[-3:]]
        for piece in pieces:
            peer.say(piece)
            await peer.writer.drain()
            await asyncio.sleep(0)


async def use_once(transport: Transport, context: ssl.SSLContext | None) -> object:
    """Send a request; on a connection that has to be opened, if there is no other."""
    return await send(transport, target="/given-up", context=context)


async def watch(transport: Transport, context: ssl.SSLContext | None) -> object:
    """Read a stream to its end."""
    request = Request("GET", "/watch", {})
    got, lines = await transport.open_stream(
        request, context, connect_seconds=SECONDS, silence_seconds=SECONDS
    )
    try:
        assert (got.status, await lines.for_each(lambda line: False)) == (200, 2)
    finally:
        lines.close()
    return got


async def cancel(transport: Transport, task: asyncio.Task[object]) -> None:
    """Cancel the task; fail if it takes that for something else."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.shield(task), SECONDS)
    assert task.cancelled()


async def close(transport: Transport, task: asyncio.Task[object]) -> None:
    """Close the client under the task, which fails; or has come so far that it does not."""
    await asyncio.wait_for(transport.close(), SECONDS)
    await asyncio.wait({task}, timeout=SECONDS)
    assert task.done()
    assert task.exception() is None or isinstance(task.exception(), OSError | AssertionError)


async def each_turn(make: Callable[[], Transport], use: Any, give_up: GiveUp) -> int:
    """Begin `use` again and again, and give it up one turn later each time; give their number."""
    for turns in range(MOST_TURNS):
        task = asyncio.ensure_future(use(make()))
        for _ in range(turns):
            await asyncio.sleep(0)
        if task.done():
            await task
            return turns
        await give_up(make(), task)
    raise AssertionError("it never completes")


@pytest.fixture(params=["plain", "TLS", "TLS through a proxy"])
async def site(
    request: pytest.FixtureRequest, start_site: StartSite, layer: str
) -> tuple[Site, dict[str, Any]]:
    """Return a server, and what is needed to reach it."""
    site = await start_site(speak, tls=request.param != "plain")
    if request.param != "TLS through a proxy":
        return site, {}
    proxy = await start_site(tunnel)
    return site, {"proxy_url": proxy.url}


@pytest.mark.parametrize("is_reused", [False, True], ids=["new", "reused"])
@pytest.mark.parametrize("use", [use_once, watch])
async def test_cancelled_at_each_turn(
    site: tuple[Site, dict[str, Any]],
    transport_to: MakeTransport,
    trust: ssl.SSLContext,
    use: Use,
    *,
    is_reused: bool,
) -> None:
    """No hang, no socket that stays, and the next request has its own response."""
    server, options = site
    transport = transport_to(server.url, **options)

    async def use_it(transport: Transport) -> object:
        return await use(transport, trust)

    async def cancel_it(transport: Transport, task: asyncio.Task[object]) -> None:
        await cancel(transport, task)
        assert len(transport._connections) <= 1 + is_reused
        await until(lambda: len(transport._connections) <= 1, "the connection has ended")
        if is_reused:
            assert (await send(transport, target="/next", context=trust)).body == b"/next"

    if is_reused:
        await send(transport, context=trust)
    turns = await each_turn(lambda: transport, use_it, cancel_it)
    assert turns > 3
    assert (await send(transport, target="/next", context=trust)).body == b"/next"
    await until(lambda: connected_to(int(server.port)) <= 1, "the sockets are closed")


@pytest.mark.parametrize("use", [use_once, watch])
async def test_closed_at_each_turn(
    site: tuple[Site, dict[str, Any]],
    trust: ssl.SSLContext,
    use: Use,
) -> None:
    """The end of the client ends what is in flight, and waits for the sockets."""
    server, options = site
    made: list[Transport] = []

    async def use_it(transport: Transport) -> object:
        return await use(transport, trust)

    async def close_it(transport: Transport, task: asyncio.Task[object]) -> None:
        await close(transport, task)
        if not options:
            assert connected_to(server.port) == 0
        made.clear()

    def make() -> Transport:
        if not made:
            made.append(Transport(server.url, **options))
        return made[0]

    assert await each_turn(make, use_it, close_it) > 3
    await made[0].close()
