"""One HTTP/1.1 connection: it carries one request at a time."""

import asyncio
import math
from typing import Protocol, cast

from kcm_host.client.http.lines import LineStream
from kcm_host.client.http.messages import BadResponse, Response, ResponseReader

#: The part of an error response that is read; a Status is shorter.
MAX_ERROR_BYTES = 1 << 20


class ConnectionLost(ConnectionError):
    """
    The connection ended before the response did.

    `is_unanswered` is True when nothing of the response had arrived.
    """

    def __init__(self, text: str, *, is_unanswered: bool) -> None:
        super().__init__(text)
        self.is_unanswered = is_unanswered


class Owner(Protocol):
    """What a connection tells the transport that it belongs to."""

    def add(self, connection: "HTTPConnection") -> None:
        """Remember a connection that was opened."""

    def schedule(self, deadline: float) -> None:
        """Call `on_deadline` of the connections that are due, at this loop time or before."""

    def remove(self, connection: "HTTPConnection") -> None:
        """Forget a connection, which has ended or belongs to another protocol now."""


class HTTPConnection(asyncio.Protocol):
    """
    One connection, which carries one request at a time.

    A request that fails, is cancelled or is late ends it. `deadline` is the loop time at which
    `on_deadline` ends it: of a request, of the silence of a stream, or of an idle connection.
    """

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._reader = ResponseReader()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._max_bytes = 0
        self._stops_at_head = False
        self._is_unanswered = True
        self._is_lost = False
        self._stream: LineStream | None = None
        self._silence_seconds = 0.0
        self.is_idle = False
        self.deadline = math.inf

    async def round_trip(self, request: bytes, *, deadline: float, max_bytes: int) -> Response:
        """
        Send a request; return its response, of which at most `max_bytes` of the body are read.

        Raise `OSError`; `TimeoutError` when it is not complete at the loop time `deadline`.
        """
        await self._send(request, deadline=deadline, max_bytes=max_bytes)
        return self._take_response()

    async def open_stream(
        self, request: bytes, *, silence_seconds: float
    ) -> tuple[Response, LineStream]:
        """
        Send a request; return the head of its response, and the lines of its body.

        An error response is returned whole, and has no lines. The lines end when nothing arrives
        for `silence_seconds`; before the head that is a `TimeoutError`.
        """
        self._silence_seconds = silence_seconds
        stream = LineStream(self)
        self._stream = stream
        await self._send(request, deadline=self._loop.time() + silence_seconds, max_bytes=0)
        if self._stream is None:
            stream.end()
            # Nobody else would end the connection: an error has no lines that somebody closes.
            self.abort()
            return self._take_response(), stream
        return Response(self._reader.status, raw_headers=self._reader.raw_headers), stream

    async def open_tunnel(self, request: bytes) -> int:
        """Send a CONNECT request; return the status of the response (see `detach`)."""
        self._stops_at_head = True
        await self._send(request, deadline=math.inf, max_bytes=0)
        # The body of a refusal is its explanation.
        if self._reader.size and self._reader.status < 300:
            raise BadResponse("the proxy sent data before it was asked to connect")
        return self._reader.status

    def detach(self) -> asyncio.Transport:
        """Return the transport, for another protocol; this is the end of the connection only."""
        transport, self._transport = self._transport, None
        if transport is None:
            raise ConnectionLost("the connection is closed", is_unanswered=True)
        self._close()
        self._forget()
        return transport

    def abort(self) -> None:
        """
        Close the connection at once, without the close_notify of TLS; may be called again.

        A regular close waits up to 30 s for a peer that may not respond any more.
        """
        self._close()
        if self._transport is not None:
            self._transport.abort()

    def on_deadline(self) -> None:
        """End the connection: its time is over."""
        self._fail(TimeoutError("no response in time"))

    def pause(self) -> None:
        """Stop receiving; the peer has to wait, and its silence is no failure."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
            self.deadline = math.inf

    def resume(self) -> None:
        """Receive again."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
            self.set_deadline(self._loop.time() + self._silence_seconds)

    def set_deadline(self, deadline: float) -> None:
        """Set when the connection ends unless something happens before."""
        self.deadline = deadline
        self._owner.schedule(deadline)

    # What follows is called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to use a transport."""
        # A cast: the transports of aiofastnet have no base class of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        if self._is_lost:
            # Inside of a tunnel, both can happen before the end of the handshake is handled.
            return
        self.is_idle = True
        self._owner.add(self)

    def data_received(self, data: bytes) -> None:
        """Read a part of the response."""
        reader = self._reader
        if self.is_idle:
            self._fail(BadResponse("data came without a request"))
            return
        self._is_unanswered = False
        try:
            reader.feed(data)
        except BadResponse as error:
            self._fail(error)
            return
        if reader.status:
            self._handle_progress(reader)

    def eof_received(self) -> None:
        """Handle that the peer sends no more; the transport is closed by that."""
        self.is_idle = False
        self._reader.finish()
        if self._reader.is_complete:
            self._handle_progress(self._reader)

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the transport."""
        text = str(exc) if exc is not None else "the server closed the connection"
        self._fail(ConnectionLost(text, is_unanswered=self._is_unanswered))
        self._transport = None
        self._is_lost = True
        self._forget()

    def _handle_progress(self, reader: ResponseReader) -> None:
        stream = self._stream
        if stream is not None and reader.status < 300:
            # Only the attribute: a later deadline needs no other timer.
            self.deadline = self._loop.time() + self._silence_seconds
            self._wake()
            parts, reader.parts = reader.parts, []
            stream.feed(parts)
            if reader.is_complete:
                stream.end()
            return
        self._stream = None
        if reader.is_complete or self._stops_at_head or reader.size > self._limit:
            self._wake()

    @property
    def _limit(self) -> int:
        return self._max_bytes if self._reader.status < 300 else MAX_ERROR_BYTES

    async def _send(self, request: bytes, *, deadline: float, max_bytes: int) -> None:
        """Send a request; return when its response, or the head of a stream, has arrived."""
        if not self.is_idle or self._transport is None:
            raise ConnectionLost("the connection is closed", is_unanswered=True)
        self.is_idle = False
        self._is_unanswered = True
        self._max_bytes = max_bytes
        self._reader.start()
        self.set_deadline(deadline)
        self._transport.write(request)
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        except asyncio.CancelledError:
            self.abort()
            raise
        finally:
            self._waiter = None
        self._raise_failure()

    def _raise_failure(self) -> None:
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            # Its traceback refers to this frame: a cycle for the garbage collector.
            del error

    def _take_response(self) -> Response:
        """Return the response that has arrived, and get ready for another request."""
        reader = self._reader
        parts, limit = reader.parts, self._limit
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        is_complete = reader.is_complete and len(body) <= limit
        if reader.is_complete and reader.is_reusable and self._transport is not None:
            self.is_idle = not self._transport.is_closing()
        if not self.is_idle:
            self.abort()
        return Response(reader.status, body[:limit], reader.raw_headers, is_complete=is_complete)

    def _fail(self, error: Exception) -> None:
        # A response that is complete stays so, whatever happens to the connection afterwards.
        if self._waiter is not None and not self._waiter.done():
            self._error = error
            self._waiter.set_result(None)
        self.abort()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _close(self) -> None:
        self.is_idle = False
        self.deadline = math.inf
        if self._stream is not None:
            self._stream.end()

    def _forget(self) -> None:
        """Drop what refers back to this connection: the garbage collector would be late."""
        self._stream = None
        self._reader.close()
        self._owner.remove(self)
