"""A controller's workers in virtual time; a client that reaches the real server by the proxy."""

from collections.abc import AsyncIterator

import pytest
from host.reconcile.live_senders import Attempts, MakeSender
from host.reconcile.worker_rig import Rig

from kcm_host.client.auth.connection import connect
from kcm_host.client.rest import Client, user_agent_of
from kcm_host.reconcile.sender import LiveSender
from kcm_host_testing.proxy import FaultProxy


@pytest.fixture
async def rig() -> Rig:
    """One controller's queue and workers."""
    return Rig()


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
        return LiveSender(client, user_agent=user_agent_of(controller), **options)  # type: ignore[arg-type] # qps and burst

    return make
