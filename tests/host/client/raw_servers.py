"""Servers and proxies on loopback that answer with any bytes a test likes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from kcm_host.client.auth.connection import Connection
from kcm_host.client.auth.credentials import Credentials, RequestCredentials
from kcm_host.client.rest import Client, user_agent_of

AGENT = user_agent_of("acme")

Speak = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(speak: Speak) -> AsyncIterator[int]:
    """Serve until the end of the block; gives the port. `speak` gets the head of one request."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            await speak(head, writer)
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def saying(answer: bytes) -> Speak:
    """Return a server's part that says the same to everybody."""

    async def speak(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()

    return speak


@asynccontextmanager
async def client_of(speak: Speak) -> AsyncIterator[Client]:
    """Return a client of a server that speaks like this, over plain HTTP."""
    async with listening(speak) as port:
        connection = Connection(
            base_url=f"http://127.0.0.1:{port}",
            origin="a test",
            credentials=Credentials(nobody, initial=RequestCredentials({})),
        )
        async with Client(connection, lambda _: None) as client:
            yield client


async def nobody() -> RequestCredentials:
    """Return the credentials of nobody in particular."""
    return RequestCredentials({})


async def get(client: Client, path: str = "/api/v1/namespaces") -> bytes:
    """Send a GET."""
    return await client.call("GET", path, verb="get", user_agent=AGENT)
