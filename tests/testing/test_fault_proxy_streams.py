"""The proxy of faults in the middle of a watch."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import StreamReader as Stream
from kubernetes import client

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import AfterLines, Cut, Rewrite, Stall
from kcm_host_testing.proxy import FaultProxy

Create = Callable[[str], Awaitable[object]]
Watch = Callable[[], AbstractAsyncContextManager[Stream]]

WATCH = {"watch": "1"}
LOST = (aiohttp.ClientPayloadError, aiohttp.ClientOSError)
# How long an event may not come before a test believes that it does not.
SILENCE_SECONDS = 0.3


@pytest.fixture
def proxy(api_server: ApiServer) -> Iterator[FaultProxy]:
    """A proxy without TLS, whose clients can leave in mid-stream without a farewell."""
    with FaultProxy(api_server, tls=False) as running:
        yield running


@pytest.fixture
def create(api_server: ApiServer, namespace: str) -> Create:
    """Creates a ConfigMap with a name in the namespace of the test."""
    core: Any = client.CoreV1Api(api_server.client())

    async def call(name: str) -> object:
        body = {"metadata": {"name": name}}
        return await asyncio.to_thread(core.create_namespaced_config_map, namespace, body)

    return call


@pytest.fixture
async def three(create: Create) -> None:
    """The objects with which every watch in the namespace begins."""
    for name in ("a", "b", "c"):
        await create(name)


@pytest.fixture
def watch(proxy: FaultProxy, api_server: ApiServer, namespace: str) -> Watch:
    """Opens a watch of the ConfigMaps of the test's namespace through the proxy."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Stream]:
        headers = {"Authorization": f"Bearer {api_server.admin_token}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            url = f"{proxy.url}/api/v1/namespaces/{namespace}/configmaps?watch=1"
            async with session.get(url, timeout=aiohttp.ClientTimeout(60)) as answer:
                assert answer.status == 200
                yield answer.content

    return opened


async def name(stream: Stream) -> str:
    """The name of the object in the next event."""
    return str(json.loads(await stream.readline())["object"]["metadata"]["name"])


@pytest.mark.usefixtures("three")
async def test_events_pass_as_they_come(proxy: FaultProxy, watch: Watch, create: Create) -> None:
    """An open watch gets an event at once, and the record counts lines while it is open."""
    async with watch() as stream:
        assert [await name(stream) for _ in range(3)] == ["a", "b", "c"]
        await create("d")
        assert await asyncio.wait_for(name(stream), 60) == "d"
        (request,) = proxy.requests(query=WATCH)
    assert request.watch
    assert request.open
    assert (request.status, request.lines) == (200, 4)


async def test_a_client_that_leaves_ends_the_exchange(
    proxy: FaultProxy, watch: Watch, api_server: ApiServer, namespace: str
) -> None:
    """When the client closes its watch, the server's side is closed as well."""
    async with watch():
        pass
    await asyncio.to_thread(proxy.wait_for_requests, when=lambda request: not request.open)
    ended = await asyncio.to_thread(
        api_server.audit.wait_for,
        lambda entry: (
            entry.namespace == namespace
            and entry.stage == "ResponseComplete"
            and entry.verb == "watch"
        ),
    )
    assert ended.resource == "configmaps"


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("lines", [0, 2])
async def test_a_watch_is_cut_after_so_many_lines(
    proxy: FaultProxy, watch: Watch, lines: int
) -> None:
    """The lines before the cut arrive whole, then the body ends without its proper end, once."""
    proxy.add(Cut(AfterLines(lines)), query=WATCH, times=1)
    async with watch() as stream:
        assert [await name(stream) for _ in range(lines)] == ["a", "b"][:lines]
        with pytest.raises(LOST):
            await stream.readline()
    async with watch() as stream:
        assert [await name(stream) for _ in range(3)] == ["a", "b", "c"]


async def test_an_open_watch_is_cut_on_demand(proxy: FaultProxy, watch: Watch) -> None:
    """A cut that is also for open exchanges ends a watch that idles, at once."""
    async with watch() as stream:
        cut = proxy.add(Cut(), query=WATCH, also_open=True, times=1)
        with pytest.raises(LOST):
            await asyncio.wait_for(stream.readline(), 60)
    assert cut.hits == 1


@pytest.mark.usefixtures("three")
async def test_a_stalled_watch_is_open_and_silent_until_released(
    proxy: FaultProxy, watch: Watch
) -> None:
    """What comes during a stall is not lost: it arrives when the stall is removed."""
    stall = proxy.add(Stall(AfterLines(1)), query=WATCH, times=1)
    async with watch() as stream:
        assert await name(stream) == "a"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stream.readline(), SILENCE_SECONDS)
        stall.remove()
        assert [await name(stream) for _ in range(2)] == ["b", "c"]


async def test_an_open_watch_is_stalled_on_demand(
    proxy: FaultProxy, watch: Watch, create: Create
) -> None:
    """A stall that is also for open exchanges holds back the next event of an idle watch."""
    async with watch() as stream:
        stall = proxy.add(Stall(), query=WATCH, also_open=True)
        await create("held-back")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stream.readline(), SILENCE_SECONDS)
        stall.remove()
        assert await asyncio.wait_for(name(stream), 60) == "held-back"


@pytest.mark.usefixtures("three")
async def test_single_events_are_changed_or_left_out(
    proxy: FaultProxy, watch: Watch, create: Create
) -> None:
    """A rewrite gets one event at a time, and None leaves it out; removed, it does nothing."""

    def spoil(line: bytes) -> bytes | None:
        if b'"name":"a"' in line:
            return None
        return b"{" if b'"name":"b"' in line else line

    rule = proxy.add(Rewrite(spoil), query=WATCH)
    async with watch() as stream:
        assert await stream.readline() == b"{\n"
        assert await name(stream) == "c"
        rule.remove()
        await create("b-again")
        assert await name(stream) == "b-again"


async def test_refusing_cuts_what_is_open(proxy: FaultProxy, watch: Watch) -> None:
    """`refuse` ends open watches too, as a server does that is gone."""
    async with watch() as stream:
        proxy.refuse()
        with pytest.raises(LOST):
            await asyncio.wait_for(stream.readline(), 60)


@pytest.mark.usefixtures("three")
async def test_stopping_ends_a_stalled_watch(proxy: FaultProxy, watch: Watch) -> None:
    """A proxy stops at once even while it holds streams back."""
    proxy.add(Stall(AfterLines(1)), query=WATCH)
    async with watch() as stream:
        await name(stream)
        await asyncio.wait_for(asyncio.to_thread(proxy.stop), 60)
        with pytest.raises(LOST):
            await stream.readline()
