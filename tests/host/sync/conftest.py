"""A controller's workers in virtual time; a client that reaches the real server by the proxy."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from host.sync.sync_bench import Rig

from kcm_host.api.states import RequestRecord
from kcm_host.sync.sender import LiveSender
from kcm_host.wire.client import Client, user_agent
from kcm_host.wire.connection import connect
from kcm_host_testing.proxy import FaultProxy

MakeSender = Callable[..., LiveSender]


@pytest.fixture
async def rig() -> Rig:
    """One controller's queue and workers."""
    return Rig()


class Attempts:
    """Every attempt the client made, to be waited for."""

    def __init__(self) -> None:
        self.records: list[RequestRecord] = []
        self._more = asyncio.Event()

    def __call__(self, record: RequestRecord) -> None:
        self.records.append(record)
        self._more.set()

    async def first(self) -> RequestRecord:
        """Give the first attempt once it is over; fails after 10 s."""
        async with asyncio.timeout(10):
            await self._more.wait()
        return self.records[0]


@pytest.fixture
async def attempts() -> Attempts:
    """Every attempt the client makes."""
    return Attempts()


@pytest.fixture
async def client(fault_proxy: FaultProxy, attempts: Attempts) -> AsyncIterator[Client]:
    """A client that is admin and goes through the proxy of faults."""
    connection = connect(str(fault_proxy.kubeconfig()), environ={})
    async with Client(connection, attempts) as client:
        yield client


@pytest.fixture
def live(client: Client) -> MakeSender:
    """Makes live senders: `live()`, `live("quota", qps=5)`; all of them share one client."""

    def make(controller: str = "ttl", **options: float) -> LiveSender:
        return LiveSender(client, agent=user_agent(controller), **options)  # type: ignore[arg-type] # qps and burst

    return make
