"""Which permissions the ttl controller needs on a real server."""

from collections.abc import Callable
from typing import Any

from eventually import eventually
from plugins.granted_roles import granted
from plugins.ttl.server_nodes import USER, Nodes, create_nodes, delete_all_nodes, ttl_host

from kcm_host_testing.api_server import ApiServer

NewName = Callable[[], str]
READS = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}]
WRITES = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}]


def test_the_controllers_own_role_is_enough(plugin_server: ApiServer, new_name: NewName) -> None:
    """Nodes are listed, watched and patched, and no request is refused (TTL-7, TTL-70)."""
    mark = plugin_server.audit.mark()
    name = new_name()
    with ttl_host(plugin_server) as nodes:
        nodes.create(name)
        nodes.wait_until_idle(name)
        requests = nodes.proxy.requests()
        assert nodes.ttl(name) == "0"
    assert {request.status for request in requests} == {200}
    touched = {(one.method, one.path) for one in requests if "nodes" in one.path}
    assert touched == {("GET", "/api/v1/nodes"), ("PATCH", f"/api/v1/nodes/{name}")}
    writes = plugin_server.audit.writes(since=mark, user_agent="kcm-host/")
    assert {(write.user, write.resource) for write in writes} == {(USER, "nodes")}
    delete_all_nodes(plugin_server)


def test_list_watch_and_patch_are_needed_and_no_more(
    plugin_server: ApiServer, new_name: NewName
) -> None:
    """Without patch the write is refused and retried; once granted, it succeeds (TTL-61, 70)."""
    name = new_name()
    create_nodes(plugin_server, [name])
    with (
        granted(plugin_server, "nobody", READS) as grant,
        ttl_host(plugin_server, user="nobody") as nodes,
    ):
        eventually(lambda: refused(nodes, name) >= 2, "the write is refused and tried again")
        grant([*READS, *WRITES])
        eventually(lambda: nodes.ttl(name) == "0", "the node is written")
    delete_all_nodes(plugin_server)


def refused(nodes: Nodes, name: str) -> int:
    """Return how many writes of a node were refused, each with a line that says so."""
    lines: list[dict[str, Any]] = nodes.host.log("sync failed", key=name)
    assert all("cannot patch resource" in line["error"] for line in lines)
    return len([patch for patch in nodes.patches(name) if patch.status == 403])
