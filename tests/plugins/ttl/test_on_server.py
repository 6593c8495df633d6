"""What the controller sends to a real server, with which permissions, and when it pauses."""

import json
from collections.abc import Iterator

import pytest
from eventually import eventually
from plugins.conftest import TTL_USER
from plugins.granted_roles import granted
from plugins.proxied_host import proxied_host
from plugins.ttl.server_nodes import TTL, Nodes

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import Answer

READS = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}
WRITES = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}


@pytest.fixture
def nodes(plugin_server: ApiServer) -> Iterator[Nodes]:
    """The nodes of the server, which are far fewer than 90."""
    nodes = Nodes(plugin_server)
    yield nodes
    nodes.clear()


def test_a_node_without_annotation_gets_one(plugin_server: ApiServer, nodes: Nodes) -> None:
    """
    One strategic merge patch of the one annotation, permitted by the controller's own role.

    TTL-T1, TTL-T17, TTL-50 to TTL-55, TTL-7, TTL-70; Difference e: no field manager is sent.
    """
    with proxied_host(plugin_server, "ttl", user=TTL_USER) as (proxy, _):
        nodes.create("n", other="stays")
        eventually(lambda: nodes.annotations("n") == {"other": "stays", TTL: "0"}, "it is written")
        (patch,) = proxy.requests(when=lambda one: one.method != "GET")
        assert (patch.method, patch.path, patch.query) == ("PATCH", "/api/v1/nodes/n", {})
        assert patch.headers["content-type"] == "application/strategic-merge-patch+json"
        assert json.loads(patch.body) == {"metadata": {"annotations": {TTL: "0"}}}
        assert {one.status for one in proxy.requests()} == {200}


def test_list_watch_and_patch_are_needed_and_no_more(
    plugin_server: ApiServer, nodes: Nodes
) -> None:
    """Without patch the write is refused and retried; once granted, it succeeds (TTL-61, 70)."""
    nodes.create("n")
    with (
        granted(plugin_server, "nobody", [READS]) as grant,
        proxied_host(plugin_server, "ttl", user="nobody") as (proxy, host),
    ):
        eventually(lambda: len(host.log("sync failed", key="n")) >= 2, "it is tried again")
        assert "cannot patch resource" in host.log("sync failed", key="n")[0]["error"]
        grant([READS, WRITES])
        eventually(lambda: nodes.annotations("n") == {TTL: "0"}, "the node is written")
        assert {one.method for one in proxy.requests(path="/nodes/n$")} == {"PATCH"}


def test_a_long_pause_is_shown(plugin_server: ApiServer, nodes: Nodes) -> None:
    """F-22: a year of `Retry-After` is five minutes at most, which log and `/status` say."""
    with proxied_host(plugin_server, "ttl", user=TTL_USER) as (proxy, host):
        year = Answer(503, b"", {"Retry-After": "31536000"})
        proxy.add(year, method="PATCH", path="/nodes/n$", times=1)
        nodes.create("n")
        eventually(
            lambda: 0 < host.controller("ttl")["writePauseSeconds"] <= 300, "the pause is shown"
        )
        (line,) = host.log("writes paused by Retry-After")
        assert (line["controller"], line["seconds"]) == ("ttl", "300")
