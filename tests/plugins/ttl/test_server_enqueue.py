"""The changes that queue nodes on a real server, and those that do not."""

from collections.abc import Callable

from eventually import eventually
from plugins.ttl.server_nodes import TTL, Nodes

from kcm_host_testing.faults import Answer, Cut, Stall

NewName = Callable[[], str]
WATCH = {"watch": "true"}
EXPIRED = Answer(
    200,
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure",'
    b'"reason":"Expired","code":410,"message":"too old"}}\n',
    {"Content-Type": "application/json"},
)


def test_a_heartbeat_queues_nothing(nodes: Nodes, new_name: NewName) -> None:
    """A status that changes, labels, other annotations: no sync (TTL-81, Difference c)."""
    name, other = new_name(), new_name()
    nodes.create(name, other)
    before = nodes.wait_until_idle(name)
    for number in range(20):
        nodes.report_status(name)
        nodes.annotate(name, other=str(number))
    nodes.annotate(other, ttl="7")
    after = nodes.wait_until_idle(name)
    assert after["syncs"] - before["syncs"] == 1
    assert len(nodes.patches(name)) == 1


def test_the_watch_event_of_a_write_queues_nothing(nodes: Nodes, new_name: NewName) -> None:
    """One new node is one sync, the event of its own write queues nothing (TTL-T24)."""
    marker, name = new_name(), new_name()
    nodes.create(marker)
    before = nodes.wait_until_idle(marker)
    nodes.create(name)
    after = nodes.wait_until_idle(marker)
    assert after["syncs"] - before["syncs"] == 1
    assert nodes.written(name) == ["0"]


def test_a_deleted_node_queues_nothing(nodes: Nodes, new_name: NewName) -> None:
    """It is only counted (TTL-22, TTL-11)."""
    marker, name = new_name(), new_name()
    nodes.create(marker, name)
    before = nodes.wait_until_idle(marker)
    nodes.delete(name)
    after = nodes.wait_until_idle(marker)
    assert after["syncs"] == before["syncs"]
    assert after["status"]["nodes"] == before["status"]["nodes"] - 1


def test_nothing_is_synced_because_a_list_was_read_again(nodes: Nodes, new_name: NewName) -> None:
    """After 410 nodes are listed again; unchanged ones are not queued (TTL-T23, Difference b)."""
    name, gone = new_name(), new_name()
    nodes.create(name, gone)
    before = nodes.wait_until_idle(name)
    lists = nodes.host.stream("nodes")["lists"]
    cut_off(nodes)
    eventually(lambda: nodes.host.stream("nodes")["lists"] == lists + 1, "nodes are listed again")
    after = nodes.wait_until_idle(name)
    assert after["syncs"] == before["syncs"]
    assert after["status"] == before["status"]


def test_a_node_deleted_while_the_watch_was_interrupted_is_counted(
    nodes: Nodes, new_name: NewName
) -> None:
    """A delete that only the next list shows counts as one (TTL-T21, TTL-22)."""
    name, gone = new_name(), new_name()
    nodes.create(name, gone)
    before = nodes.wait_until_idle(name)
    held = nodes.proxy.add(Stall(), query=WATCH, also_open=True, times=1)
    nodes.delete(gone)
    nodes.annotate(name, ttl=None)
    cut_off(nodes)
    held.remove()
    after = nodes.wait_until_idle(name)
    assert after["status"]["nodes"] == before["status"]["nodes"] - 1
    assert nodes.read(name).metadata.annotations[TTL] == "0"


def cut_off(nodes: Nodes) -> None:
    """End the host's watch and answer the next one that its version is too old."""
    nodes.proxy.add(EXPIRED, query=WATCH, times=1)
    nodes.proxy.add(Cut(), query=WATCH, also_open=True, times=1)
