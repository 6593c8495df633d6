"""The life of the host: wait for the API server, run the controllers, serve HTTP, drain."""

import asyncio
import gc
import logging
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from kcm_host import __version__
from kcm_host.api.kinds import Kind
from kcm_host.api.sync import SyncRecord
from kcm_host.client.rest import Client, user_agent_of
from kcm_host.client.service_account import with_service_account
from kcm_host.client.startup_probe import wait_for_api_server
from kcm_host.informer.informer_factory import InformerFactory
from kcm_host.observe.endpoints import Endpoints
from kcm_host.observe.metrics import Metrics
from kcm_host.observe.states import ControllerState, Detail, HostState
from kcm_host.observe.watchdog import Watchdog
from kcm_host.plugins.plugin import Plugin
from kcm_host.plugins.quarantine import Quarantined
from kcm_host.retries import keep_running
from kcm_host.runtime.bootstrap import HostConfig
from kcm_host.runtime.controller import Controller
from kcm_host.runtime.controller_run import SharedDependencies
from kcm_host.runtime.discovery_poller import DefinitionWatches, poll_discovery
from kcm_host.runtime.process import StopSignals, collect_garbage, raise_file_limit

log = logging.getLogger(__name__)

DRAINED, FAILED = 0, 1
AGENT = user_agent_of("host")
#: The time limit for the export of the last spans.
EXPORT_SECONDS = 3.0


class Host:
    """One run of the host; `run` returns the exit code."""

    def __init__(self, config: HostConfig) -> None:
        self._config = config
        self._metrics = Metrics()
        self._started = time.monotonic()
        self._controllers: dict[str, Controller] = {}
        self._informers: InformerFactory | None = None

    async def run(self) -> int:
        """
        Run until a signal; return 0 when everything drained in time, otherwise 1.

        Raises `ConnectionProblem` when the API server cannot be reached or refuses the
        credentials, and `AddressUnusable` when `http.bind` cannot be bound.
        """
        # Before anything opens a file or a connection: without descriptors the endpoints cannot
        # accept probes (F-15).
        raise_file_limit()
        # Off since the process began: imports make no garbage, but waiting for a server does.
        gc.freeze()
        gc.enable()
        loop = asyncio.get_running_loop()
        watchdog = Watchdog(loop, plugins=self._packages())
        endpoints = Endpoints(
            self._config.bind,
            loop=loop,
            host_state=self.state,
            watchdog=watchdog,
            metrics=self._metrics,
            plugin_metrics=lambda: {one.name: one.metrics for one in self._controllers.values()},
        )
        # Both before the API server is reached, so that probes are answered while the host waits
        # for it (H-40).
        watchdog.start()
        try:
            endpoints.start()
            log.info("endpoints served", extra={"kv": {"address": f"http://{endpoints.address}"}})
            with StopSignals(loop, self._config.shutdown_timeout) as signals:
                async with self._clients() as (client, own_clients):
                    return await self._serve(client, own_clients, signals.stop)
        finally:
            endpoints.stop()
            watchdog.stop()
            # Last, because the drain makes spans too.
            self._config.tracing.stop(EXPORT_SECONDS)

    def state(self, detail: Detail) -> HostState:
        """Return the state of the host at this moment, as far as `detail` asks for it."""
        controllers = self._controllers.values()
        states = [
            controller.state(with_status=detail is Detail.STATUS) for controller in controllers
        ]
        states += [_quarantined(found) for found in self._config.quarantined.values()]
        if not self._controllers:
            states += [_waiting(one.plugin.name) for one in self._config.controllers]
        is_full = detail is not Detail.READINESS
        return HostState(
            version=__version__,
            server=self._config.connection.base_url,
            uptime_seconds=round(time.monotonic() - self._started, 3),
            ready=all(state.ready for state in states),
            controllers=tuple(sorted(states, key=lambda state: state.name)),
            streams=self._informers.states() if self._informers and is_full else (),
            tasks=len(asyncio.all_tasks()) if is_full else 0,
        )

    @asynccontextmanager
    async def _clients(self) -> AsyncIterator[tuple[Client, dict[str, Client]]]:
        """Yield the host's client, and one for each service account of a controller (H-35)."""
        on_request = self._metrics.on_request
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(Client(self._config.connection, on_request))
            own_clients = {}
            for plugin in self._plugins_with_accounts():
                connection = with_service_account(
                    plugin.info.service_account or plugin.name,
                    client,
                    user_agent=user_agent_of(plugin.name),
                )
                own_clients[plugin.name] = await stack.enter_async_context(
                    Client(connection, on_request)
                )
            yield client, own_clients

    def _plugins_with_accounts(self) -> list[Plugin]:
        controllers = self._config.controllers if self._config.service_accounts else ()
        return [one.plugin for one in controllers]

    async def _serve(
        self, client: Client, own_clients: dict[str, Client], stop: asyncio.Event
    ) -> int:
        shared = await _unless(stop, self._connect(client, own_clients))
        if shared is None:
            return DRAINED
        self._informers = shared.informers
        self._controllers = {
            one.plugin.name: Controller(one, shared) for one in self._config.controllers
        }
        # All handlers are added before any informer starts, so that controllers share informers
        # whatever their models are.
        runnable = [one for one in self._controllers.values() if one.new_run()]
        if not runnable:
            log.error("no controller can run", extra={"kv": {"remedy": "see the errors above"}})
            return FAILED
        # While the caches are filled, a collection visits ever more objects and frees none.
        gc.disable()
        self._informers.start()
        runs = [
            asyncio.create_task(keep_running(one.name, one.run, may_end=True), name=one.name)
            for one in runnable
        ]
        synced = [one.cache_synced for one in runnable]
        definitions = DefinitionWatches(shared.informers)
        background = [
            asyncio.create_task(keep_running(name, work), name=name)
            for name, work in (
                ("garbage collection", partial(collect_garbage, synced)),
                ("discovery", partial(poll_discovery, shared.discovery, runnable, definitions)),
            )
        ]
        try:
            await _unless(stop, asyncio.wait(runs))
            return await self._drain(runnable) if stop.is_set() else FAILED
        finally:
            for task in (*background, *runs):
                task.cancel()
            # Until they have ended: they use the informers and the clients that are closed next.
            await asyncio.wait([*background, *runs])
            await self._informers.shutdown()

    async def _connect(self, client: Client, own_clients: dict[str, Client]) -> SharedDependencies:
        """Return the dependencies of the controllers once the API server is healthy."""
        discovery = await wait_for_api_server(
            client, agent=AGENT, timeout=self._config.start_timeout
        )

        def correction(kind: Kind) -> str:
            return discovery.api_resources.correction(kind)

        log.info("server reached", extra={"kv": {"server": self._config.connection.base_url}})
        return SharedDependencies(
            client=client,
            own_clients=own_clients,
            informers=InformerFactory(client, asyncio.get_running_loop().time, correction),
            discovery=discovery,
            on_sync=self._on_sync,
            on_write=self._metrics.on_write,
            tracing=self._config.tracing,
        )

    async def _drain(self, controllers: Sequence[Controller]) -> int:
        """Drain all controllers; cancel syncs that outlast the shutdown timeout (H-61)."""
        log.info("draining", extra={"kv": {"controllers": len(controllers)}})
        drains = {asyncio.create_task(one.drain()): one for one in controllers}
        timeout = self._config.shutdown_timeout.total_seconds()
        _, overdue = await asyncio.wait(drains, timeout=timeout)
        for task in overdue:
            pairs = {"controller": drains[task].name, "timeout": f"{timeout:g}s"}
            log.error("syncs cancelled after the shutdown timeout", extra={"kv": pairs})
        if overdue:
            await asyncio.gather(*(drains[task].cancel() for task in overdue))
            await asyncio.wait(overdue)
        # A list, so that each controller logs its own.
        stuck = [one.name for one in controllers if one.log_stuck_syncs()]
        # Told by the exit code: an operator must see that a sync was cut off in its middle (H-61).
        if overdue or stuck:
            return FAILED
        log.info("drained")
        return DRAINED

    def _on_sync(self, record: SyncRecord) -> None:
        self._metrics.on_sync(record)
        self._controllers[record.controller].count(record)
        self._metrics.observer_errors += self._config.extensions.observe(record)

    def _packages(self) -> dict[str, str]:
        plugins = [one.plugin for one in self._config.controllers]
        return {plugin.module.partition(".")[0]: plugin.name for plugin in plugins}


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, Any]) -> Any | None:
    """Return the result of `work`; cancel it and return None when `stop` is set first."""
    task = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        for one in (task, stopping):
            one.cancel()
        await asyncio.wait({task, stopping})


def _quarantined(found: Quarantined) -> ControllerState:
    return ControllerState(
        found.name,
        "quarantined",
        ready=False,
        distribution=found.distribution,
        version=found.version,
        problem=f"{found.reason}; {found.remedy}",
    )


def _waiting(name: str) -> ControllerState:
    return ControllerState(name, "starting", ready=False, problem="waiting for the API server")
