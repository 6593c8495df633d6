"""A controller as the host runs it, beside an API server in memory."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
from worlds.objects import Objects
from worlds.server import Server

from kcm_host import __version__
from kcm_host.api import Key, Kind, Resource
from kcm_host.api.sync import Cause, SyncRecord
from kcm_host.client.discovery import APIResources
from kcm_host.informer.informer_factory import InformerFactory
from kcm_host.plugins.finder import find
from kcm_host.plugins.hookimpls import CONTROLLER
from kcm_host.plugins.loader import load
from kcm_host.plugins.plugin import Plugin
from kcm_host.runtime.controller import Controller
from kcm_host.runtime.controller_run import ControllerConfig, ControllerRun, SharedDependencies

#: Virtual seconds after which everything that is under way has arrived, graces included.
QUIET_SECONDS = 75.0
VERBS = frozenset({"create", "delete", "get", "list", "patch", "update", "watch"})


class Discovery:
    """The discovery client of a world: its kinds are served."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self.api_resources = APIResources(
            Resource(kind=kind, verbs=VERBS, preferred=True) for kind in kinds
        )


class World:
    """
    One controller with its server; `chance` decides everything that is random.

    `keys` has the kinds whose objects are keys, each with the `Key.kind` of these keys.
    """

    def __init__(
        self,
        name: str,
        chance: random.Random,
        *,
        keys: Mapping[Kind, str],
        others: Iterable[Kind] = (),
        make: Callable[..., object] | None = None,
        workers: int = 4,
        **settings: Any,
    ) -> None:
        kinds = (*keys, *others)
        self._keys = keys
        self.chance = chance
        self.server = Server(kinds, chance)
        self.syncs: list[SyncRecord] = []
        plugin = _plugin(name, make)
        model = plugin.settings_model
        informers = InformerFactory(self.server, asyncio.get_running_loop().time)  # type: ignore[arg-type]
        shared = SharedDependencies(
            client=self.server,  # type: ignore[arg-type] # what a world needs of a client
            own_clients={},
            informers=informers,
            discovery=Discovery(kinds),  # type: ignore[arg-type] # what a world needs of one
            on_sync=self._on_sync,
            on_write=lambda _controller, _record: None,
        )
        config = ControllerConfig(plugin, model(**settings) if model else None, workers)
        self.informers = informers
        self.controller = Controller(config, shared)

    def __getitem__(self, kind: Kind) -> Objects:
        return self.server[kind]

    def resync_each(self, period: timedelta) -> None:
        """Set the period of the resync; to be called before the controller runs."""
        config = msgspec.structs.replace(self.controller._config, resync_period=period)
        self.controller._config = config

    def counted(self) -> list[str]:
        """Return the keys of the syncs that the resync has counted as missed."""
        return [str(record.key) for record in self.syncs if record.missed_wakeup]

    async def pause(self) -> None:
        """Let a random short time pass, often none."""
        await asyncio.sleep(self.chance.choice((0.0, 0.0, 0.01, 0.05, 0.3, 2.0)))

    async def quiet(self) -> None:
        """Let everything that is under way come to its end."""
        await asyncio.sleep(QUIET_SECONDS)

    async def missed(self) -> list[str]:
        """Return the writes of a sync of every key in a quiet world: wake-ups that were missed."""
        before = len(self.server.writes)
        queue = self.run.queue
        for kind, key_kind in self._keys.items():
            for each in self.server[kind].all():
                meta = each["metadata"]
                key = Key(meta["name"], meta.get("namespace", ""), key_kind)
                queue.add(key, Cause(reason="resync", received=time.monotonic()))
        await self.quiet()
        return self.server.writes[before:]

    @property
    def run(self) -> ControllerRun:
        """Its run at this time."""
        run = self.controller._state.run
        assert run is not None
        return run

    def failing(self) -> dict[str, int]:
        """Return the keys whose last sync failed, with the number of failures."""
        failing = self.run.queue.state().failing
        return {key: one.failures for key, one in failing.items()}

    def _on_sync(self, record: SyncRecord) -> None:
        self.syncs.append(record)
        self.controller.count(record)


@asynccontextmanager
async def running(world: World) -> AsyncIterator[World]:
    """Run the controller of a world; it ends with the block."""
    assert world.controller.new_run()
    world.informers.start()
    life = asyncio.create_task(world.controller.run(), name="controller")
    try:
        await world.quiet()
        yield world
        assert not life.done(), life.result()
    finally:
        await world.controller.cancel()
        life.cancel()
        await asyncio.wait({life})
        await world.informers.shutdown()


def _plugin(name: str, make: Callable[..., object] | None) -> Plugin:
    loading = load(find(CONTROLLER.group), [name], host_version=__version__)
    plugin = loading.plugins[name]
    return replace(plugin, cls=make) if make is not None else plugin  # type: ignore[arg-type]
