"""A controller's workers in virtual time; live senders, which reach the real server by a proxy."""

import pytest
from host.reconcile.worker_rig import MakeSender, Rig

from kcm_host.client.rest import Client, user_agent_of
from kcm_host.reconcile.sender import LiveSender


@pytest.fixture
async def rig() -> Rig:
    """One controller's queue and workers."""
    return Rig()


@pytest.fixture
def live(client: Client) -> MakeSender:
    """Makes live senders: `live()`, `live("quota", qps=5)`; all of them share one client."""

    def make(controller: str = "ttl", **options: float) -> LiveSender:
        return LiveSender(client, user_agent=user_agent_of(controller), **options)  # type: ignore[arg-type] # qps and burst

    return make
