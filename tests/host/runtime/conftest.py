"""Hosts with plugins of a test, and streams of their own, on a real API server."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from host.informer.reflector.running_reflector import ConfigMaps
from host.runtime.loops import Loops
from plugin_site import PluginSite
from running_host import RunningHost

from kcm_host.runtime.event_handlers import RestartReason
from kcm_host.workqueue.queue import WorkQueue
from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.proxy import FaultProxy


@pytest.fixture
def site(tmp_path: Path) -> PluginSite:
    """Return an empty folder for plugins."""
    return PluginSite(tmp_path / "plugins")


@pytest.fixture
def config_maps(api_server: ApiServer, namespace: str) -> ConfigMaps:
    """Return the ConfigMaps of the test's namespace."""
    return ConfigMaps(api_server, namespace)


@pytest.fixture
def loops(fault_proxy: FaultProxy, site: PluginSite, core: Any, namespace: str) -> Iterator[Loops]:
    """Return loops of the test's namespace, without any yet."""
    with ExitStack() as stack:

        def start(config: Mapping[str, Any], *, user: str, ready: bool) -> RunningHost:
            kubeconfig = fault_proxy.kubeconfig(user)
            host = RunningHost(
                config, kubeconfig=kubeconfig, ready=ready, environment=site.environment
            )
            return stack.enter_context(host)

        yield Loops(site, core, namespace, start)


@pytest.fixture
async def queue() -> WorkQueue:
    """Return an empty queue."""
    return WorkQueue(asyncio.get_running_loop())


@pytest.fixture
def restarts() -> list[RestartReason]:
    """The reasons of requested restarts."""
    return []
