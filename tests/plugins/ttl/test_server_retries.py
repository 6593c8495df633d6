"""Failed writes of the ttl controller, and syncs that had to wait."""

from collections.abc import Callable

from eventually import eventually
from plugins.ttl.server_nodes import Nodes

from kcm_host_testing.faults import Answer, Stall

NewName = Callable[[], str]
BROKEN = Answer(500, b"{}", {"Content-Type": "application/json"})


def waits(nodes: Nodes, name: str) -> list[str]:
    """Return the waits that the host announced after failures of one key."""
    return [line["retry_in"] for line in nodes.host.log("sync failed", key=name)]


def test_a_failed_write_is_repeated_with_growing_waits(nodes: Nodes, new_name: NewName) -> None:
    """After 5 and 10 ms; success resets this, so a later failure waits 5 ms (TTL-T19, 60, 61)."""
    name = new_name()
    rule = nodes.proxy.add(BROKEN, method="PATCH", path=f"/nodes/{name}$", times=2)
    nodes.create(name)
    nodes.wait_until_idle(name)
    first, second, third = nodes.patches(name)
    assert [first.status, second.status, third.status] == [500, 500, 200]
    assert (second.time - first.time).total_seconds() >= 0.005
    assert (third.time - second.time).total_seconds() >= 0.010
    assert waits(nodes, name) == ["0.005s", "0.01s"]
    rule.remove()
    nodes.proxy.add(BROKEN, method="PATCH", path=f"/nodes/{name}$", times=1)
    nodes.annotate(name, ttl=None)
    nodes.wait_until_idle(name)
    assert waits(nodes, name) == ["0.005s", "0.01s", "0.005s"]
    assert nodes.ttl(name) == "0"


def test_a_node_deleted_meanwhile_is_not_asked_for_again(nodes: Nodes, new_name: NewName) -> None:
    """404 is an error like others; the retry finds no node and ends (TTL-T20, TTL-T18, 30, 61)."""
    name, other = new_name(), new_name()
    nodes.create(other)
    stall = nodes.proxy.add(Stall(), method="PATCH", path=f"/nodes/{name}$")
    nodes.create(name)
    stall.wait_until_hit()
    nodes.delete(name)
    nodes.host.wait_until_seen("nodes", nodes.report_status(other))
    stall.remove()
    before = eventually(lambda: nodes.host.log("sync failed", key=name), "the write has failed")
    assert "404" in before[0]["error"] or "not found" in before[0]["error"]
    settled = nodes.wait_until_idle(other)
    assert [patch.status for patch in nodes.patches(name)] == [404]
    assert settled["queue"]["failing"] == {}


def test_a_retry_reads_the_new_state(nodes: Nodes, new_name: NewName) -> None:
    """A correction by somebody else ends the retries (TTL-62)."""
    name = new_name()
    rule = nodes.proxy.add(BROKEN, method="PATCH", path=f"/nodes/{name}$")
    nodes.create(name)
    rule.wait_until_hit(3)
    nodes.annotate(name, ttl="0")
    nodes.wait_until_idle(name)
    tried = len(nodes.patches(name))
    rule.remove()
    nodes.annotate(name, ttl="1")
    nodes.wait_until_idle(name)
    assert [patch.status for patch in nodes.patches(name)] == [500] * tried + [200]


def test_an_error_of_one_node_holds_up_no_other(nodes: Nodes, new_name: NewName) -> None:
    """A node that can never be written is retried without end; the next is written at once."""
    name, other = new_name(), new_name()
    rule = nodes.proxy.add(BROKEN, method="PATCH", path=f"/nodes/{name}$")
    nodes.create(name)
    rule.wait_until_hit(4)
    nodes.create(other)
    eventually(lambda: nodes.ttl(other) == "0", "the other node is written")
    assert nodes.host.controller("ttl")["queue"]["failing"][name]["failures"] >= 4
    rule.remove()
    eventually(lambda: nodes.ttl(name) == "0", "the node is written in the end")


def test_a_write_that_never_arrived_is_repeated(nodes: Nodes, new_name: NewName) -> None:
    """A server busy for a moment is waited for: one sync, no failure (TTL-61, IQ-111)."""
    name = new_name()
    busy = Answer(429, b"{}", {"Retry-After": "0", "Content-Type": "application/json"})
    nodes.proxy.add(busy, method="PATCH", path=f"/nodes/{name}$", times=1)
    nodes.create(name)
    nodes.wait_until_idle(name)
    assert [patch.status for patch in nodes.patches(name)] == [429, 200]
    assert waits(nodes, name) == []
