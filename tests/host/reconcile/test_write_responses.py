"""The responses of a real server to writes, and what the sender and the writer make of them."""

import asyncio
import json
from typing import Any

import msgspec
import pytest
from host.reconcile.worker_rig import CONFIG_MAP, MakeSender
from host.runtime.definitions import Definitions
from view_stores import stores_of

from kcm_host.api.errors import ApiError, Conflict
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.sync import WriteRecord
from kcm_host.api.writes import Permission, Write
from kcm_host.informer.cache_view import SyncView
from kcm_host.informer.store import Entry, Store
from kcm_host.reconcile import requests
from kcm_host.reconcile.sender import LiveSender
from kcm_host.reconcile.writer import SyncWriter

FINALIZER = "test.example/held"
EVERYTHING = frozenset(
    Permission(kind=CONFIG_MAP, verb=verb) for verb in ("create", "patch", "delete", "get")
)


class Held(msgspec.Struct, frozen=True):
    """What a sync reads."""


@pytest.fixture
def sender(live: MakeSender) -> LiveSender:
    """A sender behind which the real server is."""
    return live()


def create(core: Any, key: Key, *finalizers: str) -> Any:
    """Create a ConfigMap and give its metadata."""
    metadata = {"name": key.name, "finalizers": list(finalizers)}
    return core.create_namespaced_config_map(key.namespace, {"metadata": metadata}).metadata


def unheld(key: Key) -> Write:
    """Return the patch that takes all finalizers away."""
    return requests.patch(CONFIG_MAP, key, {"metadata": {"finalizers": None}})


async def test_the_last_finalizer_takes_the_object_along(
    sender: LiveSender, core: Any, namespace: str
) -> None:
    """The answer has the version from before; that the object is gone is told (F-7)."""
    key = Key("held", namespace)
    made = create(core, key, FINALIZER)
    pending = await sender.send(requests.delete(CONFIG_MAP, key, uid="", resource_version=""))
    assert (pending.deleted, pending.uid, pending.status) == (False, made.uid, 200)
    assert int(pending.resource_version) > int(made.resource_version)
    last = await sender.send(unheld(key))
    assert (last.deleted, last.uid) == (True, made.uid)
    assert last.resource_version == pending.resource_version


async def test_the_last_finalizer_of_a_custom_resource(
    sender: LiveSender, definitions: Definitions, namespace: str
) -> None:
    """Custom resources are answered alike; an apply to what was read brings none back (F-7)."""
    kind = Kind(group=definitions.group, version="v1", name="Thing", resource="things")
    key = Key("held", namespace)
    permissions = frozenset(Permission(kind=kind, verb=verb) for verb in ("patch", "delete"))
    definitions.create("Thing")
    await asyncio.to_thread(definitions.create_objects, "Thing", namespace, "held")
    held = {"metadata": {"finalizers": [FINALIZER]}}
    first = SyncWriter("ttl", sender, permissions)
    uid = (await first.apply(kind, key, held, field_manager="test")).uid
    await first.delete(kind, key)
    writer = SyncWriter("ttl", sender, permissions, uid_read=lambda _kind, _key: uid)
    last = await writer.apply(kind, key, {}, field_manager="test")
    assert (last.deleted, last.uid) == (True, uid)
    with pytest.raises(Conflict):
        await writer.apply(kind, key, {}, field_manager="test")


async def test_an_object_that_is_not_being_deleted_stays(
    sender: LiveSender, core: Any, namespace: str
) -> None:
    """Without a deletion the end of the last finalizer is a change like any other (F-7)."""
    key = Key("kept", namespace)
    made = create(core, key, FINALIZER)
    receipt = await sender.send(unheld(key))
    assert (receipt.deleted, receipt.name) == (False, "kept")
    assert int(receipt.resource_version) > int(made.resource_version)


async def test_a_deletion_at_once_is_told_with_its_uid(
    sender: LiveSender, core: Any, namespace: str
) -> None:
    """The answer is a Status; what it says of the object is enough (F-7)."""
    key = Key("one", namespace)
    made = create(core, key)
    receipt = await sender.send(requests.delete(CONFIG_MAP, key, uid="", resource_version=""))
    assert (receipt.deleted, receipt.uid, receipt.resource_version) == (True, made.uid, "")


async def test_statuses_are_those_of_the_server(sender: LiveSender, namespace: str) -> None:
    """Records, and what is counted as soon as it was sent, have the real status (F-16)."""
    counted: list[tuple[str, WriteRecord]] = []
    writer = SyncWriter(
        "ttl", sender, EVERYTHING, on_write=lambda name, record: counted.append((name, record))
    )
    key = Key("one", namespace)
    await writer.apply(CONFIG_MAP, key, {"data": {"a": "1"}}, field_manager="test")
    await writer.apply(CONFIG_MAP, key, {"data": {"a": "2"}}, field_manager="test")
    made = await writer.create(
        CONFIG_MAP, {"metadata": {"generateName": "g-"}}, namespace=namespace
    )
    await writer.delete(CONFIG_MAP, Key(made["metadata"]["name"], namespace))
    with pytest.raises(Conflict):
        await writer.create(CONFIG_MAP, {"metadata": {"name": "one"}}, namespace=namespace)
    assert [record.status for record in writer.records] == [201, 200, 201, 200, 409]
    assert counted == [("ttl", record) for record in writer.records]


@pytest.fixture
async def read_before(sender: LiveSender, core: Any, namespace: str) -> tuple[SyncWriter, Key]:
    """A writer whose sync has read an object that is gone since."""
    key = Key("ghost", namespace)
    made = create(core, key)
    store: Store[Held] = Store(CONFIG_MAP)
    store.put(key, Entry(Held(), made.uid, made.resource_version))
    view = SyncView("ttl", stores_of("ttl", {(CONFIG_MAP, Held): store}))
    assert view.of(CONFIG_MAP, Held).get("ghost", namespace) is not None
    store.delete(key)
    core.delete_namespaced_config_map("ghost", namespace)
    return SyncWriter("ttl", sender, EVERYTHING, uid_read=view.uid_read), key


async def test_an_apply_makes_no_ghost(read_before: tuple[SyncWriter, Key], core: Any) -> None:
    """What was read and is gone since is not made anew: a conflict instead (F-7)."""
    writer, key = read_before
    with pytest.raises(Conflict):
        await writer.apply(CONFIG_MAP, key, {"data": {"a": "1"}}, field_manager="test")
    names = [one.metadata.name for one in core.list_namespaced_config_map(key.namespace).items]
    assert "ghost" not in names


async def test_an_apply_does_not_hit_a_namesake(
    read_before: tuple[SyncWriter, Key], core: Any
) -> None:
    """Another object under the name is left alone: it has an immutable other uid (F-7)."""
    writer, key = read_before
    create(core, key)
    with pytest.raises(ApiError, match="uid"):
        await writer.apply(CONFIG_MAP, key, {"data": {"a": "1"}}, field_manager="test")
    assert core.read_namespaced_config_map("ghost", key.namespace).data is None


async def test_an_apply_to_what_nobody_read_creates_it(
    sender: LiveSender, core: Any, namespace: str
) -> None:
    """Without an object that was read there is no uid, and an apply creates (F-7)."""
    view = SyncView("ttl", stores_of("ttl", {(CONFIG_MAP, Held): Store(CONFIG_MAP)}))
    assert view.of(CONFIG_MAP, Held).get("new", namespace) is None
    writer = SyncWriter("ttl", sender, EVERYTHING, uid_read=view.uid_read)
    await writer.apply(CONFIG_MAP, Key("new", namespace), {}, field_manager="test")
    assert core.read_namespaced_config_map("new", namespace).metadata.name == "new"


def test_an_apply_carries_the_uid_that_was_read() -> None:
    """By a get, by an index, or as the store has it; one that the author gives goes first (F-7)."""
    store: Store[Held] = Store(CONFIG_MAP)
    store.add_index("ttl", "all", lambda key, model: ["x"], lambda _key, _error: None)
    a, b, c = (Key(name, "team") for name in "abc")
    for key in (a, b, c):
        store.put(key, Entry(Held(), f"uid-{key.name}", "7"))
    view = SyncView("ttl", stores_of("ttl", {(CONFIG_MAP, Held): store}))
    list(view.of(CONFIG_MAP, Held).by_index("all", "x"))
    store.delete(a)
    store.put(b, Entry(Held(), "uid-b2", "9"))
    assert [view.uid_read(CONFIG_MAP, key) for key in (a, b, c)] == ["uid-a", "uid-b", "uid-c"]
    fresh = SyncView("ttl", stores_of("ttl", {(CONFIG_MAP, Held): store}))
    assert [fresh.uid_read(CONFIG_MAP, key) for key in (a, b, c)] == ["", "uid-b2", "uid-c"]
    given = requests.apply(
        CONFIG_MAP,
        a,
        {"metadata": {"uid": "mine"}},
        field_manager="test",
        force=True,
        subresource="",
        uid="read",
    )
    assert json.loads(given.body)["metadata"]["uid"] == "mine"
