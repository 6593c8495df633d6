"""A pool of connections whose end leaves none open."""

from typing import Any
from weakref import WeakSet

import aiohttp


class Pool(aiohttp.TCPConnector):
    """
    Keeps connections for the next request, and ends every one of them when it is closed.

    The one that was used last is used next: of those that a burst has opened, the others are idle
    from then on and closed in time. In turn, each would be used often enough to live for ever, at
    a quarter of a megabyte each.

    A call that is given up closes its connection with the goodbye of TLS, in the background and
    for up to 30 s where the other side is silent. The library's own pool knows no more of it.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._transports: WeakSet[Any] = WeakSet()

    async def connect(self, *request: Any, **options: Any) -> Any:
        """Give a connection for a request, as every pool does."""
        connection = await super().connect(*request, **options)
        self._transports.add(connection.transport)
        return connection

    def _release(self, key: Any, *released: Any, **options: Any) -> None:
        super()._release(key, *released, **options)
        # The library takes the next one from the left, and has just put this one to the right.
        if idle := self._conns.get(key):
            idle.rotate(1)

    async def close(self, *, abort_ssl: bool = False) -> None:
        """End all connections at once; their sockets are closed in the loop's next turn."""
        for transport in self._transports:
            transport.abort()
        await super().close(abort_ssl=abort_ssl)
