"""The aggregation controller in a real host, behind a proxy, before a real server."""

import secrets
from collections.abc import Iterator

import pytest
from plugins.clusterrole_aggregation.server_roles import Roles, aggregation_host, delete_roles

from kcm_host_testing.api_server import ApiServer


@pytest.fixture(scope="module")
def roles(plugin_server: ApiServer) -> Iterator[Roles]:
    """A host with the controller's own permissions; tests use names and labels of their own."""
    with aggregation_host(plugin_server) as cluster:
        cluster.wait_until_idle()
        yield cluster


@pytest.fixture
def own(plugin_server: ApiServer) -> Iterator[str]:
    """A text that no other test has used; roles whose names begin with it go at the end."""
    text = f"t{secrets.token_hex(4)}"
    yield text
    delete_roles(plugin_server, text)
