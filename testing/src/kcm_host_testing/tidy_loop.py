"""An event loop that can end every connection it opened, at once."""

import asyncio
from typing import Any


class TidyLoop(asyncio.SelectorEventLoop):
    """
    Remembers the connections it opened.

    A TLS connection that is closed says goodbye in the background and waits for the other side;
    a loop that ends meanwhile leaves it open, and the warning appears in whatever test runs
    when the garbage is collected.
    """

    def __init__(self) -> None:
        super().__init__()
        self._opened: list[asyncio.Transport] = []

    async def create_connection(self, *args: Any, **options: Any) -> Any:
        """Open a connection as every loop does."""
        transport, protocol = await super().create_connection(*args, **options)
        self._opened.append(transport)
        return transport, protocol

    async def abort_all(self) -> None:
        """Close every connection without a goodbye; returns when the sockets are closed."""
        for transport in self._opened:
            transport.abort()
        self._opened.clear()
        # One turn for TLS to let go of its socket, one for the socket to be closed.
        for _ in range(3):
            await asyncio.sleep(0)
