"""Reflectors of the ConfigMaps of one namespace, through a proxy of faults."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from host.informer.reflector.running_reflector import (
    CONFIG_MAP,
    ConfigMaps,
    RunningReflector,
    StartReflector,
)

from kcm_host import retries
from kcm_host.client.auth.connection import connect
from kcm_host.client.rest import Client
from kcm_host.informer.list_watch import ListWatchOptions
from kcm_host.observe.states import RequestRecord
from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.proxy import FaultProxy


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the waits between two tries begin with 50 ms instead of 0.8 s."""
    monkeypatch.setattr(retries, "BASE_SECONDS", 0.05)
    monkeypatch.setattr(retries, "MAX_SECONDS", 0.4)


@pytest.fixture
def config_maps(api_server: ApiServer, namespace: str) -> ConfigMaps:
    """Return the ConfigMaps of the test's namespace."""
    return ConfigMaps(api_server, namespace)


@pytest.fixture
async def start_reflector(fault_proxy: FaultProxy, namespace: str) -> AsyncIterator[StartReflector]:
    """Start a reflector of the namespace's ConfigMaps, limited as the test says."""
    async with AsyncExitStack() as stack:

        async def start(**selected: object) -> RunningReflector:
            records: list[RequestRecord] = []
            connection = connect(str(fault_proxy.kubeconfig()), environ={})
            client = await stack.enter_async_context(Client(connection, records.append))
            options = ListWatchOptions(CONFIG_MAP, namespace, **selected)  # type: ignore[arg-type]  # as the test says
            running = RunningReflector(client, options, fault_proxy)
            running.records = records
            stack.push_async_callback(running.stop)
            return running

        yield start
