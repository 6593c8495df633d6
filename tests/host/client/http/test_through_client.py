"""What the client of an API server makes of its connections: credentials, watches, their ends."""

import asyncio
from pathlib import Path

import pytest
from host.client.conftest import Authority, Connected, Serve
from host.client.http.conftest import Peer, StartSite, connected_to, until
from host.client.raw_servers import AGENT, get

from kcm_host.api.errors import ApiError, Unreachable, Unreadable
from kcm_host.client.rest import JSON, Client

pytestmark = pytest.mark.usefixtures("layer")


async def test_rotated_credentials(
    serve: Serve, authority: Authority, connected: Connected, tmp_path: Path
) -> None:
    """After the certificate and the token were replaced, no request shows the old ones."""
    server = await serve(clients=True)
    now = [1000.0]

    def put(name: str) -> None:
        authority.issue(name).store(tmp_path)
        (tmp_path / "token").write_text(f"token-of-{name}")

    put("first")
    user = {"client-certificate": "me.crt", "client-key": "me.key", "tokenFile": "token"}
    connection = connected(cluster=server.cluster, user=user, monotonic=lambda: now[0])
    async with Client(connection, lambda _: None) as client:
        for _ in range(2):
            await asyncio.gather(get(client), get(client))
        assert connected_to(server.port) == 2
        put("second-and-longer")
        now[0] += 301
        for _ in range(3):
            await get(client)
            now[0] += 301
        await until(lambda: connected_to(server.port) == 1, "the old connections have ended")
    shown = {(each["certificate"], each["authorization"]) for each in server.seen[4:]}
    assert shown == {("second-and-longer", "Bearer token-of-second-and-longer")}


@pytest.mark.parametrize(
    ("head", "error"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\none\ntwo\n", Unreadable),
        (b"HTTP/1.1 410 Gone\r\nContent-Length: 2\r\n\r\n{}", ApiError),
        (b"HTTP/1.1 500 No\r\n\r\n{}", ApiError),
        (b"<html>", Unreachable),
        (b"", Unreachable),
    ],
    ids=["compressed", "gone", "an error without a length", "a page", "nothing"],
)
async def test_a_watch_that_is_none_leaves_no_connection(
    start_site: StartSite, connected: Connected, head: bytes, error: type[Exception]
) -> None:
    """Each attempt ends its own connection: otherwise they would add up until the host ends."""

    async def speak(peer: Peer) -> None:
        await peer.request()
        peer.say(head)
        if head[9:12] in (b"200", b"410"):
            await peer.reader.read()

    site = await start_site(speak)
    connection = connected(cluster={"server": site.url}, user={"token": "t"})
    async with Client(connection, lambda _: None) as client:
        with pytest.raises(error):
            async with client.watch("/watch", user_agent=AGENT, query=(), accept=JSON):
                raise AssertionError("not reached")
        await until(lambda: connected_to(site.port) == 0, "the socket is closed")


async def test_a_watch_that_nobody_reads_ends_with_its_block(
    start_site: StartSite, connected: Connected
) -> None:
    """Its peer has been waiting, with more lines than fit into all buffers."""

    async def speak(peer: Peer) -> None:
        await peer.request()
        peer.say(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            peer.say(b"x" * 65_535 + b"\n")
            await peer.writer.drain()

    site = await start_site(speak)
    connection = connected(cluster={"server": site.url}, user={"token": "t"})
    async with Client(connection, lambda _: None) as client:
        async with client.watch("/watch", user_agent=AGENT, query=(), accept=JSON) as lines:
            assert await lines.for_each(lambda line: len(line) == 65_535) == 1
        await until(lambda: connected_to(site.port) == 0, "the socket is closed")
