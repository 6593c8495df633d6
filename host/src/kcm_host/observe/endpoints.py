"""The HTTP endpoints `/livez`, `/readyz`, `/status` and `/metrics`, in a thread of their own."""

import asyncio
import errno
import json
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

import msgspec

from kcm_host.observe.http_messages import Request, Response, text
from kcm_host.observe.http_server import LIMITS, HttpServer, Limits
from kcm_host.observe.logging import printable
from kcm_host.observe.metrics import Metrics
from kcm_host.observe.plugin_metrics import MetricsHooks, Samples
from kcm_host.observe.states import ControllerState, Detail, HostState, StreamState
from kcm_host.observe.watchdog import Watchdog

T = TypeVar("T")


JSON = "application/json"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
INDEX = """\
kcm-host

/livez            is the event loop alive
/readyz           does every enabled controller run; ?verbose names them all
/status           the state of the host and its controllers, as JSON
/metrics          for Prometheus
"""

CALL_SECONDS = 2.0
#: A stall this long is not going to end; a liveness probe may restart the host.
DEAD_SECONDS = 30.0
ADDRESS_ERRORS = {
    errno.EADDRINUSE: "it is in use",
    errno.EACCES: "this user may not use that port",
    errno.EADDRNOTAVAIL: "no interface of this machine has that address",
}


class StateFunction(Protocol):
    """Returns the state of the host."""

    def __call__(self, detail: Detail) -> HostState:
        """Return the state at this moment; see `Host.state`."""


class AddressUnusable(Exception):
    """The endpoints cannot be served at the configured address."""


class Endpoints:
    """
    `/livez`, `/readyz`, `/status` and `/metrics` at one address.

    Their thread lets `/livez` answer while a plugin blocks the event loop, with 500 when the loop
    has not answered the watchdog for `dead_seconds`. The other endpoints show the state of one
    moment: `host_state` is called on the loop, once a request, and must not block. It
    gets the detail that the endpoint needs, because a probe must not cost as much as `/status`.
    `plugin_metrics`, which returns the metrics hook of each controller, is called there too. When
    the loop does not make the call within `call_seconds`, the response is 503 with the reason.
    """

    def __init__(
        self,
        bind: str,
        *,
        loop: asyncio.AbstractEventLoop,
        host_state: StateFunction,
        watchdog: Watchdog,
        metrics: Metrics,
        plugin_metrics: Callable[[], MetricsHooks] = dict,
        call_seconds: float = CALL_SECONDS,
        dead_seconds: float = DEAD_SECONDS,
        limits: Limits = LIMITS,
    ) -> None:
        self._bind = bind
        self._host_state = host_state
        self._watchdog = watchdog
        self._metrics = metrics
        self._plugin_metrics = plugin_metrics
        self._dead_seconds = dead_seconds
        self._bridge = LoopBridge(loop, timeout_seconds=call_seconds)
        self._limits = limits
        self._server: HttpServer | None = None

    def start(self) -> None:
        """
        Bind the address and start the thread.

        Raises `AddressUnusable` when the address is in use, not permitted or malformed.
        """
        try:
            family, address = resolve(self._bind)
            self._server = HttpServer(family, address, self._respond, limits=self._limits)
        except (OSError, ValueError) as error:
            raise AddressUnusable(_address_problem(self._bind, error)) from error
        self._server.start()

    @property
    def address(self) -> str:
        """The address as `host:port` with the real port; empty before `start`."""
        if self._server is None:
            return ""
        host, port = self._server.address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def connections(self) -> int:
        """The number of connected clients."""
        return len(self._server.connections) if self._server is not None else 0

    def stop(self) -> None:
        """
        Close the server and wait for its thread: milliseconds, unless a client is slow to read.

        May be called on the loop: the thread does not wait for the loop then.
        """
        # First of all: the loop waits for the thread below, and the thread must not wait for the
        # loop meanwhile.
        self._bridge.close()
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    async def _respond(self, request: Request) -> Response:
        try:
            return await self._dispatch(request)
        except LoopUnavailable as error:
            seconds = self._watchdog.stalled_seconds()
            reason = stall_text(seconds, self._watchdog.plugin) if seconds else error
            return text(503, f"{reason}\n")

    async def _dispatch(self, request: Request) -> Response:
        match request.path:
            case "/livez":
                return self._livez()
            case "/readyz":
                return await self._readyz(verbose=_is_verbose(request.query))
            case "/status":
                return await self._status()
            case "/metrics":
                return await self._scrape()
            case "/":
                return text(200, INDEX)
            case _:
                return text(404, "not found; / lists the endpoints\n")

    def _livez(self) -> Response:
        # Without a call on the loop: a blocked one has to be told, and a busy one must not fail the
        # probe.
        plugin, seconds = self._watchdog.plugin, self._watchdog.stalled_seconds()
        if seconds < self._dead_seconds:
            return text(200, "ok")
        return text(500, f"{stall_text(seconds, plugin)}\n")

    # Neither streams nor the plugins' own status are put together for it: with 100,000 claims these
    # took the loop 573 ms a probe (F-40).
    async def _readyz(self, *, verbose: bool) -> Response:
        return await self._bridge.call(
            lambda: readyz(self._host_state(Detail.READINESS), verbose=verbose)
        )

    async def _status(self) -> Response:
        # Encoded on the loop, because plugins may change their status objects afterwards.
        body = await self._bridge.call(lambda: status_text(self._host_state(Detail.STATUS)))
        return status(body)

    async def _scrape(self) -> Response:
        # Imported late, because only a scrape needs its 4 MiB.
        from kcm_host.observe.prometheus import render  # noqa: PLC0415 - see above

        # Rendered in this thread, because ten milliseconds are too long for the loop.
        state, samples = await self._bridge.call(self._collect)
        return Response(200, render(self._metrics, state, samples), PROMETHEUS)

    def _collect(self) -> tuple[HostState, Samples]:
        state = self._host_state(Detail.METRICS)
        return state, self._metrics.plugins.collect(self._plugin_metrics())


def stall_text(seconds: float, plugin: str) -> str:
    """Return one sentence about a stall and its cause."""
    holder = f"controller '{plugin}' blocks it" if plugin else "no plugin's code was found in it"
    return printable(f"the event loop has not answered for {seconds:.0f} s: {holder}")


def readyz(state: HostState, *, verbose: bool) -> Response:
    """
    Return 200 when the host is ready, else 503 with a line for each controller that is not.

    `verbose` adds lines for those that are. The lines have the format of Kubernetes' own health
    endpoints, but reasons are not withheld.
    """
    if state.ready and not verbose:
        return text(200, "ok")
    lines = [
        printable(
            f"[+]{one.name} ok{f', idle: {one.idle}' if one.idle else ''}"
            if one.ready
            else f"[-]{one.name} failed: {not_ready_reason(one, state.streams)}"
        )
        for one in state.controllers
        if verbose or not one.ready
    ]
    lines.append(f"readyz check {'passed' if state.ready else 'failed'}\n")
    return text(200 if state.ready else 503, "\n".join(lines))


def not_ready_reason(controller: ControllerState, streams: tuple[StreamState, ...]) -> str:
    """Return why a controller is not ready: its own problem, or the watches it waits for."""
    if controller.problem:
        return controller.problem
    unsynced = [
        f"{one.resource}: {one.error}" if one.error else one.resource
        for one in streams
        if controller.name in one.controllers and not one.synced
    ]
    return f"{controller.phase}, waits for {', '.join(unsynced)}" if unsynced else controller.phase


def status_text(state: HostState) -> str:
    """Return the full state as JSON; values of a plugin's status beyond JSON become text."""
    try:
        return msgspec.json.encode(state, enc_hook=as_json).decode()
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(msgspec.to_builtins(state, enc_hook=as_json, str_keys=True))


def status(body: str) -> Response:
    """Return the response with a `status_text`."""
    return Response(200, printable(body).encode(), JSON)


def as_json(value: object) -> Any:
    """Return the nearest JSON value of a value that JSON does not have."""
    return dict(value) if isinstance(value, Mapping) else str(value)


def _is_verbose(query: str) -> bool:
    return any(part.partition("=")[0] == "verbose" for part in query.split("&"))


def resolve(bind: str) -> tuple[int, tuple[str, int]]:
    """
    Return the address family and the address of `host:port` or `[ipv6]:port`.

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


def _address_problem(bind: str, error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else None
    reason = ADDRESS_ERRORS.get(number or 0, str(error))
    return (
        f"endpoints cannot be served at '{bind}': {reason}; "
        f"set http.bind to a free address, or to port 0 for any free port"
    )


class LoopUnavailable(Exception):
    """The event loop did not make a call in time, or is stopping."""


class LoopBridge:
    """
    Calls plain functions on the host's event loop for tasks of another loop.

    `close` ends the wait of all callers, present and future ones, so that a loop which is stopping
    never waits for a thread that waits for the loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, timeout_seconds: float) -> None:
        self._loop = loop
        self._timeout_seconds = timeout_seconds
        self._pending: set[Future[Any]] = set()
        self._closed = False

    @property
    def pending(self) -> int:
        """The number of calls that wait for the loop."""
        return len(self._pending)

    async def call(self, function: Callable[[], T]) -> T:
        """
        Call `function` on the host's loop and return its result.

        What it raises is raised here. Raises `LoopUnavailable` when the loop did not call it in
        time; it is not called later then.
        """
        future: Future[T] = Future()
        result = asyncio.wrap_future(future)
        self._pending.add(future)
        try:
            self._schedule(function, future)
            await asyncio.wait({result}, timeout=self._timeout_seconds)
            if result.cancelled():
                raise LoopUnavailable("the host is stopping")
            if not result.done():
                seconds = f"{self._timeout_seconds:g} s"
                raise LoopUnavailable(f"the event loop did not answer within {seconds}")
            return result.result()
        finally:
            result.cancel()
            future.cancel()
            self._pending.discard(future)

    def close(self) -> None:
        """Cancel all pending calls, and later ones at once."""
        self._closed = True
        for future in list(self._pending):
            future.cancel()

    def _schedule(self, function: Callable[[], T], future: Future[T]) -> None:
        if self._closed or self._loop.is_closed():
            raise LoopUnavailable("the host is stopping")
        try:
            self._loop.call_soon_threadsafe(_call, function, future)
        except RuntimeError:  # closed after the check
            raise LoopUnavailable("the host is stopping") from None


def _call(function: Callable[[], T], future: Future[T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(function())
    except Exception as error:  # noqa: BLE001 - raised by `LoopBridge.call`
        future.set_exception(error)
