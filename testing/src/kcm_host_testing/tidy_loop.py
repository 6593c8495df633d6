"""An event loop that ends with every connection it opened."""

import asyncio
from typing import Any
from weakref import WeakSet


class TidyLoop(asyncio.SelectorEventLoop):
    """
    Closes the connections it opened when it is closed itself.

    A TLS connection that is closed sends close_notify in the background and waits for the peer;
    a loop that ends meanwhile leaves it open, and the warning appears in whatever test runs
    when the garbage is collected.
    """

    def __init__(self) -> None:
        super().__init__()
        self._opened: WeakSet[asyncio.Transport] = WeakSet()

    async def create_connection(self, *args: Any, **options: Any) -> Any:
        """Open a connection as every loop does."""
        transport, protocol = await super().create_connection(*args, **options)
        self._opened.add(transport)
        return transport, protocol

    def close(self) -> None:
        """Abort every connection without close_notify, then close the loop."""
        if not self.is_closed():
            self.run_until_complete(self._abort_all())
        super().close()

    async def _abort_all(self) -> None:
        for transport in self._opened:
            transport.abort()
        # One turn for TLS to let go of its socket, one for the socket to be closed.
        for _ in range(3):
            await asyncio.sleep(0)
