"""Crossing the first boundary of the table on a real server, with as many nodes as it takes."""

from collections.abc import Iterator

import pytest
from eventually import eventually
from plugins.ttl.server_nodes import TTL, USER, Nodes, create_nodes, delete_all_nodes, ttl_host

from kcm_host_testing.api_server import ApiServer


@pytest.fixture(autouse=True)
def no_other_nodes(plugin_server: ApiServer) -> Iterator[None]:
    """Count from zero, and leave nothing."""
    delete_all_nodes(plugin_server)
    yield
    delete_all_nodes(plugin_server)


def test_a_start_in_a_large_cluster_writes_each_node_once(plugin_server: ApiServer) -> None:
    """No sync before all nodes are counted: no value on the way (TTL-32, Difference a)."""
    create_nodes(plugin_server, names(101), annotations={TTL: "0"})
    mark = plugin_server.audit.mark()
    with ttl_host(plugin_server) as nodes:
        carry(nodes, "15", 101)
        state = nodes.wait_until_idle("many-000")
    assert state["status"] == {"nodes": 101, "ttlSeconds": 15}
    assert nodes.written() == ["15"] * 101
    assert {patch.path.rpartition("/")[2] for patch in nodes.patches()} == set(names(101))
    writes = plugin_server.audit.writes(since=mark, user_agent="kcm-host/")
    assert {write.user for write in writes} == {USER}


def test_a_change_of_step_queues_all_nodes_at_once(plugin_server: ApiServer) -> None:
    """Up at 101, down at 89, up again: no node waits for an event (T3 to T8, Difference d)."""
    create_nodes(plugin_server, names(100), annotations={TTL: "0"})
    with ttl_host(plugin_server) as nodes:
        assert nodes.wait_until_idle("many-000")["status"] == {"nodes": 100, "ttlSeconds": 0}
        assert nodes.patches() == [], "TTL-T3"
        nodes.create("many-100")
        carry(nodes, "15", 101)
        nodes.delete(*names(101)[90:])
        assert nodes.wait_until_idle("many-000")["status"] == {"nodes": 90, "ttlSeconds": 15}
        assert nodes.written() == ["15"] * 101, "TTL-T4, TTL-T5, TTL-T6"
        nodes.delete("many-089")
        carry(nodes, "0", 89)
        assert nodes.wait_until_idle("many-000")["status"] == {"nodes": 89, "ttlSeconds": 0}
        nodes.create(*names(100)[89:])
        assert nodes.wait_until_idle("many-000")["status"] == {"nodes": 100, "ttlSeconds": 0}
        assert nodes.written()[101:] == ["0"] * 100, "TTL-T7, TTL-T8"
        nodes.create("many-100")
        carry(nodes, "15", 101)


def test_a_restart_takes_the_way_from_below(plugin_server: ApiServer) -> None:
    """95 nodes keep 15 on the way down, and get 0 after a restart (TTL-10, TTL-24, TTL-82)."""
    create_nodes(plugin_server, names(101), annotations={TTL: "15"})
    with ttl_host(plugin_server) as nodes:
        nodes.wait_until_idle("many-000")
        nodes.delete(*names(101)[95:])
        assert nodes.wait_until_idle("many-000")["status"] == {"nodes": 95, "ttlSeconds": 15}
        assert nodes.patches() == []
    with ttl_host(plugin_server) as nodes:
        carry(nodes, "0", 95)
        assert nodes.wait_until_idle("many-000")["status"] == {"nodes": 95, "ttlSeconds": 0}
        assert nodes.written() == ["0"] * 95


def names(count: int) -> list[str]:
    """Return the names of so many nodes."""
    return [f"many-{number:03}" for number in range(count)]


def carry(nodes: Nodes, value: str, count: int) -> None:
    """Wait until all nodes, so many, have a value."""
    eventually(
        lambda: list(nodes.ttls().values()) == [value] * count, f"{count} nodes carry {value}"
    )
