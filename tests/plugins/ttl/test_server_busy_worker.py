"""A ttl host with one worker; in a module of its own, because two hosts write the same nodes."""

from collections.abc import Callable, Iterator

import pytest
from plugins.ttl.server_nodes import TTL, Nodes, delete_all_nodes, ttl_host

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import Stall

NewName = Callable[[], str]


@pytest.fixture(scope="module")
def single(plugin_server: ApiServer) -> Iterator[Nodes]:
    """A host with one worker, so that one stalled write blocks all others."""
    with ttl_host(plugin_server, workers=1) as cluster:
        yield cluster
    delete_all_nodes(plugin_server)


def test_changes_before_a_worker_is_free_are_one_sync(single: Nodes, new_name: NewName) -> None:
    """Five changes of a node while the only worker is busy cost one write (TTL-T25)."""
    busy, name = new_name(), new_name()
    single.create(name, annotations={TTL: "0"})
    stall = single.proxy.add(Stall(), method="PATCH", path=f"/nodes/{busy}$")
    single.create(busy)
    stall.wait_until_hit()
    for number in range(1, 6):
        single.host.wait_until_seen("nodes", single.annotate(name, ttl=str(number)))
    assert single.patches(name) == []
    stall.remove()
    single.wait_until_idle(name)
    assert single.written(name) == ["0"]
