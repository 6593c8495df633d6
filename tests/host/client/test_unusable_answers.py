"""Answers that no client can use: not UTF-8, no JSON, compressed unasked, without end."""

import asyncio
import gzip
from datetime import timedelta

import pytest
from host.client.raw_servers import AGENT, client_of, get, saying

from kcm_host.api.errors import ApiError, Unreadable
from kcm_host.api.kinds import Kind
from kcm_host.client import rest as wire_client
from kcm_host.client.discovery import CachedDiscoveryClient
from kcm_host.client.errors import ConnectionProblem
from kcm_host.client.rest import JSON, Client
from kcm_host.client.service_account import with_service_account
from kcm_host.client.startup_probe import wait_for_api_server
from kcm_host.informer.list_watch import ListWatchOptions, paged_list
from kcm_host_testing.faults import Answer
from kcm_host_testing.proxy import FaultProxy

NO_UTF8 = b'{"kind":"\xff","items":[]}'
NO_JSON = b"<html>"
NESTED = b'{"x":' + b"[" * 100_000
OTHER_SHAPE = b'{"kind":1}'
UNREADABLE = [NO_UTF8, NO_JSON, NESTED, OTHER_SHAPE]
IDS = ["no UTF-8", "no JSON", "nested", "other shape"]
MEBIBYTE = 1 << 20


@pytest.mark.parametrize("body", UNREADABLE, ids=IDS)
async def test_unreadable_discovery_is_one_kind_of_error(
    client: Client, fault_proxy: FaultProxy, body: bytes
) -> None:
    """F-10: the task that asks again survives, and a start ends with one line."""
    fault_proxy.add(Answer(200, body), path="^/apis$")
    with pytest.raises(Unreadable, match="get /apis: undecodable response"):
        await CachedDiscoveryClient(client, user_agent=AGENT).fetch()
    assert not await CachedDiscoveryClient(client, user_agent=AGENT).poll()
    with pytest.raises(ConnectionProblem, match="undecodable response") as raised:
        await wait_for_api_server(client, agent=AGENT, timeout=timedelta(seconds=0.1))
    assert raised.value.exit_code == 1


@pytest.mark.parametrize("body", UNREADABLE, ids=IDS)
async def test_unreadable_pages_are_the_same_kind_of_error(
    client: Client, fault_proxy: FaultProxy, body: bytes
) -> None:
    """F-10: a list page from a broken proxy breaks the stream with a clear error."""
    fault_proxy.add(Answer(200, body), path="/configmaps")
    options = ListWatchOptions(
        Kind(group="", version="v1", name="ConfigMap", resource="configmaps")
    )

    class Nothing:
        def init(self) -> None:
            """Hear of the list."""

    with pytest.raises(Unreadable, match="list /api/v1/configmaps: undecodable response"):
        await paged_list(client, options, Nothing(), user_agent=AGENT)  # type: ignore[arg-type]


async def test_unreadable_tokens_are_told(client: Client, fault_proxy: FaultProxy) -> None:
    """F-10: also where a service account's token is requested."""
    tokens = fault_proxy.add(Answer(201, NO_UTF8), path="/token$")
    connection = with_service_account("acme", client, user_agent=AGENT)
    with pytest.raises(ConnectionProblem, match=r"no token for .* undecodable"):
        await connection.credentials.current()
    assert tokens.hits == 4


@pytest.mark.parametrize("body", [*UNREADABLE, b""], ids=[*IDS, "empty"])
async def test_unreadable_error_answers_keep_their_status(
    client: Client, fault_proxy: FaultProxy, body: bytes
) -> None:
    """F-10: a 503 whose message is Latin-1 is a 503."""
    fault_proxy.add(Answer(503, body), path="/namespaces$")
    with pytest.raises(ApiError) as raised:
        await get(client)
    assert raised.value.status == 503
    assert raised.value.server_message == ""


async def test_a_list_of_groups_is_not_taken_for_nothing(
    client: Client, fault_proxy: FaultProxy
) -> None:
    """F-27: what an old server, or one behind a proxy that drops headers, says is refused."""
    old = b'{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apps"}]}'
    fault_proxy.add(Answer(200, old), path="^/apis$")
    with pytest.raises(ConnectionProblem) as raised:
        await wait_for_api_server(client, agent=AGENT, timeout=timedelta(seconds=0.1))
    assert "/apis returned a 'APIGroupList'" in str(raised.value)
    assert "'APIGroupDiscoveryList' was requested" in str(raised.value)


def bomb(status: str) -> bytes:
    """Return an answer of a few KiB that inflates to 8 MiB."""
    body = gzip.compress(b'{"message":"' + b"a" * (8 * MEBIBYTE) + b'"}')
    head = f"HTTP/1.1 {status}\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@pytest.mark.parametrize("status", ["200 OK", "503 Busy"])
async def test_answers_are_not_inflated(status: str) -> None:
    """F-25: compression that nobody asked for is refused, for calls as for watches."""
    async with client_of(saying(bomb(status))) as client:
        with pytest.raises(Unreadable, match="encoded as 'gzip', which was not requested"):
            await get(client)
        with pytest.raises(Unreadable, match="encoded as 'gzip'"):
            async with client.watch("/w", user_agent=AGENT, query=(), accept=JSON):
                raise AssertionError("a refused watch gives no lines")


class Endless:
    """Sends a body for as long as somebody reads it, and counts."""

    def __init__(self, status: str) -> None:
        self.sent = 0
        self.ended = asyncio.Event()
        self._status = status

    async def __call__(self, _: bytes, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 {self._status}\r\nContent-Length: 999999999999\r\n\r\n"
        writer.write(head.encode())
        try:
            while True:
                writer.write(b"a" * 65536)
                await writer.drain()
                self.sent += 65536
        finally:
            self.ended.set()


async def test_bodies_are_read_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """F-25: what is too long is an error, and the connection is closed at once."""
    monkeypatch.setattr(wire_client, "MAX_BODY_BYTES", MEBIBYTE)
    server = Endless("200 OK")
    async with client_of(server) as client:
        with pytest.raises(Unreadable, match="the response is longer than 1 MiB"):
            await get(client)
        await asyncio.wait_for(server.ended.wait(), 60)
        assert server.sent < 32 * MEBIBYTE


async def test_the_beginning_of_a_long_error_is_shown() -> None:
    """F-25: of an error answer without end the status and the first words are told."""
    server = Endless("500 Broken")
    async with client_of(server) as client:
        with pytest.raises(ApiError) as raised:
            await get(client)
        assert raised.value.status == 500
        assert len(str(raised.value)) < 400
        await asyncio.wait_for(server.ended.wait(), 60)
        assert server.sent < 32 * MEBIBYTE
