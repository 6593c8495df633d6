"""The proxy of faults in the middle of a watch."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import AfterLines, Cut, Rewrite, Stall
from kcm_host_testing.kubectl import Kubectl
from kcm_host_testing.proxy import FaultProxy

Until = Callable[[Callable[[], bool]], None]

# A fresh server begins every watch of namespaces with at least these, in this order.
FIRST = ["default", "kube-node-lease", "kube-public", "kube-system"]
WATCH = {"watch": "1"}


@asynccontextmanager
async def watch(proxy: FaultProxy, server: ApiServer) -> AsyncIterator[aiohttp.StreamReader]:
    """An open watch of all namespaces through the proxy."""
    context = ssl.create_default_context(cafile=proxy.ca_file)
    headers = {"Authorization": f"Bearer {server.admin_token}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        url = f"{proxy.url}/api/v1/namespaces?watch=1"
        async with session.get(url, ssl=context, timeout=aiohttp.ClientTimeout(20)) as answer:
            assert answer.status == 200
            yield answer.content


async def name(stream: aiohttp.StreamReader) -> str:
    """The name of the object in the next event."""
    return str(json.loads(await stream.readline())["object"]["metadata"]["name"])


async def test_events_pass_as_they_come(
    fault_proxy: FaultProxy, api_server: ApiServer, kubectl: Kubectl
) -> None:
    """An open watch gets an event at once, and the record counts lines while it is open."""
    async with watch(fault_proxy, api_server) as stream:
        seen = [await name(stream) for _ in FIRST]
        await asyncio.to_thread(kubectl, "create", "namespace", "passed-on")
        while "passed-on" not in seen:
            seen.append(await asyncio.wait_for(name(stream), 5))
        (request,) = fault_proxy.requests(query=WATCH)
        assert request.watch
        assert request.open
        assert request.status == 200
        assert request.lines == len(seen)


async def test_a_client_that_leaves_ends_the_servers_side(
    fault_proxy: FaultProxy, api_server: ApiServer
) -> None:
    """When the client closes its watch, the exchange is over and the server is told."""
    async with watch(fault_proxy, api_server) as stream:
        await name(stream)
    (request,) = await asyncio.to_thread(
        fault_proxy.wait_for_requests, when=lambda request: not request.open
    )
    assert request.path == "/api/v1/namespaces"


@pytest.mark.parametrize("lines", [0, 2])
async def test_a_watch_is_cut_after_so_many_lines(
    fault_proxy: FaultProxy, api_server: ApiServer, lines: int
) -> None:
    """The lines before the cut arrive whole, and then the body ends without its proper end."""
    fault_proxy.add(Cut(AfterLines(lines)), query=WATCH, times=1)
    async with watch(fault_proxy, api_server) as stream:
        seen = [await name(stream) for _ in range(lines)]
        with pytest.raises(aiohttp.ClientPayloadError):
            await stream.readline()
    assert len(seen) == lines
    async with watch(fault_proxy, api_server) as stream:
        assert await name(stream)


async def test_an_open_watch_is_cut_on_demand(
    fault_proxy: FaultProxy, api_server: ApiServer
) -> None:
    """A cut that is also for open exchanges ends a watch that idles, at once."""
    async with watch(fault_proxy, api_server) as stream:
        await name(stream)
        cut = fault_proxy.add(Cut(), query=WATCH, also_open=True, times=1)
        with pytest.raises((aiohttp.ClientPayloadError, aiohttp.ClientOSError)):
            while await asyncio.wait_for(stream.readline(), 5):
                pass
    assert cut.hits == 1


async def test_a_stalled_watch_is_open_and_silent_until_released(
    fault_proxy: FaultProxy, api_server: ApiServer, kubectl: Kubectl
) -> None:
    """Events during a stall are not lost: they come when it is removed."""
    stall = fault_proxy.add(Stall(AfterLines(1)), query=WATCH, times=1)
    async with watch(fault_proxy, api_server) as stream:
        first = await name(stream)
        await asyncio.to_thread(kubectl, "create", "namespace", "in-the-stall")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stream.readline(), 0.3)
        stall.remove()
        seen = [first]
        while "in-the-stall" not in seen:
            seen.append(await asyncio.wait_for(name(stream), 5))
    assert set(FIRST) <= set(seen)


async def test_an_open_watch_is_stalled_on_demand(
    fault_proxy: FaultProxy, api_server: ApiServer, kubectl: Kubectl
) -> None:
    """A stall that is also for open exchanges holds back the next event of an idle watch."""
    async with watch(fault_proxy, api_server) as stream:
        with pytest.raises(TimeoutError):
            while True:
                await asyncio.wait_for(stream.readline(), 0.3)
        stall = fault_proxy.add(Stall(), query=WATCH, also_open=True)
        await asyncio.to_thread(kubectl, "create", "namespace", "held-back")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stream.readline(), 0.3)
        stall.remove()
        assert await asyncio.wait_for(name(stream), 5) == "held-back"


async def test_single_events_are_changed_or_left_out(
    fault_proxy: FaultProxy, api_server: ApiServer
) -> None:
    """A rewrite gets one event at a time, and None leaves it out."""

    def spoil(line: bytes) -> bytes | None:
        if b'"name":"default"' in line:
            return None
        return b"{" if b'"name":"kube-public"' in line else line

    fault_proxy.add(Rewrite(spoil), query=WATCH)
    async with watch(fault_proxy, api_server) as stream:
        lines = [await stream.readline() for _ in FIRST[1:]]
    assert lines[1] == b"{\n"
    assert json.loads(lines[0])["object"]["metadata"]["name"] == "kube-node-lease"
    assert json.loads(lines[2])["object"]["metadata"]["name"] == "kube-system"


async def test_refusing_cuts_what_is_open(fault_proxy: FaultProxy, api_server: ApiServer) -> None:
    """`refuse` ends open watches too, as a server does that is gone."""
    async with watch(fault_proxy, api_server) as stream:
        await name(stream)
        fault_proxy.refuse()
        with pytest.raises((aiohttp.ClientPayloadError, aiohttp.ClientOSError)):
            while await asyncio.wait_for(stream.readline(), 5):
                pass
    fault_proxy.accept()


async def test_stopping_ends_a_stalled_watch(api_server: ApiServer) -> None:
    """A proxy stops at once even while it holds streams back."""
    with FaultProxy(api_server) as proxy:
        proxy.add(Stall(AfterLines(1)), query=WATCH)
        async with watch(proxy, api_server) as stream:
            await name(stream)
            await asyncio.wait_for(asyncio.to_thread(proxy.stop), 5)
            with pytest.raises((aiohttp.ClientPayloadError, aiohttp.ClientOSError)):
                await stream.readline()
