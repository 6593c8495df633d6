"""What the controller sends to a real server, and what the server makes of it."""

import json
from collections.abc import Callable

from plugins.ttl.server_nodes import TTL, Nodes

NewName = Callable[[], str]


def test_a_node_without_annotation_gets_one(nodes: Nodes, new_name: NewName) -> None:
    """One strategic merge patch of the one annotation (TTL-T1, TTL-T17, TTL-50 to TTL-55)."""
    name = new_name()
    nodes.create(name, annotations={"other": "stays"})
    nodes.wait_until_idle(name)
    (patch,) = nodes.patches(name)
    assert (patch.method, patch.path) == ("PATCH", f"/api/v1/nodes/{name}")
    assert patch.query == {}
    assert patch.headers["content-type"] == "application/strategic-merge-patch+json"
    assert json.loads(patch.body) == {"metadata": {"annotations": {TTL: "0"}}}
    assert patch.status == 200
    assert nodes.read(name).metadata.annotations == {"other": "stays", TTL: "0"}


def test_the_server_names_the_host_as_manager(nodes: Nodes, new_name: NewName) -> None:
    """The field manager comes from the user agent, since none is sent (TTL-50, Difference e)."""
    name = new_name()
    nodes.create(name)
    nodes.wait_until_idle(name)
    (mine,) = [one for one in nodes.read(name).metadata.managed_fields if one.manager == "kcm-host"]
    assert mine.operation == "Update"
    assert mine.fields_v1 == {"f:metadata": {"f:annotations": {".": {}, f"f:{TTL}": {}}}}


def test_nothing_but_nodes_is_written(nodes: Nodes, new_name: NewName) -> None:
    """No Event, no status, no other object (TTL-7)."""
    name = new_name()
    nodes.create(name)
    nodes.wait_until_idle(name)
    calls = nodes.proxy.requests(when=lambda request: request.method != "GET")
    assert {(call.method, call.path.rpartition("/")[0]) for call in calls} == {
        ("PATCH", "/api/v1/nodes")
    }
