"""A small HTTP server with an event loop and a thread of its own: one request a connection."""

import asyncio
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec

from kcm_host.observe.deduplication import LogOnce
from kcm_host.observe.http_messages import (
    BAD_REQUEST,
    TOO_LARGE,
    Request,
    Response,
    can_begin_request,
    encode,
    end_of_head,
    parse,
    text,
)
from kcm_host.observe.logging import one_line, printable

log = logging.getLogger(__name__)

#: How long a stop waits for responses that clients are slow to read.
STOP_SECONDS = 1.0
#: Time until the next attempt after a connection could not be accepted.
ACCEPT_RETRY_SECONDS = 1.0

Handler = Callable[[Request], Awaitable[Response]]


class Limits(msgspec.Struct, frozen=True):
    """What one client, and all clients together, can use of the server."""

    #: From the first byte of a connection to the last of its response; a scrape has 10 s too.
    request_seconds: float = 10.0
    connections: int = 128
    #: Fewer than all: one machine must leave room for the others.
    connections_per_peer: int = 32
    head_bytes: int = 16 * 1024
    #: What a client may send after the head while it has not read the response.
    trailing_bytes: int = 64 * 1024


LIMITS = Limits()


class OpenConnections:
    """
    The open connections, oldest first; a new one evicts another one beyond the limits.

    A client that opens many and requests nothing can thereby not block a probe, even one from the
    same address: connections without a request are evicted first.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: dict[HttpConnection, None] = {}

    def admit(self, new: "HttpConnection") -> None:
        """Add a connection; another one is aborted when there are too many."""
        same_peer = [one for one in self._open if one.peer == new.peer]
        if len(same_peer) >= self._limits.connections_per_peer:
            self._evict(same_peer)
        elif len(self._open) >= self._limits.connections:
            self._evict(list(self._open))
        self._open[new] = None

    def remove(self, connection: "HttpConnection") -> None:
        """Remove a connection that was lost."""
        self._open.pop(connection, None)

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator["HttpConnection"]:
        return iter(list(self._open))

    def _evict(self, oldest_first: list["HttpConnection"]) -> None:
        # 64 slow connections once closed `/livez` for everybody (F-15).
        evicted = next((one for one in oldest_first if not one.has_request), oldest_first[0])
        self.remove(evicted)
        evicted.abort()


class HttpServer:
    """
    Listens, and calls `handler` for each request.

    The cost of a client is at most one of a limited number of connections for
    `limits.request_seconds`. The loop sleeps until a client connects, and `stop` leaves no thread
    and no socket behind.
    """

    def __init__(
        self,
        family: int,
        address: tuple[str, int],
        handler: Handler,
        *,
        limits: Limits = LIMITS,
    ) -> None:
        self.limits = limits
        self.connections = OpenConnections(limits)
        self._handler = handler
        self._socket = socket.create_server(address, family=family, backlog=limits.connections)
        self._socket.setblocking(False)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._on_loop_exception)
        self._stopping = asyncio.Event()
        self._failures = LogOnce()
        self._opening: set[asyncio.Task[Any]] = set()
        self._accept_failed = False
        # A daemon, so that a client that never reads cannot keep the process.
        self._thread = threading.Thread(target=self._run, name="kcm-host-endpoints", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Close the socket and all connections, and wait for the thread."""
        if self._thread.ident is None:
            self._socket.close()
            self._loop.close()
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    async def respond(self, request: Request) -> Response:
        """Return the response of the handler; 500 when it raises."""
        try:
            return await self._handler(request)
        except Exception as error:
            reason = one_line(error)
            if self._failures.is_new(request.path, reason):
                log.exception("endpoint failed", extra={"kv": {"path": request.path}})
            return text(500, f"this endpoint failed: {printable(reason)}\n")

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            asyncio.set_event_loop(None)
            self._loop.close()

    async def _serve(self) -> None:
        self._start_accepting()
        await self._stopping.wait()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        responses = [one.finished for one in self.connections if one.has_request]
        if responses:
            await asyncio.wait(responses, timeout=STOP_SECONDS)
        # In a loop, because a connection that was just accepted may not be in the set yet.
        while self.connections or len(asyncio.all_tasks()) > 1:
            for connection in self.connections:
                connection.abort()
            await asyncio.sleep(0)

    def _start_accepting(self) -> None:
        if not self._stopping.is_set():
            self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        # Without file descriptors, the server of asyncio retries at once, a hundred times.
        try:
            client, _ = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            self._loop.remove_reader(self._socket)
            self._loop.call_later(ACCEPT_RETRY_SECONDS, self._start_accepting)
            pairs = {"error": one_line(error), "remedy": "raise the limit of open files"}
            level = logging.DEBUG if self._accept_failed else logging.WARNING
            self._accept_failed = True
            log.log(level, "endpoints not accepting connections", extra={"kv": pairs})
            return
        self._accept_failed = False
        client.setblocking(False)
        opening = self._loop.connect_accepted_socket(lambda: HttpConnection(self), client)
        task = self._loop.create_task(opening)
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    @staticmethod
    def _on_loop_exception(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an exception outside of a response at level debug: its client has gone."""
        pairs = {"message": str(context.get("message"))}
        error = context.get("exception")
        log.debug("endpoint connection failed", extra={"kv": pairs}, exc_info=error)


class HttpConnection(asyncio.Protocol):
    """One connection with one request, from its first byte to the end of its response."""

    def __init__(self, server: HttpServer) -> None:
        self.peer = ""
        #: Whether the complete head of the request was received, or refused.
        self.has_request = False
        self._server = server
        self._loop = asyncio.get_running_loop()
        #: Done when the response was handed to the system, or the connection was lost.
        self.finished = self._loop.create_future()
        self._head = bytearray()
        self._trailing_bytes = 0
        self._eof_received = False
        self._responded = False
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the deadline and wait for the request."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.peer = str((transport.get_extra_info("peername") or ("gone",))[0])
        self._deadline = self._loop.call_later(self._server.limits.request_seconds, self.abort)
        self._server.connections.admit(self)

    def data_received(self, data: bytes) -> None:
        """Collect the head of the request, and discard what follows it."""
        limits = self._server.limits
        if self.has_request:
            self._trailing_bytes += len(data)
            if self._trailing_bytes > limits.trailing_bytes:
                self.abort()
            return
        searched = len(self._head)
        # Empty lines before a request are allowed.
        self._head += data if searched else data.lstrip(b"\r\n")
        if not can_begin_request(self._head):
            self._begin_response(BAD_REQUEST)
            return
        end = end_of_head(self._head, searched)
        if max(end, len(self._head) if end < 0 else 0) > limits.head_bytes:
            self._begin_response(TOO_LARGE)
        elif end >= 0:
            self._begin_response(parse(bytes(self._head[:end])))

    def resume_writing(self) -> None:
        """Finish: the buffer of the response is empty."""
        if self._responded:
            self._finish()

    def eof_received(self) -> bool:
        """Keep the connection open until the response is sent, if there was a request."""
        self._eof_received = True
        return self.has_request and not self._responded

    def connection_lost(self, error: Exception | None) -> None:
        """Release the resources of the connection."""
        self._deadline.cancel()
        if self._task is not None:
            self._task.cancel()
        self._server.connections.remove(self)
        self._finish()

    def abort(self) -> None:
        """Close the connection at once, in whatever state."""
        self._transport.abort()

    def _begin_response(self, request: Request | Response) -> None:
        self.has_request = True
        self._head.clear()
        self._task = self._loop.create_task(self._respond(request))

    async def _respond(self, request: Request | Response) -> None:
        if isinstance(request, Response):
            self._send(request, with_body=True)
            return
        response = await self._server.respond(request)
        pairs = {"client": self.peer, "path": request.path, "status": response.status}
        log.debug("endpoint request", extra={"kv": pairs})
        self._send(response, with_body=request.method != "HEAD")

    def _send(self, response: Response, *, with_body: bool) -> None:
        self._responded = True
        # With this limit `resume_writing` is called when the buffer is empty.
        self._transport.set_write_buffer_limits(high=0)
        self._transport.write(encode(response, with_body=with_body))
        if self._transport.get_write_buffer_size() == 0:
            self._finish()
        if self._eof_received:
            self._transport.close()
            return
        # After a close, further data of the client would reset the connection before the client
        # has read the response. The client's EOF closes the connection, or the deadline.
        try:
            self._transport.write_eof()
        except OSError:  # the client has gone already
            self.abort()

    def _finish(self) -> None:
        if not self.finished.done():
            self.finished.set_result(None)
