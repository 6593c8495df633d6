"""A ttl host whose writes are paused; in a module of its own, as two hosts write the same."""

from collections.abc import Callable, Iterator

import pytest
from eventually import eventually
from plugins.ttl.server_nodes import Nodes, delete_all_nodes, ttl_host

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import Answer

NewName = Callable[[], str]


@pytest.fixture
def paused(plugin_server: ApiServer) -> Iterator[Nodes]:
    """A host of its own: its controller writes nothing any more."""
    with ttl_host(plugin_server) as cluster:
        yield cluster
    delete_all_nodes(plugin_server)


def test_a_long_pause_is_shown(paused: Nodes, new_name: Callable[[], str]) -> None:
    """F-22: a year of `Retry-After` is five minutes at most, which log and `/status` say."""
    name = new_name()
    year = Answer(503, b"", {"Retry-After": "31536000"})
    paused.proxy.add(year, method="PATCH", path=f"/nodes/{name}$", times=1)
    paused.create(name)
    eventually(
        lambda: 0 < paused.host.controller("ttl")["writePauseSeconds"] <= 300, "the pause is shown"
    )
    (line,) = paused.host.log("writes paused by Retry-After")
    assert (line["controller"], line["seconds"]) == ("ttl", "300")
