"""The HTTP pages: health, readiness, status and metrics, answered beside the event loop."""

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Protocol

from kcm_host.api.states import HostState
from kcm_host.observe import http_messages
from kcm_host.observe.http_messages import Answer, Request, text
from kcm_host.observe.http_server import REQUEST_SECONDS, HttpServer
from kcm_host.observe.loop_bridge import LoopBridge, NoReply
from kcm_host.observe.metrics import Metrics
from kcm_host.observe.plugin_metrics import Offers, Told
from kcm_host.observe.watchdog import Watchdog

PATIENCE_SECONDS = 2.0
#: A stall as long as this is not going to end; whoever probes `/livez` may restart the host.
DEAD_SECONDS = 30.0
FACTS = {
    errno.EADDRINUSE: "it is in use",
    errno.EACCES: "this user may not use that port",
    errno.EADDRNOTAVAIL: "no interface of this machine has that address",
}


class StateOf(Protocol):
    """Gives the state of the host."""

    def __call__(self, *, with_status: bool) -> HostState:
        """Return the state at this moment; see `Host.state`."""


class AddressUnusable(Exception):
    """The pages cannot be served at the configured address."""


class Endpoints:
    """
    `/livez`, `/readyz`, `/status` and `/metrics` at one address, in a thread of their own.

    The thread is why `/livez` still answers while a plugin blocks the event loop, and why it
    can turn 500 when the loop has not answered the watchdog for `dead_seconds`. The other
    pages show the state of one moment on the loop: `host_state` is called there, once a request,
    and must not block. `with_status` is True for `/status` alone: what a plugin says of itself may
    cost more than a probe should. `plugin_metrics`, which says what to call for the metrics of each
    controller, is called there too. When the loop does not get to it in 2 s these pages are 503
    and say so.
    """

    def __init__(
        self,
        bind: str,
        *,
        loop: asyncio.AbstractEventLoop,
        host_state: StateOf,
        watchdog: Watchdog,
        metrics: Metrics,
        plugin_metrics: Callable[[], Offers] = dict,
        patience_seconds: float = PATIENCE_SECONDS,
        dead_seconds: float = DEAD_SECONDS,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        self._bind = bind
        self._host_state = host_state
        self._watchdog = watchdog
        self._metrics = metrics
        self._plugin_metrics = plugin_metrics
        self._dead_seconds = dead_seconds
        self._questions = LoopBridge(loop, patience_seconds=patience_seconds)
        self._request_seconds = request_seconds
        self._server: HttpServer | None = None

    def start(self) -> None:
        """
        Bind and begin to answer.

        Raises `AddressUnusable` when the address is in use, not permitted or malformed.
        """
        try:
            family, address = resolve(self._bind)
            self._server = HttpServer(
                family, address, self._respond, request_seconds=self._request_seconds
            )
        except (OSError, ValueError) as error:
            raise AddressUnusable(_error_text(self._bind, error)) from error
        self._server.start()

    @property
    def address(self) -> str:
        """Where the pages are, as `host:port` with the real port; empty while they are nowhere."""
        if self._server is None:
            return ""
        host, port = self._server.address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return self._server.connections if self._server is not None else 0

    def stop(self) -> None:
        """
        Stop answering, and wait for the thread: milliseconds, unless a client is slow to read.

        May be called on the loop: nobody waits for it any longer then.
        """
        self._questions.close()
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    async def _respond(self, request: Request) -> Answer:
        match request.path:
            case "/livez":
                return self._livez()
            case "/readyz":
                verbose = _is_verbose(request.query)
                return await self._asked(
                    lambda: http_messages.readyz(
                        self._host_state(with_status=False), verbose=verbose
                    )
                )
            case "/status":
                return await self._status()
            case "/metrics":
                return await self._scrape()
            case "/":
                return text(200, http_messages.INDEX)
            case _:
                return text(404, "not found; / lists the pages\n")

    def _livez(self) -> Answer:
        plugin, seconds = self._watchdog.plugin, self._watchdog.stalled_seconds()
        if seconds < self._dead_seconds:
            return text(200, "ok")
        return text(500, f"{http_messages.stalled(seconds, plugin)}\n")

    async def _status(self) -> Answer:
        # Written down on the loop, because what plugins say of themselves may change afterwards.
        try:
            shown = await self._questions.ask(
                lambda: http_messages.status_text(self._host_state(with_status=True))
            )
        except NoReply as error:
            return self._silent(error)
        return http_messages.status(shown)

    async def _asked(self, question: Callable[[], Answer]) -> Answer:
        try:
            return await self._questions.ask(question)
        except NoReply as error:
            return self._silent(error)

    async def _scrape(self) -> Answer:
        # Ten milliseconds of text belong into this thread, not on the loop.
        try:
            state, told = await self._questions.ask(self._moment)
        except NoReply as error:
            return self._silent(error)
        return Answer(200, self._metrics.render(state, told), http_messages.PROMETHEUS)

    def _moment(self) -> tuple[HostState, Told]:
        state = self._host_state(with_status=False)
        return state, self._metrics.plugins.asked(self._plugin_metrics())

    def _silent(self, error: NoReply) -> Answer:
        plugin, seconds = self._watchdog.plugin, self._watchdog.stalled_seconds()
        return text(503, f"{http_messages.stalled(seconds, plugin) if seconds else error}\n")


def _is_verbose(query: str) -> bool:
    return any(part.partition("=")[0] == "verbose" for part in query.split("&"))


def resolve(bind: str) -> tuple[int, tuple[str, int]]:
    """
    Give the address family and the address of `host:port` or `[ipv6]:port`.

    Without a host it is every IPv4 interface; `[::]` is every interface. Raises `ValueError` for
    another form, `OSError` for a name that does not resolve.
    """
    host, colon, port = bind.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ValueError("it is not of the form host:port or [ipv6]:port")
    bare = host.removeprefix("[").removesuffix("]")
    found = socket.getaddrinfo(
        bare or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, *_, address = found[0]
    return family, (str(address[0]), int(address[1]))


def _error_text(bind: str, error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else None
    fact = FACTS.get(number or 0, str(error))
    return (
        f"pages cannot be served at '{bind}': {fact}; "
        f"set http.bind to a free address, or to port 0 for any free port"
    )
