"""What goes wrong with a write reaches the sync as an error that says what happened."""

import asyncio
from typing import Any

import pytest
from host.reconcile.live_senders import Attempts, MakeSender
from host.reconcile.worker_rig import CLAIM
from kubernetes import client as official

from kcm_host.api.errors import ApiError, Conflict, NotFound, Unreachable
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.writes import Permission
from kcm_host.client.auth.connection import connect
from kcm_host.client.rest import Client
from kcm_host.reconcile.sender import LiveSender
from kcm_host.reconcile.writer import SyncWriter
from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import Cut, Point, Stall
from kcm_host_testing.proxy import FaultProxy


def writer_of(sender: LiveSender) -> SyncWriter:
    """Return a writer that may write ConfigMaps."""
    return SyncWriter("ttl", sender, frozenset({Permission(kind=CLAIM, verb="patch")}))


@pytest.fixture
async def writer(live: MakeSender) -> SyncWriter:
    """A writer with a live sender behind it."""
    return writer_of(live())


@pytest.fixture
def one(api_server: ApiServer, namespace: str) -> Key:
    """The key of a ConfigMap that exists."""
    core: Any = official.CoreV1Api(api_server.client())
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "one"}, "data": {"a": "1"}})
    return Key("one", namespace)


@pytest.fixture
def data(api_server: ApiServer, one: Key) -> Any:
    """Reads what that ConfigMap holds now."""
    core: Any = official.CoreV1Api(api_server.client())
    return lambda: core.read_namespaced_config_map(one.name, one.namespace).data


async def test_an_object_that_is_not_there(writer: SyncWriter, namespace: str) -> None:
    """A patch of a missing object is `NotFound`, with the request in its text."""
    with pytest.raises(NotFound) as error:
        await writer.patch(CLAIM, Key("none", namespace), {"data": {}})
    assert (error.value.status, error.value.reason) == (404, "NotFound")
    assert str(error.value) == (
        f"patch /api/v1/namespaces/{namespace}/configmaps/none: 404 NotFound: "
        'configmaps "none" not found'
    )
    assert [record.status for record in writer.records] == [404]


async def test_an_object_that_has_changed(writer: SyncWriter, one: Key, data: Any) -> None:
    """A patch that names an old version is a `Conflict`, and nothing is written."""
    body = {"metadata": {"resourceVersion": "1"}, "data": {"a": "2"}}
    with pytest.raises(Conflict) as error:
        await writer.patch(CLAIM, one, body)
    assert (error.value.status, error.value.reason) == (409, "Conflict")
    assert data() == {"a": "1"}


async def test_a_field_of_somebody_else(writer: SyncWriter, one: Key, data: Any) -> None:
    """An apply without force to an owned field is a `Conflict`; with force it takes the field."""
    body = {"data": {"a": "2"}}
    with pytest.raises(Conflict) as error:
        await writer.apply(CLAIM, one, body, field_manager="m", force=False)
    assert error.value.causes == {"FieldManagerConflict"}
    assert data() == {"a": "1"}
    await writer.apply(CLAIM, one, body, field_manager="m")
    assert data() == {"a": "2"}


async def test_what_the_server_forbids(
    fault_proxy: FaultProxy, one: Key, attempts: Attempts
) -> None:
    """A user without the right to write gets the server's refusal, sent once."""
    connection = connect(str(fault_proxy.kubeconfig("alice")), environ={})
    async with Client(connection, attempts) as client:
        writer = writer_of(LiveSender(client, user_agent="kcm-host/0"))
        with pytest.raises(ApiError) as error:
            await writer.patch(CLAIM, one, {"data": {}})
    assert (error.value.status, error.value.reason) == (403, "Forbidden")
    assert 'User "alice" cannot patch' in str(error.value)
    assert [record.status for record in attempts.records] == [403]


async def test_what_the_server_finds_invalid(writer: SyncWriter, one: Key) -> None:
    """A body that breaks the kind's rules is an error of 422 that names the field."""
    with pytest.raises(ApiError, match=r"422 Invalid: .*data\[\?\?\]") as error:
        await writer.patch(CLAIM, one, {"data": {"??": "x"}})
    assert error.value.causes == {"FieldValueInvalid"}


async def test_a_connection_that_is_cut_before_the_server(
    writer: SyncWriter, fault_proxy: FaultProxy, one: Key, data: Any
) -> None:
    """No answer is `Unreachable`, sent once and recorded as status 0; nothing was written."""
    fault_proxy.add(Cut(), method="PATCH")
    with pytest.raises(Unreachable) as error:
        await writer.patch(CLAIM, one, {"data": {"a": "2"}})
    assert not error.value.refused
    assert [record.status for record in writer.records] == [0]
    assert len(fault_proxy.requests(method="PATCH")) == 1
    assert data() == {"a": "1"}


async def test_an_answer_that_is_lost(
    writer: SyncWriter, fault_proxy: FaultProxy, one: Key, data: Any
) -> None:
    """The server did it, but nobody heard: `Unreachable`, and not sent a second time."""
    fault_proxy.add(Cut(Point.ANSWER), method="PATCH")
    with pytest.raises(Unreachable):
        await writer.patch(CLAIM, one, {"data": {"a": "2"}})
    assert len(fault_proxy.requests(method="PATCH")) == 1
    assert data() == {"a": "2"}


async def test_a_server_that_is_not_there(
    writer: SyncWriter, fault_proxy: FaultProxy, one: Key, data: Any
) -> None:
    """A refused connection says that nothing was sent; afterwards the same writer works again."""
    fault_proxy.refuse()
    with pytest.raises(Unreachable) as error:
        await writer.patch(CLAIM, one, {"data": {"a": "2"}})
    assert error.value.refused
    fault_proxy.accept()
    await writer.patch(CLAIM, one, {"data": {"a": "3"}})
    assert data() == {"a": "3"}
    assert [record.status for record in writer.records] == [0, 200]


async def test_a_write_that_is_cancelled_while_it_waits(
    writer: SyncWriter, fault_proxy: FaultProxy, one: Key
) -> None:
    """Cancelling a sync ends its write at once and leaves a record of it without status."""
    fault_proxy.add(Stall(), method="PATCH")
    task = asyncio.create_task(writer.patch(CLAIM, one, {"data": {"a": "2"}}))
    await asyncio.to_thread(fault_proxy.wait_for_requests, method="PATCH")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [record.status for record in writer.records] == [0]


async def test_a_kind_that_is_not_served(live: MakeSender, fault_proxy: FaultProxy) -> None:
    """An API that is not there is `NotFound` as well."""
    kind = Kind(
        group="acme.example", version="v1", name="Widget", resource="widgets", namespaced=False
    )
    writer = SyncWriter("ttl", live(), frozenset({Permission(kind=kind, verb="patch")}))
    with pytest.raises(NotFound, match=r"patch /apis/acme\.example/v1/widgets/x: 404"):
        await writer.patch(kind, Key("x"), {})
    assert [request.status for request in fault_proxy.requests()] == [404]
