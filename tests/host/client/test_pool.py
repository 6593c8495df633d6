"""What a closed client leaves behind: nothing, even where the server answers no goodbye."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from host.client.conftest import Authority

from kcm_host.client.auth.connection import Connection
from kcm_host.client.auth.credentials import Credentials, RequestCredentials
from kcm_host.client.rest import Client, user_agent_of

SECONDS = 60.0
BURST = 5


class SilentServer:
    """Takes one TLS connection, reads the request, begins the answer if told so, then is silent."""

    def __init__(self, context: ssl.SSLContext, answer: bytes) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._context = context
        self._answer = answer
        self.taken: socket.socket | None = None
        self.asked = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"https://127.0.0.1:{self._listener.getsockname()[1]}"

    def _serve(self) -> None:
        self._listener.settimeout(SECONDS)
        spoken = self._context.wrap_socket(self._listener.accept()[0], server_side=True)
        spoken.recv(2**16)
        spoken.sendall(self._answer)
        # From here on nobody understands TLS: a goodbye stays without an answer.
        self.taken = socket.socket(fileno=spoken.detach())
        self.asked.set()

    def wait_until_left(self) -> None:
        """Return when the client has closed the connection; `TimeoutError` otherwise."""
        assert self.taken is not None
        self.taken.settimeout(SECONDS)
        with suppress(ConnectionResetError):
            while self.taken.recv(2**16):
                pass

    def stop(self) -> None:
        """Close all sockets."""
        self._listener.close()
        self._thread.join()
        if self.taken is not None:
            self.taken.close()


@pytest.fixture
def silent(tmp_path: Path, authority: Authority) -> Iterator[Callable[[bytes], SilentServer]]:
    """Start servers that fall silent after some bytes."""
    context = authority.issue("api server").server(tmp_path)
    started: list[SilentServer] = []

    def start(answer: bytes) -> SilentServer:
        started.append(SilentServer(context, answer))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"],
    ids=["before the answer", "in the midst of it"],
)
def test_a_call_that_is_given_up_leaves_no_connection(
    silent: Callable[[bytes], SilentServer], authority: Authority, answer: bytes
) -> None:
    """The end of a client closes what a cancelled call would close politely, half a minute on."""
    server = silent(answer)
    trust = ssl.create_default_context(cadata=authority.pem)

    async def trusting() -> RequestCredentials:
        return RequestCredentials({}, trust)

    async def give_up() -> None:
        connection = Connection(
            base_url=server.url, origin="a test", credentials=Credentials(trusting)
        )
        async with Client(connection, lambda record: None) as client:
            call = asyncio.create_task(
                client.call("GET", "/", verb="get", user_agent=user_agent_of("acme"))
            )
            assert await asyncio.to_thread(server.asked.wait, SECONDS)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

    asyncio.run(give_up())
    server.wait_until_left()


def test_after_a_burst_one_connection_is_enough() -> None:
    """Calls one after the other use one connection, the others grow old."""
    peers: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, EOFError):
            while await reader.readuntil(b"\r\n\r\n"):
                peers.append(writer.get_extra_info("peername")[1])
                if len(set(peers)) == BURST:
                    together.set()
                await together.wait()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    async def nobody() -> RequestCredentials:
        return RequestCredentials({})

    async def calls() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        connection = Connection(
            base_url=f"http://127.0.0.1:{port}", origin="a test", credentials=Credentials(nobody)
        )
        async with server, Client(connection, lambda record: None) as client:

            async def call() -> None:
                await client.call("GET", "/", verb="get", user_agent=user_agent_of("acme"))

            await asyncio.gather(*(call() for _ in range(BURST)))
            peers.clear()
            for _ in range(3 * BURST):
                await call()

    together = asyncio.Event()
    asyncio.run(calls())
    assert len(set(peers)) == 1
