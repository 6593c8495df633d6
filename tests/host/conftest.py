"""The real API server for tests of the host: a client of ours, the official one, own kinds."""
# ruff: noqa: PLC0415 - most tests here need no server, and the official package takes its time

import secrets
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from kcm_host.client.auth.connection import connect
from kcm_host.client.rest import Client

if TYPE_CHECKING:
    from host.runtime.definitions import Definitions

    from kcm_host_testing.api_server import ApiServer
    from kcm_host_testing.proxy import FaultProxy


@pytest.fixture
async def client(fault_proxy: "FaultProxy") -> AsyncIterator[Client]:
    """Return a client that goes through the proxy as admin."""
    connection = connect(str(fault_proxy.kubeconfig()), environ={})
    async with Client(connection, lambda _: None) as made:
        yield made


@pytest.fixture
def core(api_server: "ApiServer") -> Any:
    """Return the official client of the core group, as admin."""
    from kubernetes import client as official

    return official.CoreV1Api(api_server.client())


@pytest.fixture
def group() -> str:
    """Return a unique API group."""
    return f"g{secrets.token_hex(4)}.example"


@pytest.fixture
def definitions(api_server: "ApiServer", group: str) -> "Iterator[Definitions]":
    """Return the definitions of that group, deleted with the test."""
    from host.runtime.definitions import Definitions

    made = Definitions(api_server, group)
    yield made
    made.delete_all()
