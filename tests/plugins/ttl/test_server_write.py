"""What the controller sends to a real server, and what the server makes of it."""

import json
from collections.abc import Callable

import pytest
from eventually import eventually
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


@pytest.mark.parametrize("text", ["0", "+0", "-0", "000"])
def test_a_right_annotation_is_left_alone(nodes: Nodes, new_name: NewName, text: str) -> None:
    """Numbers are compared, not texts; the text stays (TTL-T2, TTL-33, TTL-40, TTL-42)."""
    name = new_name()
    nodes.create(name, annotations={TTL: text})
    nodes.wait_until_idle(name)
    assert nodes.patches(name) == []
    assert nodes.ttl(name) == text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("abc", id="TTL-T16"),
        pytest.param("-1", id="TTL-T28"),
        pytest.param("300", id="TTL-10: never read back"),
        pytest.param("", id="empty"),
        pytest.param(" 0", id="white space"),
        pytest.param("0s", id="unit"),
        pytest.param("0.0", id="decimal point"),
        pytest.param("\u0660", id="another alphabet's digit"),
        pytest.param("9" * 250_000, id="as many digits as the server takes"),
    ],
)
def test_a_wrong_annotation_is_overwritten(nodes: Nodes, new_name: NewName, text: str) -> None:
    """What is no number, or another one, is replaced (TTL-34, TTL-41, TTL-43, TTL-54)."""
    name = new_name()
    nodes.create(name, annotations={TTL: text})
    nodes.wait_until_idle(name)
    assert nodes.written(name) == ["0"]
    assert nodes.ttl(name) == "0"


@pytest.mark.parametrize("text", ["30", None])
def test_an_annotation_changed_by_hand_is_put_right(
    nodes: Nodes, new_name: NewName, text: str | None
) -> None:
    """Each change or removal is corrected, on the event itself (TTL-T26, TTL-83)."""
    name = new_name()
    nodes.create(name, annotations={TTL: "0"})
    nodes.annotate(name, ttl=text)
    eventually(lambda: nodes.ttl(name) == "0", "the annotation is put right")
    nodes.wait_until_idle(name)
    assert nodes.written(name) == ["0"]


def test_nothing_but_nodes_is_written(nodes: Nodes, new_name: NewName) -> None:
    """No Event, no status, no other object (TTL-7)."""
    name = new_name()
    nodes.create(name)
    nodes.wait_until_idle(name)
    calls = nodes.proxy.requests(when=lambda request: request.method != "GET")
    assert {(call.method, call.path.rpartition("/")[0]) for call in calls} == {
        ("PATCH", "/api/v1/nodes")
    }
