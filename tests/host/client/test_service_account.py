"""Acting as a service account on a real server, by tokens that are requested and renewed."""

import json
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from kubernetes import client as official

from kcm_host.client.auth.connection import connect
from kcm_host.client.errors import ConnectionProblem
from kcm_host.client.rest import JSON, Client
from kcm_host.client.service_account import with_service_account
from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import Answer
from kcm_host_testing.proxy import FaultProxy

WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Wall:
    """The wall clock, which can be set forward."""

    ahead = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return time.time() + self.ahead


@pytest.fixture
def name() -> str:
    """The name of an account that is not there."""
    return f"loop-{secrets.token_hex(4)}"


@pytest.fixture
async def manager(fault_proxy: FaultProxy) -> AsyncIterator[Client]:
    """The client of a host that is kube-controller-manager."""
    config = fault_proxy.kubeconfig("kube-controller-manager")
    async with Client(connect(str(config), environ={}), lambda record: None) as client:
        yield client


async def who(client: Client) -> str:
    """Ask the server as whom it knows a client."""
    review = b'{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}'
    answer = await client.call(
        "POST", WHO_AM_I, verb="create", user_agent="kcm-host/0", body=review, content_type=JSON
    )
    name: str = json.loads(answer)["status"]["userInfo"]["username"]
    return name


async def test_a_missing_account_is_made_and_acted_as(
    manager: Client, api_server: ApiServer, name: str
) -> None:
    """The server knows the controller as its own account, which is there afterwards (H-35)."""
    core: Any = official.CoreV1Api(api_server.client())
    async with Client(
        with_service_account(name, manager, user_agent="kcm-host/0"), lambda record: None
    ) as own:
        assert await who(own) == f"system:serviceaccount:kube-system:{name}"
    assert core.read_namespaced_service_account(name, "kube-system").metadata.name == name


async def test_a_token_is_used_again_until_it_is_old(
    manager: Client, fault_proxy: FaultProxy, name: str
) -> None:
    """A new one is requested when four fifths of an hour are over, not before (H-35)."""
    wall = Wall()
    connection = with_service_account(name, manager, user_agent="kcm-host/0", clock=wall)
    async with Client(connection, lambda record: None) as own:
        await who(own)
        wall.ahead = 0.79 * 3600
        await who(own)
        assert len(granted(fault_proxy, name)) == 1
        wall.ahead = 0.81 * 3600
        await who(own)
    assert len(granted(fault_proxy, name)) == 2


@pytest.mark.parametrize("status", [403, 500])
async def test_passing_trouble_is_tried_four_times(
    manager: Client, fault_proxy: FaultProxy, name: str, status: int
) -> None:
    """
    With 0.5 s, doubled, between; the fourth answer is taken (H-35).

    A server that has just started denies everything until it has read its roles.
    """
    fault_proxy.add(Answer(status), path=f"/{name}/token$", times=3)
    began = time.monotonic()
    async with Client(
        with_service_account(name, manager, user_agent="kcm-host/0"), lambda record: None
    ) as own:
        assert await who(own) == f"system:serviceaccount:kube-system:{name}"
    assert time.monotonic() - began >= 0.5 + 1 + 2


async def test_a_host_that_may_not_request_tokens(fault_proxy: FaultProxy, name: str) -> None:
    """The problem names account and remedy, after four tries (H-35)."""
    config = fault_proxy.kubeconfig("alice")
    async with Client(connect(str(config), environ={}), lambda record: None) as client:
        with pytest.raises(ConnectionProblem) as found:
            await with_service_account(name, client, user_agent="kcm-host/0").credentials.current()
    assert f"no token for service account 'kube-system/{name}'" in str(found.value)
    assert "grant create on serviceaccounts/token" in str(found.value)
    assert len(fault_proxy.requests(method="POST", path=f"/{name}/token$")) == 4


def granted(proxy: FaultProxy, name: str) -> list[Any]:
    """Return the requests for a token that succeeded."""
    return proxy.requests(method="POST", path=f"/{name}/token$", when=lambda one: one.status == 201)
