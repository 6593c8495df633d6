"""A small HTTP server with an event loop and a thread of its own: one request a connection."""

import asyncio
import logging
import socket
import threading
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

from kcm_host.observe.escaping import printable
from kcm_host.observe.http_messages import (
    BAD_REQUEST,
    METHODS,
    TOO_LARGE,
    Answer,
    Request,
    begins_a_request,
    end_of_head,
    parse,
    text,
)
from kcm_host.observe.logging import OncePerFact, one_line

log = logging.getLogger(__name__)

#: From the first byte of a connection to the last of its answer; a scrape gives up after 10 s too.
REQUEST_SECONDS = 10.0
#: For how long a stop waits for answers that clients are slow to take.
LAST_SECONDS = 1.0
#: Until the next try after a connection could not be accepted.
PAUSE_SECONDS = 1.0
#: Connections at a time, in all and of one address. Beyond that the oldest makes room, so that
#: nobody who opens many and asks nothing keeps a probe out, even from the probe's own address.
CONNECTIONS = 128
CONNECTIONS_OF_PEER = 32
LONGEST_HEAD = 16 * 1024
#: What a client may send beyond its head, while it has not read the answer.
LONGEST_DEBOUNCE = 64 * 1024

Respond = Callable[[Request], Awaitable[Answer]]


class HttpServer:
    """
    Listens, and answers what `respond` says to each request.

    Nothing that a client does or leaves undone costs more than one of a bounded number of
    connections for `request_seconds`. The loop sleeps until a client comes, and `stop` leaves no
    thread and no socket behind.
    """

    def __init__(
        self,
        family: int,
        address: tuple[str, int],
        respond: Respond,
        *,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        self.respond = respond
        self.request_seconds = request_seconds
        self._socket = socket.create_server(address, family=family, backlog=CONNECTIONS)
        self._socket.setblocking(False)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._in_trouble)
        self._stopping = asyncio.Event()
        self._open: dict[HttpConnection, None] = {}
        self._failures = OncePerFact()
        self._opening: set[asyncio.Task[Any]] = set()
        self._accepts = True
        self._thread = threading.Thread(target=self._run, name="kcm-host-pages", daemon=True)

    @property
    def connections(self) -> int:
        """How many connections there are."""
        return len(self._open)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Close the socket and every connection, and wait for the thread."""
        if self._thread.ident is None:
            self._socket.close()
            self._loop.close()
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def admit(self, new: "HttpConnection") -> None:
        """Count a new connection; another one makes room for it when there are too many."""
        of_peer = [one for one in self._open if one.peer == new.peer]
        if len(of_peer) >= CONNECTIONS_OF_PEER:
            self._make_room(of_peer)
        elif len(self._open) >= CONNECTIONS:
            self._make_room(list(self._open))
        self._open[new] = None

    def forget(self, one: "HttpConnection") -> None:
        """Take a connection as over."""
        self._open.pop(one, None)

    async def answer(self, request: Request) -> Answer:
        """Return the page that was asked for; a page that fails says so."""
        try:
            return await self.respond(request)
        except Exception as error:
            fact = one_line(error)
            if self._failures.say(request.path, fact):
                log.exception("page failed", extra={"kv": {"path": request.path}})
            return text(500, f"this page failed: {printable(fact)}\n")

    def _make_room(self, oldest_first: list["HttpConnection"]) -> None:
        silent = next((one for one in oldest_first if not one.asked), oldest_first[0])
        self.forget(silent)
        silent.cut()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            asyncio.set_event_loop(None)
            self._loop.close()

    async def _serve(self) -> None:
        self._accept_from_now()
        await self._stopping.wait()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        # Answers that are on their way get a moment.
        waits = [one.finished for one in self._open if one.asked]
        if waits:
            await asyncio.wait(waits, timeout=LAST_SECONDS)
        while self._open or len(asyncio.all_tasks()) > 1:
            for one in list(self._open):
                one.cut()
            await asyncio.sleep(0)

    def _accept_from_now(self) -> None:
        if not self._stopping.is_set():
            self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        # Not the server of asyncio: out of descriptors, it tries again at once, a hundred times.
        try:
            client, _ = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            self._loop.remove_reader(self._socket)
            self._loop.call_later(PAUSE_SECONDS, self._accept_from_now)
            pairs = {"error": one_line(error), "remedy": "raise the limit of open files"}
            level = logging.WARNING if self._accepts else logging.DEBUG
            self._accepts = False
            log.log(level, "pages cannot accept connections", extra={"kv": pairs})
            return
        self._accepts = True
        client.setblocking(False)
        opening = self._loop.connect_accepted_socket(lambda: HttpConnection(self), client)
        task = self._loop.create_task(opening)
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    @staticmethod
    def _in_trouble(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log what went wrong outside of an answer; the page was for somebody who has gone."""
        pairs = {"message": str(context.get("message"))}
        log.debug("page connection broke", extra={"kv": pairs}, exc_info=context.get("exception"))


class HttpConnection(asyncio.Protocol):
    """One connection with one request, from its first byte to the end of its answer."""

    def __init__(self, server: HttpServer) -> None:
        self.peer = ""
        #: Whether the whole head of the request has come.
        self.asked = False
        self._server = server
        self._loop = asyncio.get_running_loop()
        #: Done when the answer has been handed to the system, or nobody is left to take it.
        self.finished = self._loop.create_future()
        self._received = bytearray()
        self._rest = 0
        self._ended = False
        self._answered = False
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the request, until the deadline at the latest."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.peer = str((transport.get_extra_info("peername") or ("gone",))[0])
        self._deadline = self._loop.call_later(self._server.request_seconds, self.cut)
        self._server.admit(self)

    def data_received(self, data: bytes) -> None:
        """Collect the head of the request, and drop what comes after it."""
        if self.asked:
            self._rest += len(data)
            if self._rest > LONGEST_DEBOUNCE:
                self.cut()
            return
        seen = len(self._received)
        # Empty lines before a request are allowed.
        self._received += data if seen else data.lstrip(b"\r\n")
        if not begins_a_request(self._received):
            self._begin(BAD_REQUEST)
            return
        end = end_of_head(self._received, seen)
        if max(end, len(self._received) if end < 0 else 0) > LONGEST_HEAD:
            self._begin(TOO_LARGE)
        elif end >= 0:
            self._begin(parse(bytes(self._received[:end])))

    def resume_writing(self) -> None:
        """Take the answer as sent: the last of it has left the buffer."""
        if self._answered:
            self._finish()

    def eof_received(self) -> bool:
        """Keep the connection until the answer is sent, if somebody waits for one."""
        self._ended = True
        return self.asked and not self._answered

    def connection_lost(self, error: Exception | None) -> None:
        """Release what the connection had."""
        self._deadline.cancel()
        if self._task is not None:
            self._task.cancel()
        self._server.forget(self)
        self._finish()

    def cut(self) -> None:
        """Close the connection at once, whatever it was at."""
        self._transport.abort()

    def _begin(self, asked: Request | Answer) -> None:
        self.asked = True
        self._received.clear()
        self._task = self._loop.create_task(self._answer(asked))

    async def _answer(self, asked: Request | Answer) -> None:
        if isinstance(asked, Answer):
            self._send(asked, with_body=True)
        else:
            answer = await self._server.answer(asked)
            pairs = {"client": self.peer, "path": asked.path, "status": answer.status}
            log.debug("page request", extra={"kv": pairs})
            self._send(answer, with_body=asked.method != "HEAD")

    def _send(self, answer: Answer, *, with_body: bool) -> None:
        self._answered = True
        # So that `resume_writing` tells when nothing is left of the answer.
        self._transport.set_write_buffer_limits(high=0)
        self._transport.write(head_of(answer) + (answer.body if with_body else b""))
        if self._transport.get_write_buffer_size() == 0:
            self._finish()
        if self._ended:
            self._transport.close()
            return
        # Closed at once, what the client still sends would reset the connection before it has read
        # the answer. Its own end closes it, or the deadline.
        try:
            self._transport.write_eof()
        except OSError:  # the client has gone already
            self.cut()

    def _finish(self) -> None:
        if not self.finished.done():
            self.finished.set_result(None)


def head_of(answer: Answer) -> bytes:
    """Return the status line and the header fields of an answer."""
    fields = {
        "Server": "kcm-host",
        "Date": formatdate(usegmt=True),
        "Content-Type": answer.content_type,
        "Content-Length": str(len(answer.body)),
        "Cache-Control": "no-cache, private",
        "X-Content-Type-Options": "nosniff",
        "Connection": "close",
    }
    if answer.status == HTTPStatus.METHOD_NOT_ALLOWED:
        fields["Allow"] = ", ".join(sorted(METHODS))
    lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
