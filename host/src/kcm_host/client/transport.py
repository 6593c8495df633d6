"""The connections below the client: their pool, their errors, and the lines of a watch."""

import errno
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import aiohttp

from kcm_host.api.errors import ApiError, Unreachable
from kcm_host.client.errors import without_secrets


class ConnectionPool(aiohttp.TCPConnector):
    """
    A pool that reuses the most recent connection, and aborts all connections when it is closed.

    Last in, first out: connections that a burst has opened stay idle afterwards and are closed in
    time. In turn, each would be used often enough to stay open, at a quarter of a megabyte each.

    The connection of a cancelled request is closed with close_notify, in the background and for
    up to 30 s if the peer does not respond. aiohttp's own pool does not close such connections.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # Weak: a connection that ends by itself must be freed, as each has a buffer of 256 KiB.
        self._transports: WeakSet[Any] = WeakSet()

    async def connect(self, *request: Any, **options: Any) -> Any:
        """Return a connection for a request."""
        connection = await super().connect(*request, **options)
        self._transports.add(connection.transport)
        return connection

    def _release(self, key: Any, *released: Any, **options: Any) -> None:
        super()._release(key, *released, **options)
        # aiohttp takes the next connection from the left, and has put this one to the right.
        if idle := self._conns.get(key):
            idle.rotate(1)

    async def close(self, *, abort_ssl: bool = False) -> None:
        """Abort all connections; their sockets are closed in the next turn of the event loop."""
        for transport in self._transports:
            transport.abort()
        await super().close(abort_ssl=abort_ssl)


#: Far more than any object of an API server: etcd refuses more than 1.5 MiB by default, and JSON
#: multiplies that by six at worst.
MAX_LINE_BYTES = 64 * 1024 * 1024


async def read_lines(read: Callable[[], Awaitable[bytes]], operation: str) -> AsyncIterator[bytes]:
    """
    Yield the complete lines of the chunks that `read` returns, until it returns an empty one.

    A connection that is cut or times out ends the lines like a normal end (IQ-117); an incomplete
    line is dropped, since the next watch sends it again. Raise `ApiError`, with the name of the
    `operation`, when a line is longer than `MAX_LINE_BYTES`.
    """
    incomplete = bytearray()
    while True:
        try:
            chunk = await read()
        except (aiohttp.ClientError, OSError, TimeoutError):
            return
        if not chunk:
            return
        # Each byte is split once. To search the joined text again for each chunk took 41 s of the
        # loop for a line of 200 MiB (F-25).
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            if incomplete:
                incomplete += line
                yield bytes(incomplete)
                incomplete.clear()
            else:
                yield line
        incomplete += rest
        # Without a bound, a server or a proxy that sends no line end fills the memory (F-25).
        if len(incomplete) > MAX_LINE_BYTES:
            raise ApiError(
                f"{operation}: a line has no end after {MAX_LINE_BYTES >> 20} MiB, so no API "
                "server sent it; check what is between the host and the server",
                status=500,
            )


def new_session(timeout: aiohttp.ClientTimeout) -> aiohttp.ClientSession:
    """Return a session with a pool of its own."""
    return aiohttp.ClientSession(
        # No limit of the pool: the number of workers is one, and a request that waits for a
        # connection would be counted as a slow server. 90 s as the default transport of Go.
        connector=ConnectionPool(limit=0, keepalive_timeout=90),
        timeout=timeout,
        # See `refuse_encoded`. The automatic headers would ask for compression, which costs more
        # CPU than it saves on the network of a cluster (H-31).
        auto_decompress=False,
        skip_auto_headers=("Accept-Encoding", "User-Agent", "Content-Type"),
        cookie_jar=aiohttp.DummyCookieJar(),
    )


def abort(response: aiohttp.ClientResponse) -> None:
    """Close the connection of an unfinished response without sending close_notify."""
    transport = response.connection.transport if response.connection is not None else None
    if transport is not None:
        # A regular close waits up to 30 s for a peer that may not respond any more.
        transport.abort()


@contextmanager
def as_unreachable(operation: str) -> Iterator[None]:
    """Raise `Unreachable` in place of all errors that mean that no response came."""
    try:
        yield
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
        refused = isinstance(cause, OSError) and cause.errno == errno.ECONNREFUSED
        # Whether it was refused is kept apart from the text: only then is it certain that nothing
        # has been done, and a reflector need not list again (IQ-24).
        text = f"{operation}: no response: {_text_of(error)}"
        raise Unreachable(text, refused=refused) from error


def _text_of(error: Exception) -> str:
    """Return the text of a connection error without the password of a proxy."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy refuses to connect ({error.status})"
    if isinstance(error, aiohttp.ClientConnectorError):
        # The text of aiohttp includes the repr of the TLS context.
        fact = error.os_error.strerror or str(error.os_error) or type(error.os_error).__name__
        return f"cannot connect to {error.host}:{error.port}: {fact}"
    return without_secrets(str(error)) or type(error).__name__
