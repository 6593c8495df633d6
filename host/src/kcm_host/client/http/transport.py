"""The connections to one server: which one a request uses, what is sent twice, when they end."""

import asyncio
import math
import ssl
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

import msgspec

from kcm_host.client.http.connection import ConnectionLost, HTTPConnection
from kcm_host.client.http.dialer import Dialer
from kcm_host.client.http.lines import LineStream
from kcm_host.client.http.messages import Response, encode_request

#: API servers close a connection that was idle for 90 s. It is closed here before, so that no
#: request meets that end.
IDLE_SECONDS = 75.0
#: What is sent once more when a reused connection ends before anything of the response has
#: arrived: the server has closed it meanwhile, or died. A POST or PATCH may have been done.
REPEATABLE_METHODS = frozenset({"GET", "PUT", "DELETE"})


class Request(msgspec.Struct, frozen=True):
    """A request; `target` is its encoded path and query."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""


class Transport:
    """
    The connections to one server.

    The most recent idle connection is used first: those that a burst has opened stay idle
    afterwards and are closed in time. In turn, each would be used often enough to stay open, at a
    quarter of a megabyte each. Their number has no limit: the number of workers is one.
    """

    def __init__(
        self,
        base_url: str,
        *,
        proxy_url: str | None = None,
        proxy_headers: Mapping[str, str] | None = None,
        tls_server_name: str | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        login = proxy_headers or {}
        self._dialer = Dialer(
            base_url, proxy_url=proxy_url, proxy_headers=login, tls_server_name=tls_server_name
        )
        self._headers = {"Host": self._dialer.address.authority}
        self._prefix = quote(urlsplit(base_url).path, safe="/%:@!$&'()*+,;=~")
        if self._dialer.uses_plain_proxy:
            # It reads and forwards the request, so it needs the whole URL, and its own login.
            self._prefix = f"http://{self._dialer.address.authority}{self._prefix}"
            self._headers.update(login)
        self._connections: set[HTTPConnection] = set()
        #: The most recent one is the last.
        self._idle: list[HTTPConnection] = []
        self._context: ssl.SSLContext | None = None
        self._dials: set[asyncio.Timeout] = set()
        self._is_closed = False
        self._all_ended = asyncio.Event()
        self._all_ended.set()
        # One timer for all connections: nearly all requests end long before it fires, and a timer
        # for each would cost 2 % of a request.
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf

    async def round_trip(
        self, request: Request, context: ssl.SSLContext | None, *, seconds: float, max_bytes: int
    ) -> Response:
        """
        Send a request; return its response, of which at most `max_bytes` of the body are read.

        Raise `OSError`; `TimeoutError` when the response is not complete after `seconds`.
        """
        deadline = self._loop.time() + seconds
        message = self._encode(request)
        connection = self._reusable(context)
        if connection is not None:
            try:
                response = await connection.round_trip(
                    message, deadline=deadline, max_bytes=max_bytes
                )
            except ConnectionLost as lost:
                if not lost.is_unanswered or request.method not in REPEATABLE_METHODS:
                    raise
            else:
                self._keep(connection, context)
                return response
        connection = await self._dial(context, deadline)
        response = await connection.round_trip(message, deadline=deadline, max_bytes=max_bytes)
        self._keep(connection, context)
        return response

    async def open_stream(
        self,
        request: Request,
        context: ssl.SSLContext | None,
        *,
        connect_seconds: float,
        silence_seconds: float,
    ) -> tuple[Response, LineStream]:
        """
        Send a request on a connection of its own; return the response and the lines of its body.

        The body of an error response is in the response. The caller closes the stream. Raise
        `OSError`; `TimeoutError` when the server is silent for `silence_seconds`.
        """
        now = self._loop.time()
        connection = await self._dial(context, now + connect_seconds)
        return await connection.open_stream(self._encode(request), silence_seconds=silence_seconds)

    async def close(self) -> None:
        """Abort all connections, also those being opened; return when their sockets are closed."""
        self._is_closed = True
        for connection in list(self._connections):
            connection.abort()
        for limit in self._dials:
            limit.reschedule(self._loop.time())
        await self._all_ended.wait()
        if self._timer is not None:
            self._timer.cancel()

    # What follows is called by the connections.

    def add(self, connection: HTTPConnection) -> None:
        """Remember a connection that was opened."""
        self._connections.add(connection)
        self._all_ended.clear()
        if self._is_closed:
            # Not here: aiofastnet begins to watch a socket after `connection_made`, also that of
            # a transport which was aborted in it, and the next socket of that number would fail.
            self._loop.call_soon(connection.abort)

    def remove(self, connection: HTTPConnection) -> None:
        """Forget a connection, which has ended or belongs to another protocol now."""
        self._connections.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._note_end()

    def schedule(self, deadline: float) -> None:
        """Call `on_deadline` of the connections that are due, at this loop time or before."""
        if deadline < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = deadline
            self._timer = self._loop.call_at(deadline, self._on_timer)

    def _on_timer(self) -> None:
        self._timer, self._timer_at = None, math.inf
        now = self._loop.time()
        for connection in [each for each in self._connections if each.deadline <= now]:
            connection.on_deadline()
        self.schedule(min((each.deadline for each in self._connections), default=math.inf))

    def _encode(self, request: Request) -> bytes:
        return encode_request(
            request.method,
            self._prefix + request.target,
            headers={**self._headers, **request.headers},
            body=request.body,
        )

    def _reusable(self, context: ssl.SSLContext | None) -> HTTPConnection | None:
        """Return an idle connection; end those with another client certificate."""
        if context is not self._context:
            idle, self._idle, self._context = self._idle, [], context
            for connection in idle:
                connection.abort()
        while self._idle:
            connection = self._idle.pop()
            # Another one has ended in this turn of the loop; a POST need not fail because of it.
            if connection.is_idle:
                return connection
        return None

    def _keep(self, connection: HTTPConnection, context: ssl.SSLContext | None) -> None:
        if not connection.is_idle:
            return
        if context is not self._context:
            connection.abort()
            return
        connection.set_deadline(self._loop.time() + IDLE_SECONDS)
        self._idle.append(connection)

    async def _dial(self, context: ssl.SSLContext | None, deadline: float) -> HTTPConnection:
        if self._is_closed:
            raise ConnectionError("the client is closed")
        async with asyncio.timeout_at(deadline) as limit:
            self._dials.add(limit)
            self._all_ended.clear()
            try:
                return await self._dialer.dial(self, context)
            finally:
                self._dials.remove(limit)
                self._note_end()

    def _note_end(self) -> None:
        if not self._connections and not self._dials:
            self._all_ended.set()
