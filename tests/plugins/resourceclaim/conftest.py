"""The resourceclaim controller in a real host, behind a proxy, before a real server."""

from collections.abc import Callable, Iterator

import pytest
from plugins.resourceclaim.server_claims import WatchedClaims, claims_host

from kcm_host_testing.api_server import ApiServer


@pytest.fixture(scope="module")
def begin(plugin_server: ApiServer) -> Iterator[Callable[[], WatchedClaims]]:
    """One host for all tests of a module."""
    with claims_host(plugin_server) as begin:
        yield begin


@pytest.fixture
def claims(begin: Callable[[], WatchedClaims]) -> Iterator[WatchedClaims]:
    """A namespace of its own, watched by the host; its objects are deleted at the end."""
    made = begin()
    yield made
    made.clean()
