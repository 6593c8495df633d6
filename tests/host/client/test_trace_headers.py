"""The header by which the API server's own spans join those of a sync."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from host.client.conftest import Connected
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler

from kcm_host.api.kinds import Key, Kind
from kcm_host.api.writes import Write
from kcm_host.client.rest import Client
from kcm_host.observe.otel import OtelSyncSpan, OtelTracing

NODE = Kind(group="", version="v1", name="Node", resource="nodes", namespaced=False)
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"


class Heads:
    """A server that keeps the header of each request."""

    def __init__(self) -> None:
        self.traceparents: list[str] = []
        self.url = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take one request."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower().splitlines()
        found = [line.partition(": ")[2] for line in head if line.startswith("traceparent: ")]
        self.traceparents.append(",".join(found))
        writer.write(ANSWER)
        await writer.drain()
        writer.close()


@pytest.fixture
async def heads() -> AsyncIterator[Heads]:
    """Run such a server."""
    heads = Heads()
    server = await asyncio.start_server(heads.answer, "127.0.0.1", 0)
    heads.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield heads
    server.close()


def tracing(sampler: Sampler) -> OtelTracing:
    """Return tracing whose spans nobody takes."""
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    return OtelTracing(provider, version="0", stop=lambda seconds: None)


def sync(made: OtelTracing) -> OtelSyncSpan:
    """Begin a sync."""
    return made.sync("ttl", Key("n1"), attempt=1, causes=(), merged=0, queued_seconds=0.0)


@pytest.mark.parametrize(("sampler", "flags"), [(ALWAYS_ON, "01"), (ALWAYS_OFF, "00")])
async def test_requests_of_a_sync_carry_its_span(
    heads: Heads, connected: Connected, sampler: Sampler, flags: str
) -> None:
    """Each is told the innermost span and whether it is recorded; others are told none (F-90)."""
    connection = connected(cluster={"server": heads.url}, user={"token": "t"})
    async with Client(connection, lambda _: None) as client:

        async def ask() -> str:
            await client.call("GET", "/api/v1/nodes/n1", verb="get", user_agent="acme")
            return heads.traceparents[-1]

        assert await ask() == ""
        with sync(tracing(sampler)) as span:
            ids = span._span.get_span_context()
            outer = f"00-{ids.trace_id:032x}-{ids.span_id:016x}-{flags}"
            assert await ask() == outer
            with span.write(Write(kind=NODE, key=Key("n1"), verb="patch")) as write:
                ids = write._span.get_span_context()
                assert await ask() == f"00-{ids.trace_id:032x}-{ids.span_id:016x}-{flags}"
            assert await ask() == outer
            assert await asyncio.create_task(ask()) == outer
        assert await ask() == ""
