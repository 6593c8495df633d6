"""A request goes to one object: a key of no single object is refused before it is sent."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from host.reconcile.worker_rig import CONFIG_MAP, NODE, MakeSender, RecordingSender

from kcm_host.api import Verb
from kcm_host.api.errors import InvalidKey
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.writes import Permission
from kcm_host.client.rest import item
from kcm_host.reconcile.writer import SyncWriter
from kcm_host_testing.proxy import FaultProxy

VERBS: tuple[Verb, ...] = ("create", "update", "patch", "delete", "get")
EVERYTHING = frozenset(
    Permission(kind=kind, verb=verb) for kind in (CONFIG_MAP, NODE) for verb in VERBS
)

Request = Callable[[SyncWriter, Kind, Key], Awaitable[Any]]


def _object(key: Key) -> dict[str, Any]:
    return {"metadata": {"name": key.name, "namespace": key.namespace, "resourceVersion": "1"}}


#: Each way to send something, called with a key.
REQUESTS: dict[str, Request] = {
    "patch": lambda writer, kind, key: writer.patch(kind, key, {}),
    "apply": lambda writer, kind, key: writer.apply(kind, key, {}, field_manager="test"),
    "create": lambda writer, kind, key: writer.create(kind, _object(key), namespace=key.namespace),
    "update": lambda writer, kind, key: writer.update(kind, _object(key)),
    "delete": lambda writer, kind, key: writer.delete(kind, key),
    "read": lambda writer, kind, key: writer.read(kind, key),
}

WRONG = [
    (CONFIG_MAP, Key("", "team")),
    (CONFIG_MAP, Key(".", "team")),
    (CONFIG_MAP, Key("..", "team")),
    (CONFIG_MAP, Key("../secrets/one", "team")),
    (CONFIG_MAP, Key("one/status", "team")),
    (CONFIG_MAP, Key("one%2fstatus", "team")),
    (CONFIG_MAP, Key("one")),
    (CONFIG_MAP, Key("one", "..")),
    (CONFIG_MAP, Key("one", "team/configmaps")),
    (NODE, Key("")),
    (NODE, Key("one", "team")),
]


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize(("kind", "key"), WRONG)
async def test_no_request_without_one_object(request_name: str, kind: Kind, key: Key) -> None:
    """Every verb refuses every key that names no single object; nothing is sent (F-6)."""
    sender = RecordingSender()
    with pytest.raises(InvalidKey, match=f"'{kind}'"):
        await REQUESTS[request_name](SyncWriter("ttl", sender, EVERYTHING), kind, key)
    assert sender.writes == []


@pytest.mark.parametrize(("kind", "key"), WRONG)
def test_no_path_without_one_object(kind: Kind, key: Key) -> None:
    """Whoever asks for the path of one object never gets another path (F-6)."""
    with pytest.raises(InvalidKey):
        item(kind, key)


async def test_objects_without_name_are_refused_too() -> None:
    """An update or a creation whose metadata has no name at all is refused alike (F-6)."""
    writer = SyncWriter("ttl", RecordingSender(), EVERYTHING)
    with pytest.raises(InvalidKey):
        await writer.update(NODE, {"metadata": {"resourceVersion": "1"}})
    with pytest.raises(InvalidKey):
        await writer.create(NODE, {"metadata": {}})


async def test_a_refusal_names_the_mistake() -> None:
    """The author reads what was tried and what is missing (F-6)."""
    writer = SyncWriter("ttl", RecordingSender(), EVERYTHING)
    with pytest.raises(InvalidKey) as refusal:
        await writer.delete(CONFIG_MAP, Key("one"))
    assert str(refusal.value) == (
        "no request for 'configmaps' name='one' in '': a ConfigMap is in a namespace; "
        "give it as namespace='...'"
    )


@pytest.mark.parametrize("name", ["name", "generateName"])
async def test_a_creation_needs_the_scope_of_its_kind(name: str) -> None:
    """A namespace that is missing, or one too many, is told before anything is sent (F-67)."""
    sender = RecordingSender()
    writer = SyncWriter("ttl", sender, EVERYTHING)
    with pytest.raises(InvalidKey, match=r"is in a namespace; give it as namespace='\.\.\.'"):
        await writer.create(CONFIG_MAP, {"metadata": {name: "one", "namespace": "team"}})
    with pytest.raises(InvalidKey, match=r"a Node has no namespace; leave 'namespace' out"):
        await writer.create(NODE, {"metadata": {name: "one"}}, namespace="team")
    assert sender.writes == []


async def test_a_delete_without_name_leaves_the_collection(
    live: MakeSender, fault_proxy: FaultProxy, core: Any, namespace: str
) -> None:
    """On a real server nothing is deleted, because nothing is sent (F-6)."""
    for name in ("a", "b", "c"):
        core.create_namespaced_config_map(namespace, {"metadata": {"name": name}})
    writer = SyncWriter("ttl", live(), EVERYTHING)
    for name in ("", ".", "..", "a/../b"):
        with pytest.raises(InvalidKey):
            await writer.delete(CONFIG_MAP, Key(name, namespace))
    left = {one.metadata.name for one in core.list_namespaced_config_map(namespace).items}
    assert {"a", "b", "c"} <= left
    assert fault_proxy.requests() == []
    await writer.delete(CONFIG_MAP, Key("a", namespace))
    assert [request.status for request in fault_proxy.requests()] == [200]
