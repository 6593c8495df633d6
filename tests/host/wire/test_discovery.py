"""What a real API server says it serves."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from kubernetes import client as kubernetes

from kcm_host.api.discovery import Discovery
from kcm_host.api.errors import ApiError
from kcm_host.api.kinds import Kind
from kcm_host.wire.client import Client, user_agent
from kcm_host.wire.discovery import discover
from kcm_host.wire.identity.connection import connect
from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import Answer
from kcm_host_testing.proxy import FaultProxy

AGENT = user_agent("host")
NODE = Kind("", "v1", "Node", "nodes", namespaced=False)
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")
OLD_LEASE = Kind("coordination.k8s.io", "v1beta1", "Lease", "leases")
WIDGET = Kind("acme.example", "v1", "Widget", "widgets")


@pytest.fixture
async def client(fault_proxy: FaultProxy) -> AsyncIterator[Client]:
    """Give a client that goes through the proxy as admin."""
    connection = connect(str(fault_proxy.kubeconfig()), environ={})
    async with Client(connection, lambda _: None) as made:
        yield made


async def test_served_kinds_are_known_after_two_requests(
    client: Client, fault_proxy: FaultProxy
) -> None:
    """Group, version and resource have to be right for a kind to count as served."""
    found: Discovery = await discover(client, agent=AGENT)
    assert found.serves(NODE)
    assert found.serves(LEASE)
    assert not found.serves(OLD_LEASE)
    assert not found.serves(WIDGET)
    assert not found.serves(Kind("apps", "v1", "Node", "nodes"))
    assert [request.path for request in fault_proxy.requests()] == ["/api", "/apis"]


async def test_the_first_served_version_is_found(client: Client) -> None:
    """Of several versions the first that the server has counts; None when it has none."""
    found = await discover(client, agent=AGENT)
    assert found.first_served(OLD_LEASE, LEASE) == LEASE
    assert found.first_served(LEASE, OLD_LEASE) == LEASE
    assert found.first_served(OLD_LEASE, WIDGET) is None
    assert found.first_served() is None


async def test_custom_resources_are_found(client: Client, api_server: ApiServer) -> None:
    """A kind that a CustomResourceDefinition adds is served as soon as the server says so."""
    extensions: Any = kubernetes.ApiextensionsV1Api(api_server.client())
    group = "discovery.acme.example"
    widget = Kind(group, "v1", "Widget", "widgets")
    schema = {"openAPIV3Schema": {"type": "object"}}
    definition = {
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    await asyncio.to_thread(extensions.create_custom_resource_definition, definition)
    try:
        async with asyncio.timeout(10):
            while not (await discover(client, agent=AGENT)).serves(widget):  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.05)
    finally:
        await asyncio.to_thread(extensions.delete_custom_resource_definition, f"widgets.{group}")


async def test_a_refusal_goes_to_the_caller(client: Client, fault_proxy: FaultProxy) -> None:
    """Who may not see what is served gets the server's 403."""
    fault_proxy.add(Answer(403), path="^/apis$")
    with pytest.raises(ApiError) as raised:
        await discover(client, agent=AGENT)
    assert raised.value.status == 403
