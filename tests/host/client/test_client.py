"""Requests to a real API server: what they say, what comes back, and what is counted."""

import asyncio
import dataclasses
import json
import platform
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from generated_watch import next_line, rest_of
from host.client.raw_servers import AGENT, get, nobody

from kcm_host import __version__
from kcm_host.api import ControllerInfo
from kcm_host.api.errors import ApiError, Conflict, NotFound, Unreachable
from kcm_host.client import rest as wire_client
from kcm_host.client.auth.connection import Connection, connect
from kcm_host.client.auth.credentials import Credentials, RequestCredentials
from kcm_host.client.errors import ConnectionProblem
from kcm_host.client.rest import JSON, Client, Watch
from kcm_host.observe.states import RequestRecord
from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import AfterLines, Answer, Cut, Point, Stall
from kcm_host_testing.proxy import FaultProxy

NAMESPACES = "/api/v1/namespaces"
WATCH = (("watch", "true"),)

Connect = Callable[..., Awaitable[Client]]


@pytest.fixture
def records() -> list[RequestRecord]:
    """Return the records of all attempts of the test's client."""
    return []


@pytest.fixture
async def client(fault_proxy: FaultProxy, records: list[RequestRecord]) -> AsyncIterator[Client]:
    """Return a client that goes through the proxy as admin."""
    connection = connect(str(fault_proxy.kubeconfig()), environ={})
    async with Client(connection, records.append) as made:
        yield made


@pytest.fixture
async def speaking() -> AsyncIterator[Connect]:
    """Connect to a server that answers every request with the same bytes."""
    async with AsyncExitStack() as stack:

        async def start(
            answer: bytes,
            on_request: Callable[[RequestRecord], None],
            then: asyncio.Future[bytes] | None = None,
        ) -> Client:
            async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                while await reader.readline() != b"\r\n":
                    pass
                writer.write(answer)
                writer.write(await then if then else b"")
                writer.close()
                await writer.wait_closed()

            server = await asyncio.start_server(respond, "127.0.0.1", 0)
            await stack.enter_async_context(server)
            port = server.sockets[0].getsockname()[1]
            connection = Connection(
                base_url=f"http://127.0.0.1:{port}",
                origin="a test",
                credentials=Credentials(nobody, initial=RequestCredentials({})),
            )
            return await stack.enter_async_context(Client(connection, on_request))

        yield start


@asynccontextmanager
async def watching(client: Client) -> AsyncIterator[Watch]:
    """Return an open watch."""
    async with client.watch(NAMESPACES, user_agent=AGENT, query=WATCH, accept=JSON) as watch:
        yield watch


async def test_requests_say_who_asks(client: Client, fault_proxy: FaultProxy) -> None:
    """The user agent names host, version, system and controller; nothing is compressed (H-31)."""
    await get(client)
    async with watching(client):
        await asyncio.to_thread(fault_proxy.wait_for_requests, 2)
    system = f"{platform.system().lower()}/{platform.machine()}"
    for request in fault_proxy.requests():
        assert request.user_agent == f"kcm-host/{__version__} ({system}) acme"
        assert "accept-encoding" not in request.headers
        assert request.headers["accept"] == "application/json"


async def test_calls_carry_what_they_are_given(
    client: Client, fault_proxy: FaultProxy, records: list[RequestRecord], namespace: str
) -> None:
    """Query, body and content type go out as they are; a record counts the bytes (H-75)."""
    path = f"{NAMESPACES}/{namespace}/configmaps"
    body = json.dumps({"metadata": {"name": "a"}}).encode()
    answer = await client.call(
        "POST",
        path,
        verb="create",
        user_agent=AGENT,
        query=(("dryRun", "All"),),
        body=body,
        content_type="application/json",
    )
    assert json.loads(answer)["metadata"]["name"] == "a"
    (request,) = fault_proxy.requests()
    assert (request.method, request.path, dict(request.query)) == ("POST", path, {"dryRun": "All"})
    assert request.body == body
    (record,) = records
    assert (record.method, record.verb, record.status) == ("POST", "create", 201)
    assert (record.sent_bytes, record.received_bytes) == (len(body), len(answer))
    assert record.host == fault_proxy.url.removeprefix("https://")
    assert 0 < record.seconds < 10


@pytest.mark.parametrize(
    ("path", "kind", "status"),
    [(f"{NAMESPACES}/none", NotFound, 404), ("/apis/none/v1/things", NotFound, 404)],
)
async def test_error_answers_of_the_server_are_told(
    client: Client, records: list[RequestRecord], path: str, kind: type[ApiError], status: int
) -> None:
    """A Status object gives status, reason and message of the error."""
    with pytest.raises(kind) as raised:
        await get(client, path)
    assert raised.value.status == status
    assert f"get {path}: {status}" in str(raised.value)
    assert [record.status for record in records] == [status]


async def test_a_conflict_has_a_class_of_its_own(client: Client) -> None:
    """Creating what exists is a 409, with the server's reason."""
    body = b'{"metadata":{"name":"default"}}'
    with pytest.raises(Conflict, match="already exists") as raised:
        await client.call(
            "POST", NAMESPACES, verb="create", user_agent=AGENT, body=body, content_type=JSON
        )
    assert raised.value.reason == "AlreadyExists"


async def test_a_denied_request_names_user_and_verb(api_server: ApiServer) -> None:
    """The server's own words for a 403 reach the caller."""
    connection = connect(str(api_server.kubeconfig("alice")), environ={})
    async with Client(connection, lambda _: None) as client:
        with pytest.raises(ApiError, match='User "alice" cannot') as raised:
            await get(client)
    assert (raised.value.status, raised.value.reason) == (403, "Forbidden")


@pytest.mark.parametrize(
    ("status", "body", "headers", "text", "wait"),
    [
        (502, b"<html>bad gateway</html>", {}, "<html>bad gateway</html>", None),
        (503, b"", {"Retry-After": "7"}, "503", 7.0),
        (429, b"\xff\xfe", {"Retry-After": "soon"}, "429", None),
        (500, b'{"message": 5}', {}, '{"message": 5}', None),
        (302, b"elsewhere", {"Location": "/login"}, "302: elsewhere", None),
        (500, b"x" * 5000, {}, "x" * 200, None),
    ],
    ids=["html", "retry-after", "no-text", "no-status", "redirect", "long"],
)
async def test_error_pages_of_others_are_told_in_short(
    client: Client,
    fault_proxy: FaultProxy,
    status: int,
    body: bytes,
    headers: dict[str, str],
    text: str,
    wait: float | None,
) -> None:
    """What stands between us and the server answers in its own form; redirects are errors."""
    fault_proxy.add(Answer(status, body, headers))
    with pytest.raises(ApiError) as raised:
        await get(client)
    assert text in str(raised.value)
    assert len(str(raised.value)) < 300
    assert raised.value.status == status
    assert raised.value.reason == ""
    assert raised.value.retry_after_seconds == wait
    assert len(fault_proxy.requests()) == 1


async def with_tokens(connection: Connection, *tokens: str) -> Connection:
    """Return the connection with these tokens for credentials, one each time they are fetched."""
    known = await connection.credentials.current()
    left = list(tokens)

    async def fetch() -> RequestCredentials:
        if not left:
            raise ConnectionProblem("no more tokens; add one to the test")
        return RequestCredentials({"Authorization": f"Bearer {left.pop(0)}"}, known.ssl)

    return dataclasses.replace(connection, credentials=Credentials(fetch))


async def test_refused_credentials_are_fetched_anew_once(
    fault_proxy: FaultProxy, api_server: ApiServer, records: list[RequestRecord]
) -> None:
    """After a 401 the request goes out again with fresh credentials; both count (H-75)."""
    connection = connect(str(fault_proxy.kubeconfig()), environ={})
    renewed = await with_tokens(connection, "old", api_server.admin_token)
    async with Client(renewed, records.append) as client:
        await get(client)
        async with watching(client) as watch:
            assert await next_line(watch)
    assert [(record.verb, record.status) for record in records] == [
        ("get", 401),
        ("get", 200),
        ("watch", 200),
    ]


async def test_credentials_refused_twice_are_an_error(
    fault_proxy: FaultProxy, records: list[RequestRecord]
) -> None:
    """A second 401 in a row goes to the caller."""
    connection = connect(str(fault_proxy.kubeconfig()), environ={})
    async with Client(await with_tokens(connection, "old", "older"), records.append) as client:
        with pytest.raises(ApiError) as raised:
            await get(client)
    assert raised.value.status == 401
    assert [record.status for record in records] == [401, 401]


async def test_requests_refused_together_fetch_once(
    fault_proxy: FaultProxy, api_server: ApiServer
) -> None:
    """Late 401s to old credentials leave the fresh ones alone: a third fetch would fail here."""
    connection = connect(str(fault_proxy.kubeconfig()), environ={})
    renewed = await with_tokens(connection, "old", api_server.admin_token)
    async with Client(renewed, lambda _: None) as client:
        await asyncio.gather(*(get(client) for _ in range(10)))
    assert len(fault_proxy.requests(when=lambda request: request.status == 200)) == 10


@pytest.mark.parametrize("method", ["POST", "PATCH"])
@pytest.mark.parametrize("point", list(Point), ids=str)
async def test_no_answer_is_unreachable_and_counted(
    client: Client, fault_proxy: FaultProxy, records: list[RequestRecord], point: Point, method: str
) -> None:
    """A cut call raises Unreachable, is counted with status 0 and never sent again (H-75)."""
    fault_proxy.add(Cut(point))
    with pytest.raises(Unreachable, match="no response") as raised:
        await client.call(method, NAMESPACES, verb="create", user_agent=AGENT, body=b"{}")
    assert not raised.value.refused
    assert [(record.method, record.status) for record in records] == [(method, 0)]
    assert len(fault_proxy.requests()) == 1


async def test_an_answer_cut_short_is_unreachable_and_counted(
    client: Client, fault_proxy: FaultProxy, records: list[RequestRecord]
) -> None:
    """A body that breaks off is no answer, whatever its status was (H-75)."""
    fault_proxy.add(Cut(AfterLines(0)))
    with pytest.raises(Unreachable):
        await get(client)
    assert [record.status for record in records] == [0]


async def test_a_refused_connection_is_told_apart(
    client: Client, fault_proxy: FaultProxy, records: list[RequestRecord]
) -> None:
    """`refused` says that nothing can have been sent (IQ-24)."""
    fault_proxy.refuse()
    with pytest.raises(Unreachable) as raised:
        await get(client)
    assert raised.value.refused
    assert [record.status for record in records] == [0]


async def test_a_cancelled_call_is_counted(
    client: Client, fault_proxy: FaultProxy, records: list[RequestRecord]
) -> None:
    """An attempt that its caller gives up has status 0 (H-75)."""
    stall = fault_proxy.add(Stall())
    call = asyncio.create_task(get(client))
    await asyncio.to_thread(stall.wait_until_hit)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert [record.status for record in records] == [0]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"",
    ],
    ids=["chunks", "length", "other protocol", "nothing"],
)
async def test_answers_that_are_no_http_are_unreachable(
    speaking: Connect, records: list[RequestRecord], answer: bytes
) -> None:
    """Whatever is wrong with an answer, callers meet one kind of error."""
    client = await speaking(answer, records.append)
    with pytest.raises(Unreachable):
        await get(client, "/healthz")
    assert [record.status for record in records] == [0]


ONE_LINE = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n"


@pytest.mark.parametrize("rest", [b"8\r\nhal", b""])
async def test_a_watch_ends_after_its_last_whole_line(speaking: Connect, rest: bytes) -> None:
    """A body that breaks off, within a line or between two, is a normal end (IQ-117)."""
    then: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    client = await speaking(ONE_LINE, lambda _: None, then)
    async with watching(client) as watch:
        assert await next_line(watch) == b"one"
        then.set_result(rest)
        assert await rest_of(watch) == []


async def test_watches_take_no_connections_from_calls(
    client: Client, fault_proxy: FaultProxy
) -> None:
    """With more open watches than any pool has, a call is answered at once."""
    async with AsyncExitStack() as stack:
        for _ in range(120):
            await stack.enter_async_context(watching(client))
        async with asyncio.timeout(60):
            await get(client)
        assert len(fault_proxy.requests(when=lambda one: one.watch and one.open)) == 120


def test_a_call_ends_long_before_its_sync() -> None:
    """A sync whose request gets no answer learns that, instead of being cancelled itself (F-5)."""
    assert ControllerInfo().sync_timeout.total_seconds() / 2 >= wire_client.REQUEST_SECONDS


async def test_only_silence_ends_a_watch(
    fault_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch outlives the time a whole call may take; without a byte it ends quietly (IQ-116)."""
    monkeypatch.setattr(wire_client, "REQUEST_SECONDS", 0.5)
    monkeypatch.setattr(wire_client, "WATCH_READ_SECONDS", 1.0)
    connection = connect(str(fault_proxy.kubeconfig()), environ={})
    async with Client(connection, lambda _: None) as client:
        fault_proxy.add(Stall(), path="slow")
        with pytest.raises(Unreachable):
            await get(client, "/api/v1/slow")
        async with watching(client) as watch:
            stall = fault_proxy.add(Stall(), query={"watch": "true"}, also_open=True)
            started = asyncio.get_running_loop().time()
            assert [line for line in await rest_of(watch) if b'"ERROR"' in line] == []
            assert asyncio.get_running_loop().time() - started > 0.9
            stall.remove()


async def test_a_watch_is_counted_when_it_opens(
    client: Client, records: list[RequestRecord], fault_proxy: FaultProxy
) -> None:
    """One record for a watch, at its first byte, or for its refusal (H-75)."""
    async with watching(client):
        assert [(record.verb, record.status) for record in records] == [("watch", 200)]
    fault_proxy.add(Answer(403))
    with pytest.raises(ApiError):
        async with watching(client):
            raise AssertionError("a refused watch gives no lines")
    assert [record.status for record in records] == [200, 403]


async def test_no_credentials_are_no_request(
    fault_proxy: FaultProxy, records: list[RequestRecord]
) -> None:
    """Without credentials nothing is sent, in particular not as somebody anonymous."""
    connection = connect(str(fault_proxy.kubeconfig()), environ={})
    async with Client(await with_tokens(connection), records.append) as client:
        with pytest.raises(Unreachable, match="no more tokens"):
            await get(client)
    assert fault_proxy.requests() == []
    assert records == []
