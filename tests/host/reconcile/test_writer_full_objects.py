"""Creations, full updates, deletions, single reads and refusals, on the real server."""

import json
from typing import Any

import pytest
from host.reconcile.worker_rig import CONFIG_MAP, MakeSender

from kcm_host.api import decode_object
from kcm_host.api.errors import ApiError, Conflict, HostError, NotFound, Unreachable
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.writes import Permission, Verb
from kcm_host.reconcile.writer import SyncWriter
from kcm_host_testing.faults import Answer, Cut, Point
from kcm_host_testing.proxy import FaultProxy

QUOTA = Kind(group="", version="v1", name="ResourceQuota", resource="resourcequotas")
CIDR = Kind(
    group="networking.k8s.io",
    version="v1",
    name="ServiceCIDR",
    resource="servicecidrs",
    namespaced=False,
)
VERBS: tuple[Verb, ...] = ("create", "update", "patch", "delete", "get")
PERMISSIONS = frozenset(
    {Permission(kind=CONFIG_MAP, verb=verb) for verb in VERBS}
    | {
        Permission(kind=QUOTA, verb="update", subresource="status"),
        Permission(kind=CIDR, verb="patch", subresource="status"),
    }
)


@pytest.fixture
async def writer(live: MakeSender) -> SyncWriter:
    """The writer of one sync, with a live sender behind it."""
    return SyncWriter("quota", live(), PERMISSIONS)


@pytest.fixture
def one(core: Any, namespace: str) -> Key:
    """The key of a ConfigMap that exists."""
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "one"}, "data": {"a": "1"}})
    return Key("one", namespace)


def data_of(core: Any, key: Key) -> Any:
    """Return what a ConfigMap holds now."""
    return core.read_namespaced_config_map(key.name, key.namespace).data


async def test_a_creation_with_a_generated_name(
    writer: SyncWriter, fault_proxy: FaultProxy, core: Any, namespace: str
) -> None:
    """One POST to the collection; what comes back has the name the server made (RC-44)."""
    body = {"metadata": {"generateName": "one-"}, "data": {"a": "1"}}
    made = await writer.create(CONFIG_MAP, body, namespace=namespace)
    (request,) = fault_proxy.requests(method="POST", path=f"/namespaces/{namespace}/configmaps$")
    assert json.loads(request.body) == {"apiVersion": "v1", "kind": "ConfigMap", **body}
    assert made["metadata"]["name"].startswith("one-")
    stored = core.read_namespaced_config_map(made["metadata"]["name"], namespace)
    assert stored.data == decode_object(made, dict[str, Any])["data"] == {"a": "1"}
    (record,) = writer.records
    assert (record.verb, record.object, record.status) == ("create", f"{namespace}/one-", 201)


async def test_an_update_replaces_what_was_read(
    writer: SyncWriter, core: Any, namespace: str
) -> None:
    """The object goes back whole, and comes back with its new version (RQ-45)."""
    made = await writer.create(
        CONFIG_MAP, {"metadata": {"name": "one"}, "data": {"a": "1"}}, namespace=namespace
    )
    updated = await writer.update(CONFIG_MAP, {**made, "data": {"b": "2"}})
    stored = core.read_namespaced_config_map("one", namespace)
    assert stored.data == decode_object(updated, dict[str, Any])["data"] == {"b": "2"}
    assert updated["metadata"]["resourceVersion"] == stored.metadata.resource_version
    with pytest.raises(Conflict):
        await writer.update(CONFIG_MAP, {**made, "data": {"c": "3"}})
    assert core.read_namespaced_config_map("one", namespace).data == {"b": "2"}


async def test_an_update_of_a_status(writer: SyncWriter, core: Any, namespace: str) -> None:
    """Only the status changes; PUT goes to the subresource (RQ-47)."""
    core.create_namespaced_resource_quota(
        namespace, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "5"}}}
    )
    whole = json.loads(
        core.read_namespaced_resource_quota("q", namespace, _preload_content=False).data
    )
    whole["status"] = {"hard": {"pods": "5"}, "used": {"pods": "2"}}
    await writer.update(QUOTA, whole, subresource="status")
    assert core.read_namespaced_resource_quota("q", namespace).status.used == {"pods": "2"}


async def test_an_update_that_would_overwrite_any_version_is_refused(writer: SyncWriter) -> None:
    """Without a resourceVersion nothing is sent, and the message says what to do."""
    with pytest.raises(HostError, match=r"change the object of Objects\.full_object"):
        await writer.update(CONFIG_MAP, {"metadata": {"name": "one", "namespace": "default"}})
    assert writer.records == []


async def test_a_deletion(writer: SyncWriter, fault_proxy: FaultProxy, namespace: str) -> None:
    """Without preconditions DELETE has no body; a second one is `NotFound` (RC-62)."""
    await writer.create(CONFIG_MAP, {"metadata": {"name": "one"}}, namespace=namespace)
    await writer.delete(CONFIG_MAP, Key("one", namespace))
    (request,) = fault_proxy.requests(method="DELETE")
    assert request.body == b""
    with pytest.raises(NotFound):
        await writer.delete(CONFIG_MAP, Key("one", namespace))


async def test_a_deletion_of_one_very_object(writer: SyncWriter, core: Any, namespace: str) -> None:
    """With a uid or a version a namesake or a changed object stays."""
    made = await writer.create(CONFIG_MAP, {"metadata": {"name": "one"}}, namespace=namespace)
    key, uid = Key("one", namespace), made["metadata"]["uid"]
    with pytest.raises(Conflict):
        await writer.delete(CONFIG_MAP, key, uid="00000000-0000-0000-0000-000000000000")
    with pytest.raises(Conflict):
        await writer.delete(CONFIG_MAP, key, uid=uid, resource_version="1")
    assert core.read_namespaced_config_map("one", namespace).metadata.uid == uid
    await writer.delete(
        CONFIG_MAP, key, uid=uid, resource_version=made["metadata"]["resourceVersion"]
    )


async def test_a_single_read(writer: SyncWriter, namespace: str) -> None:
    """The server's object, None when there is none; it is no write (RC-36)."""
    assert await writer.read(CONFIG_MAP, Key("one", namespace)) is None
    await writer.create(
        CONFIG_MAP, {"metadata": {"name": "one"}, "data": {"a": "1"}}, namespace=namespace
    )
    found = await writer.read(CONFIG_MAP, Key("one", namespace))
    assert found is not None
    assert decode_object(found, dict[str, Any])["data"] == {"a": "1"}
    assert [record.verb for record in writer.records] == ["create"]


async def test_a_read_that_fails_is_no_missing_object(
    writer: SyncWriter, fault_proxy: FaultProxy, namespace: str
) -> None:
    """Only 404 means that it is not there."""
    fault_proxy.add(Answer(500), method="GET", path="/configmaps/one$")
    with pytest.raises(ApiError):
        await writer.read(CONFIG_MAP, Key("one", namespace))


async def test_an_apply_to_a_status(writer: SyncWriter, fault_proxy: FaultProxy) -> None:
    """The subresource ends the path; a missing object is not created (SC-81, SC-86)."""
    body: dict[str, Any] = {"status": {"conditions": []}}
    with pytest.raises(NotFound):
        await writer.apply(CIDR, Key("nobody"), body, field_manager="someone", subresource="status")
    (request,) = fault_proxy.requests(method="PATCH", path="/servicecidrs/nobody/status$")
    assert dict(request.query) == {"fieldManager": "someone", "force": "true"}
    assert json.loads(request.body) == {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": "nobody"},
        **body,
    }


async def test_an_object_that_has_changed(writer: SyncWriter, one: Key, core: Any) -> None:
    """A patch that names an old version is a `Conflict`, and nothing is written."""
    body = {"metadata": {"resourceVersion": "1"}, "data": {"a": "2"}}
    with pytest.raises(Conflict) as error:
        await writer.patch(CONFIG_MAP, one, body)
    assert (error.value.status, error.value.reason) == (409, "Conflict")
    assert data_of(core, one) == {"a": "1"}


async def test_a_field_of_somebody_else(writer: SyncWriter, one: Key, core: Any) -> None:
    """An apply without force to an owned field is a `Conflict`; with force it takes the field."""
    body = {"data": {"a": "2"}}
    with pytest.raises(Conflict) as error:
        await writer.apply(CONFIG_MAP, one, body, field_manager="m", force=False)
    assert error.value.causes == {"FieldManagerConflict"}
    assert data_of(core, one) == {"a": "1"}
    await writer.apply(CONFIG_MAP, one, body, field_manager="m")
    assert data_of(core, one) == {"a": "2"}


async def test_what_the_server_finds_invalid(writer: SyncWriter, one: Key) -> None:
    """A body that breaks the kind's rules is an error of 422 that names the field."""
    with pytest.raises(ApiError, match=r"422 Invalid: .*data\[\?\?\]") as error:
        await writer.patch(CONFIG_MAP, one, {"data": {"??": "x"}})
    assert error.value.causes == {"FieldValueInvalid"}


async def test_an_answer_that_is_lost(
    writer: SyncWriter, fault_proxy: FaultProxy, one: Key, core: Any
) -> None:
    """The server did it, but nobody heard: `Unreachable`, and not sent a second time."""
    fault_proxy.add(Cut(Point.ANSWER), method="PATCH")
    with pytest.raises(Unreachable):
        await writer.patch(CONFIG_MAP, one, {"data": {"a": "2"}})
    assert len(fault_proxy.requests(method="PATCH")) == 1
    assert data_of(core, one) == {"a": "2"}
