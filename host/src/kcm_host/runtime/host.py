"""The life of the host: find the server, start the controllers, serve pages, drain."""

import asyncio
import gc
import logging
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from kcm_host import __version__
from kcm_host.api.records import SyncRecord
from kcm_host.api.states import ControllerState, HostState
from kcm_host.client.rest import Client, user_agent
from kcm_host.client.service_account import with_service_account
from kcm_host.config.names import service_account
from kcm_host.informer.background import keep_running
from kcm_host.informer.informer_factory import InformerFactory
from kcm_host.observe.endpoints import Endpoints
from kcm_host.observe.metrics import Metrics
from kcm_host.observe.watchdog import Watchdog
from kcm_host.plugins.quarantine import Quarantined
from kcm_host.runtime.bootstrap import Plan
from kcm_host.runtime.controller import Controller
from kcm_host.runtime.controller_run import SharedDependencies
from kcm_host.runtime.discovery_poller import poll_discovery
from kcm_host.runtime.process import collect_garbage, raise_file_limit
from kcm_host.runtime.signals import StopSignals
from kcm_host.runtime.startup_probe import reach

log = logging.getLogger(__name__)

DRAINED, FAILED = 0, 1
AGENT = user_agent("host")
#: How long the last spans may take to be delivered.
TRACES_SECONDS = 3.0


class Host:
    """One run of the host; `run` gives the exit code."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._metrics = Metrics()
        self._started = time.monotonic()
        self._controllers: dict[str, Controller] = {}
        self._streams: InformerFactory | None = None

    async def run(self) -> int:
        """
        Run until a signal; give 0 when everything drained in time, otherwise 1.

        Raises `ConnectionProblem` when the server is not reached or refuses us, and
        `AddressUnusable` when the pages have no address.
        """
        raise_file_limit()
        # Off since the program began: imports make no garbage, but waiting for a server does.
        gc.freeze()
        gc.enable()
        loop = asyncio.get_running_loop()
        watchdog = Watchdog(loop, plugins=self._packages())
        pages = Endpoints(
            self._plan.bind,
            loop=loop,
            host_state=self.state,
            watchdog=watchdog,
            metrics=self._metrics,
            plugin_metrics=lambda: {one.name: one.metrics for one in self._controllers.values()},
        )
        watchdog.start()
        try:
            pages.start()
            log.info("pages served", extra={"kv": {"address": f"http://{pages.address}"}})
            with StopSignals(loop, self._plan.shutdown_timeout) as signals:
                async with self._clients() as (client, own_clients):
                    return await self._serve(client, own_clients, signals.stop)
        finally:
            pages.stop()
            watchdog.stop()
            if self._plan.tracing is not None:
                self._plan.tracing.stop(TRACES_SECONDS)

    def state(self, *, with_status: bool) -> HostState:
        """Return what is known of everything; `with_status` also asks the plugins themselves."""
        controllers = self._controllers.values()
        states = [controller.state(with_status=with_status) for controller in controllers]
        states += [_broken(found) for found in self._plan.quarantined.values()]
        if not self._controllers:
            states += [_awaiting(setup.plugin.name) for setup in self._plan.setups]
        return HostState(
            version=__version__,
            server=self._plan.connection.base_url,
            uptime_seconds=round(time.monotonic() - self._started, 3),
            ready=all(state.ready for state in states),
            controllers=tuple(sorted(states, key=lambda state: state.name)),
            streams=self._streams.states() if self._streams else (),
            tasks=len(asyncio.all_tasks()),
        )

    @asynccontextmanager
    async def _clients(self) -> AsyncIterator[tuple[Client, dict[str, Client]]]:
        """Give the host's client, and those of controllers with an identity of their own (H-35)."""
        told = self._metrics.on_request
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(Client(self._plan.connection, told))
            own_clients = {}
            for name in self._own_identities():
                connection = with_service_account(
                    service_account(name), client, agent=user_agent(name)
                )
                own_clients[name] = await stack.enter_async_context(Client(connection, told))
            yield client, own_clients

    def _own_identities(self) -> list[str]:
        setups = self._plan.setups if self._plan.service_accounts else ()
        return [setup.plugin.name for setup in setups]

    async def _serve(
        self, client: Client, own_clients: dict[str, Client], stop: asyncio.Event
    ) -> int:
        reached = await _unless(stop, self._arrive(client, own_clients))
        if reached is None:
            return DRAINED
        self._streams = reached.streams
        self._controllers = {
            setup.plugin.name: Controller(setup, reached) for setup in self._plan.setups
        }
        runnable = [one for one in self._controllers.values() if one.prepare()]
        if not runnable:
            log.error("no controller can run", extra={"kv": {"remedy": "see the errors above"}})
            return FAILED
        # While the caches fill, a collection visits ever more objects and frees none.
        gc.disable()
        self._streams.open()
        lives = [
            asyncio.create_task(keep_running(one.name, one.run, may_end=True), name=one.name)
            for one in runnable
        ]
        aside = [
            asyncio.create_task(keep_running(name, begin), name=name)
            for name, begin in (
                ("garbage collection", partial(collect_garbage, [one.known for one in runnable])),
                ("discovery", partial(poll_discovery, reached.discoverer, runnable)),
            )
        ]
        try:
            await _unless(stop, asyncio.wait(lives))
            return await self._drain(runnable) if stop.is_set() else FAILED
        finally:
            for task in (*aside, *lives):
                task.cancel()
            await asyncio.wait([*aside, *lives])
            await self._streams.close()

    async def _arrive(self, client: Client, own_clients: dict[str, Client]) -> SharedDependencies:
        """Reach the server and learn what it serves."""
        discoverer = await reach(client, agent=AGENT, timeout=self._plan.start_timeout)
        log.info("server reached", extra={"kv": {"server": self._plan.connection.base_url}})
        return SharedDependencies(
            client=client,
            own_clients=own_clients,
            streams=InformerFactory(client, asyncio.get_running_loop().time),
            discoverer=discoverer,
            on_sync=self._on_sync,
            on_write=self._metrics.on_write,
            tracing=self._plan.tracing,
        )

    async def _drain(self, controllers: Sequence[Controller]) -> int:
        """No new sync; running ones get the shutdown timeout, then they are cancelled (H-61)."""
        log.info("draining", extra={"kv": {"controllers": len(controllers)}})
        drains = {asyncio.create_task(one.drain()): one for one in controllers}
        timeout = self._plan.shutdown_timeout.total_seconds()
        _, overdue = await asyncio.wait(drains, timeout=timeout)
        for task in overdue:
            pairs = {"controller": drains[task].name, "timeout": f"{timeout:g}s"}
            log.error("sync did not end in time, cancelled", extra={"kv": pairs})
        if overdue:
            await asyncio.gather(*(drains[task].cancel() for task in overdue))
            await asyncio.wait(overdue)
        left = [one.name for one in controllers if one.left_behind()]
        if overdue or left:
            return FAILED
        log.info("drained")
        return DRAINED

    def _on_sync(self, record: SyncRecord) -> None:
        self._metrics.on_sync(record)
        self._controllers[record.controller].count(record)
        self._metrics.observer_errors += self._plan.extensions.observe(record)

    def _packages(self) -> dict[str, str]:
        plugins = [setup.plugin for setup in self._plan.setups]
        return {plugin.module.partition(".")[0]: plugin.name for plugin in plugins}


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, Any]) -> Any | None:
    """Give the result of `work`, or None when `stop` is set first; then it is cancelled."""
    task = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        for one in (task, stopping):
            one.cancel()
        await asyncio.wait({task, stopping})


def _broken(found: Quarantined) -> ControllerState:
    return ControllerState(
        found.name,
        "quarantined",
        ready=False,
        distribution=found.distribution,
        version=found.version,
        problem=f"{found.reason}; {found.remedy}",
    )


def _awaiting(name: str) -> ControllerState:
    return ControllerState(name, "starting", ready=False, problem="waiting for the API server")
