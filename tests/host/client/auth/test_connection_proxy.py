"""Which proxy is used, and that requests really go through it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from host.client.conftest import Connected, Serve, ask

from kcm_host.client.auth.addresses import Proxy, proxy_from_environment
from kcm_host.client.errors import ConnectionProblem

PROXY = "http://proxy.example:3128"


@pytest.mark.parametrize(
    ("server", "exceptions", "proxied"),
    [
        ("https://kube.example", "", True),
        ("https://localhost:6443", "", False),
        ("https://127.0.0.9:6443", "", False),
        ("https://[::1]:6443", "", False),
        ("https://kube.example", "*", False),
        ("https://kube.example", "other.example, kube.example", False),
        ("https://a.kube.example", "kube.example", False),
        ("https://notkube.example", "kube.example", True),
        ("https://kube.example", ".kube.example", True),
        ("https://a.kube.example", ".kube.example", False),
        ("https://a.kube.example", "*.kube.example", False),
        ("https://KUBE.example", "Kube.Example", False),
        ("https://kube.example:6443", "kube.example:6443", False),
        ("https://kube.example:6443", "kube.example:443", True),
        ("https://kube.example", "kube.example:443", False),
        ("https://10.1.2.3", "10.0.0.0/8", False),
        ("https://11.1.2.3", "10.0.0.0/8", True),
        ("https://kube.example", "10.0.0.0/8", True),
        ("https://10.1.2.3:6443", "10.1.2.3", False),
        ("https://10.1.2.3:6443", "10.1.2.3:1", True),
        ("https://[fd00::5]:6443", "fd00::/8", False),
        ("https://[fd00::5]:6443", "[fd00::5]:6443", False),
        ("https://[fd00::5]:6443", "fd00::5", False),
        ("https://10.1.2.3", "not/a/network,,", True),
    ],
)
def test_no_proxy_is_read_as_go_does(server: str, exceptions: str, proxied: bool) -> None:
    """NO_PROXY knows names, subdomains, addresses, networks and ports; loopback never has one."""
    environ = {"HTTPS_PROXY": PROXY, "NO_PROXY": exceptions}
    assert proxy_from_environment(server, environ) == (Proxy(PROXY) if proxied else None)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"HTTP_PROXY": PROXY}, None),
        ({"https_proxy": PROXY}, PROXY),
        ({"HTTPS_PROXY": PROXY, "https_proxy": "http://other"}, PROXY),
        ({"HTTPS_PROXY": "proxy.example:3128"}, PROXY),
        ({"HTTPS_PROXY": PROXY, "no_proxy": "kube.example"}, None),
    ],
)
def test_the_variable_of_the_scheme_counts(environ: dict[str, str], expected: str | None) -> None:
    """Https servers use HTTPS_PROXY, in capitals first; without a scheme it is an http proxy."""
    assert proxy_from_environment("https://kube.example", environ) == (expected and Proxy(expected))


def test_a_socks_proxy_in_the_environment_is_an_error() -> None:
    """A proxy that cannot be used is named, instead of going around it."""
    with pytest.raises(ConnectionProblem, match="HTTPS_PROXY names a 'socks5' proxy"):
        proxy_from_environment("https://kube.example", {"HTTPS_PROXY": "socks5://h:1"})


def test_the_kubeconfig_wins_over_the_environment(connected: Connected) -> None:
    """proxy-url counts for any server, even on loopback, and the environment then does not."""
    cluster = {"server": "https://127.0.0.1:1", "proxy-url": "http://mine.example"}
    connection = connected(cluster=cluster, user={"token": "t"}, environ={"HTTPS_PROXY": PROXY})
    assert connection.proxy == Proxy("http://mine.example")


@pytest.fixture
async def proxy() -> AsyncIterator[tuple[str, list[str]]]:
    """A proxy that tunnels CONNECT requests and notes their targets."""
    targets = []

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        target = head.split()[1].decode()
        targets.append(target)
        host, port = target.rsplit(":", 1)
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))

    server = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", targets


async def test_requests_go_through_the_proxy(
    serve: Serve, connected: Connected, proxy: tuple[str, list[str]]
) -> None:
    """With proxy-url the server is reached through a tunnel of that proxy, still over TLS."""
    server = await serve()
    url, targets = proxy
    cluster = {**server.cluster, "proxy-url": url}
    assert await ask(connected(cluster=cluster, user={"token": "abc"})) == 200
    assert targets == [f"127.0.0.1:{server.port}"]
