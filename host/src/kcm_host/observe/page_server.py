"""A small HTTP server in threads of its own: a page for a path, for GET and HEAD alone."""

import logging
import selectors
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import TCPServer
from typing import Any
from urllib.parse import SplitResult, urlsplit

from kcm_host.observe.answers import Answer, text
from kcm_host.observe.lines import one_line
from kcm_host.observe.log import OncePerFact

log = logging.getLogger(__name__)

#: For how long a client may be silent before its connection is closed.
CLIENT_SECONDS = 5.0
#: For how long a stop waits for one answer that a client is slow to take.
LAST_SECONDS = 1.0
#: Connections beyond this many are closed at once; probes and a scraper need three.
CONNECTIONS = 64

Respond = Callable[[SplitResult], Answer]


class PageHandler(BaseHTTPRequestHandler):
    """One connection with one request."""

    protocol_version = "HTTP/1.1"
    server_version = "kcm-host"
    sys_version = ""
    timeout = CLIENT_SECONDS
    server: "PageServer"

    def parse_request(self) -> bool:
        """Refuse what is neither GET nor HEAD; whether the request goes on."""
        if not super().parse_request():
            return False
        # Idle kept-alive connections would each hold a thread, and hold up the stop.
        self.close_connection = True
        if self.command in {"GET", "HEAD"}:
            return True
        self._send(text(405, "only GET and HEAD are answered here\n"))
        return False

    def do_GET(self) -> None:
        """Answer with a page."""
        self._send(self._answer())

    def do_HEAD(self) -> None:
        """Answer with the head of a page."""
        self._send(self._answer())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Log requests and their mishaps where only somebody who looks for them sees them."""
        pairs = {"client": self.client_address[0], "message": format % args}
        log.debug("page request", extra={"kv": pairs})

    def _answer(self) -> Answer:
        try:
            return self.server.respond(urlsplit(self.path))
        except Exception as error:
            fact = one_line(error)
            if self.server.failures.say(urlsplit(self.path).path, fact):
                log.exception("page failed", extra={"kv": {"path": self.path}})
            return text(500, f"this page failed: {fact}\n")

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-cache, private")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Connection", "close")
        if answer.status == 405:
            self.send_header("Allow", "GET, HEAD")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)


class PageServer(HTTPServer):
    """
    Listens, and answers each connection in a thread of its own.

    It sleeps until a client comes (the standard library's own loop wakes twice a second), and
    `stop` leaves no thread and no socket behind.
    """

    allow_reuse_port = False

    def __init__(self, family: int, address: tuple[str, int], respond: Respond) -> None:
        self.address_family = family
        self.respond = respond
        self.failures = OncePerFact()
        self._clients: dict[threading.Thread, socket.socket] = {}
        self._waker, self._wake = socket.socketpair()
        self._thread = threading.Thread(target=self._listen, name="kcm-host-pages", daemon=True)
        try:
            super().__init__(address, PageHandler)
        except OSError:
            self._close_pair()
            raise
        self.timeout = 0
        # A client that is gone again before it is accepted must not hold up the others.
        self.socket.setblocking(False)

    def server_bind(self) -> None:
        """Bind without asking a name server for the own name, which may take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]  # always text here

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Close the socket and every connection, and wait for all threads."""
        self._wake.close()
        if self._thread.ident is not None:
            self._thread.join()
        self.server_close()
        # Who has not asked yet is cut off; answers that are on their way get a moment.
        clients = list(self._clients.items())
        for how, seconds in ((socket.SHUT_RD, LAST_SECONDS), (socket.SHUT_RDWR, None)):
            for thread, client in clients:
                if thread.is_alive():
                    _cut(client, how)
                    thread.join(seconds)
        self._waker.close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer one connection in a new thread."""
        if len(self._clients) >= CONNECTIONS:
            self.shutdown_request(request)
            return
        thread = threading.Thread(
            target=self._serve, args=(request, client_address), name="kcm-host-page", daemon=True
        )
        self._clients[thread] = request
        try:
            thread.start()
        except RuntimeError:  # no more threads to be had
            del self._clients[thread]
            raise

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a connection that broke; the page was for somebody who has gone."""
        pairs = {"client": client_address[0]}
        log.debug("page request broke", extra={"kv": pairs}, exc_info=True)  # noqa: LOG014 - called while the error is handled

    def _serve(self, request: Any, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except Exception:  # noqa: BLE001 - one connection must not end another
            self.handle_error(request, client_address)
        finally:
            self.shutdown_request(request)
            self._clients.pop(threading.current_thread(), None)

    def _listen(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self, selectors.EVENT_READ)
            selector.register(self._waker, selectors.EVENT_READ)
            while not any(key.fileobj is self._waker for key, _ in selector.select()):
                self.handle_request()

    def _close_pair(self) -> None:
        self._waker.close()
        self._wake.close()


def _cut(client: socket.socket, how: int) -> None:
    try:
        client.shutdown(how)
    except OSError:  # it has gone already
        return
