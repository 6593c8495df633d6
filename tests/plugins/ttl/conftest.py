"""The ttl controller in a real host, behind a proxy, before a real server."""

import secrets
from collections.abc import Callable, Iterator

import pytest
from plugins.ttl.server_nodes import Nodes, delete_all_nodes, ttl_host

from kcm_host_testing.api_server import ApiServer


@pytest.fixture(scope="module")
def nodes(plugin_server: ApiServer) -> Iterator[Nodes]:
    """A host with the controller's own permissions, and far fewer than 90 nodes."""
    with ttl_host(plugin_server) as cluster:
        yield cluster
    delete_all_nodes(plugin_server)


@pytest.fixture
def new_name() -> Callable[[], str]:
    """Gives node names that no test has used."""
    return lambda: f"node-{secrets.token_hex(4)}"
