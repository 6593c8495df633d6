"""A proxy before a real API server that makes the faults a test asks for."""

import asyncio
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp import web

from kcm_host_testing import identity, kubeconfig, workspace
from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import ActiveRule, Fault, Match, Request
from kcm_host_testing.forward import Forwarder
from kcm_host_testing.ports import free_port
from kcm_host_testing.tidy_loop import TidyLoop

_CALL_SECONDS = 60.0
_LARGEST_BODY = 64 * 2**20
_LARGEST_HEADER = 2**18
_TLS_CLOSE_SECONDS = 1.0
_AUTHORITY, _SERVER = "proxy-ca.crt", "proxy.pem"


class Rule:
    """The handle of a fault that was added to a proxy."""

    def __init__(self, proxy: "FaultProxy", active: ActiveRule) -> None:
        self._proxy = proxy
        self._active = active

    @property
    def hits(self) -> int:
        """How many requests fell under the rule so far."""
        return self._active.hits

    def wait_until_hit(self, times: int = 1, *, timeout_seconds: float = 60.0) -> None:
        """Return when so many requests fell under the rule; `TimeoutError` otherwise."""
        if not self._proxy.wait_until(lambda: self.hits >= times, timeout_seconds=timeout_seconds):
            raise TimeoutError(
                f"{self._active.fault} met {self.hits} requests and not {times} within "
                f"{timeout_seconds:g} s; it is for {self._active.match}"
            )

    def remove(self) -> None:
        """End the rule: it touches no further request, and what it stalls goes on."""
        self._proxy.remove(self._active)


class FaultProxy:
    """
    A reverse proxy before an API server, on a port and in a thread of its own.

    A context manager; also `start()` and `stop()`. It passes everything on as it is until `add`
    gives it a fault. All methods may be called from any thread and block for milliseconds (the
    `wait_*` ones until their time is up); a change holds when its method returns.
    """

    def __init__(self, server: ApiServer, *, tls: bool = True) -> None:
        """Describe a proxy; `tls=False` serves plain HTTP. The server may come and go."""
        self._server = server
        self._tls = tls
        self._port = 0
        self._folder: Path | None = None
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()

    @property
    def folder(self) -> Path:
        """The proxy's own folder (certificate, kubeconfigs), there until `stop`."""
        if self._folder is None:
            self._folder = workspace.new_folder("fault-proxy")
            if self._tls:
                identity.write_server_certificate(self._folder / _AUTHORITY, self._folder / _SERVER)
        return self._folder

    @property
    def url(self) -> str:
        """The address to give to clients."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}"

    @property
    def ca_file(self) -> Path | None:
        """The authority that clients have to trust; None without TLS."""
        return self.folder / _AUTHORITY if self._tls else None

    def kubeconfig(self, user: str = identity.ADMIN) -> Path:
        """The path of a kubeconfig that leads a user of the server through the proxy."""
        return kubeconfig.write(
            self.folder / f"{user}.kubeconfig",
            url=self.url,
            user=user,
            token=self._server.token(user),
            ca_file=self.ca_file,
        )

    def add(
        self,
        fault: Fault,
        *,
        method: str | None = None,
        path: str | None = None,
        query: Mapping[str, str] | None = None,
        when: Callable[[Request], bool] | None = None,
        times: int | None = None,
        also_open: bool = False,
    ) -> Rule:
        """
        Make a fault for the requests that match, from now on; see `faults.Match`.

        `times` limits it to the next so many. `also_open` puts open watches (and whatever else is
        under way) under it as well: a `Cut` cuts them now. A request meets the rules in the order
        in which they were added, up to the first `Answer` or `Cut`: two of them with `times=1`
        are for two requests.
        """
        active = ActiveRule(fault, Match(method=method, path=path, query=query, when=when), times)
        self._do(lambda: self._forwarder.add(active, also_open=also_open))
        return Rule(self, active)

    def remove(self, active: ActiveRule) -> None:
        """End a rule; `Rule.remove` is the way to here."""
        self._do(lambda: self._forwarder.remove(active))

    def refuse(self, *, cut_open: bool = True) -> None:
        """Refuse new connections as if nobody listened, and cut those there are."""
        self._do(lambda: self._stop_listening(cut_open=cut_open))

    def accept(self) -> None:
        """Listen again on the same port, after `refuse`."""
        self._call(self._listen())

    def requests(
        self,
        *,
        method: str | None = None,
        path: str | None = None,
        query: Mapping[str, str] | None = None,
        when: Callable[[Request], bool] | None = None,
    ) -> list[Request]:
        """All requests so far that match, in order of arrival; later changes do not show in it."""
        match = Match(method=method, path=path, query=query, when=when)
        seen = [exchange.seen for exchange in list(self._forwarder.exchanges)]
        return [request for request in seen if match(request)]

    def wait_for_requests(
        self, count: int = 1, *, timeout_seconds: float = 60.0, **match: Any
    ) -> list[Request]:
        """At least `count` requests that match as in `requests`; `TimeoutError` otherwise."""
        if self.wait_until(
            lambda: len(self.requests(**match)) >= count, timeout_seconds=timeout_seconds
        ):
            return self.requests(**match)
        raise TimeoutError(
            f"{len(self.requests(**match))} requests and not {count} within "
            f"{timeout_seconds:g} s match {match}"
        )

    def wait_until(self, condition: Callable[[], bool], *, timeout_seconds: float) -> bool:
        """Wait for a condition that depends on requests; whether it became true in time."""
        deadline = time.monotonic() + timeout_seconds
        with self._changed:
            while not condition():
                if not self._changed.wait(deadline - time.monotonic()):
                    return condition()
        return True

    def start(self) -> None:
        """Start and return when it listens."""
        self._port = free_port()
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(started,), name="fault-proxy", daemon=True
        )
        self._thread.start()
        started.result(_CALL_SECONDS)

    def stop(self) -> None:
        """Cut all connections, end the thread and remove the folder. Stopping twice is fine."""
        if self._thread is not None:
            if self._thread.is_alive():
                self._do(self._end.set)
            self._thread.join()
            self._thread = None
        if self._folder is not None:
            workspace.remove_folder(self._folder)
            self._folder = None

    def _run(self, started: Future[None]) -> None:
        with asyncio.Runner(loop_factory=TidyLoop) as runner:
            runner.run(self._serve(started))

    async def _serve(self, started: Future[None]) -> None:
        """Everything that lives in the thread."""
        try:
            self._loop = asyncio.get_running_loop()
            self._end = asyncio.Event()
            async with self._session() as session:
                self._forwarder = Forwarder(self._server.url, session, self._notify)
                runner = self._runner_of(self._forwarder)
                await runner.setup()
                self._runner = runner
                await self._listen()
                started.set_result(None)
                await self._end.wait()
                self._stop_listening(cut_open=True)
                await runner.cleanup()
        except Exception as error:
            if started.done():
                raise
            started.set_exception(error)

    def _session(self) -> aiohttp.ClientSession:
        trust = ssl.create_default_context(cafile=self._server.ca_file)
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=trust, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            max_line_size=_LARGEST_HEADER,
            max_field_size=_LARGEST_HEADER,
        )

    def _runner_of(self, forwarder: Forwarder) -> web.AppRunner:
        application = web.Application(client_max_size=_LARGEST_BODY)
        application.router.add_route("*", "/{path:.*}", forwarder.handle)
        return web.AppRunner(
            application,
            access_log=None,
            handler_cancellation=True,
            shutdown_timeout=0.1,
            max_line_size=_LARGEST_HEADER,
            max_field_size=_LARGEST_HEADER,
        )

    async def _listen(self) -> None:
        context = None
        if self._tls:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(self.folder / _SERVER)
        assert self._runner.server is not None
        self._listener = await self._loop.create_server(
            self._runner.server,
            "127.0.0.1",
            self._port,
            ssl=context,
            ssl_shutdown_timeout=_TLS_CLOSE_SECONDS if context else None,
        )

    def _stop_listening(self, *, cut_open: bool) -> None:
        self._listener.close()
        if cut_open and self._runner.server is not None:
            for connection in self._runner.server.connections:
                if connection.transport is not None:
                    connection.transport.abort()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _do(self, action: Callable[[], None]) -> None:
        async def run() -> None:
            action()

        self._call(run())

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_CALL_SECONDS)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
