"""What the log says when no connection comes about."""

import dataclasses
import socket

import pytest
from host.client.conftest import Connected, Serve

from kcm_host.api.errors import Unreachable
from kcm_host.client.rest import Client, user_agent_of

AGENT = user_agent_of("acme")


async def test_error_of_a_connection_shows_no_object_of_python(
    serve: Serve, connected: Connected
) -> None:
    """A server that is gone is told by its address and the system's words (F-91)."""
    server = await serve()
    connection = connected(cluster=server.cluster, user={"token": "t"})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    connection = dataclasses.replace(connection, base_url=f"https://127.0.0.1:{port}")
    async with Client(connection, lambda _: None) as client:
        with pytest.raises(Unreachable) as caught:
            await client.call("GET", "/api", verb="get", user_agent=AGENT)
    assert caught.value.refused
    assert f"cannot connect to 127.0.0.1:{port}: " in str(caught.value)
    assert "<" not in str(caught.value)
    assert "object at" not in str(caught.value)
