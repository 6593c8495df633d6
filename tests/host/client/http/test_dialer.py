"""Which way a connection takes: addresses, proxies, TLS and its names."""

import asyncio
import errno
import socket
import ssl
from typing import Any

import pytest
from host.client.http.conftest import (
    MakeTransport,
    Peer,
    StartSite,
    connected_to,
    send,
    tunnel,
    until,
)

from kcm_host.client.errors import unreachable
from kcm_host.client.http import dialer
from kcm_host.client.http.connection import ConnectionLost
from kcm_host.client.http.dialer import DialError, ProxyRefused
from kcm_host.client.http.messages import BadResponse

pytestmark = pytest.mark.usefixtures("layer")

LOGIN = {"Proxy-Authorization": "Basic Ym9iOnB3"}
LOGIN_LINE = b"Proxy-Authorization: Basic Ym9iOnB3\r\n"


@pytest.fixture
async def name_server(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[tuple[str, int]]]:
    """Every name in here has these addresses; others have none."""
    known: dict[str, list[tuple[str, int]]] = {}

    async def find(host: str, *_: object, **__: object) -> list[Any]:
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", each) for each in known[host]]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", find)
    return known


@pytest.fixture
async def refusing() -> int:
    """Return a port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.mark.parametrize("login", [{}, LOGIN], ids=["nobody", "login"])
async def test_through_a_tunnel(
    start_site: StartSite,
    transport_to: MakeTransport,
    trust: ssl.SSLContext,
    login: dict[str, str],
    *,
    tls: bool,
) -> None:
    """TLS to the server, inside of TLS to the proxy or not; the login is for the proxy only."""
    server, proxy = await start_site(tls=True), await start_site(tunnel, tls=tls)
    transport = transport_to(server.url, proxy_url=proxy.url, proxy_headers=login)
    long = "/" + "x" * 60_000
    for target in ("/a", long, "/b"):
        assert (await send(transport, target=target, context=trust)).body == target.encode()
    ((_, head),) = proxy.requests
    assert head.startswith(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\n".encode())
    assert (LOGIN_LINE in head) == bool(login)
    assert not any(b"Proxy-" in data for _, data in server.requests)
    assert {number for number, _ in server.requests} == {0}


async def test_http_through_a_proxy(
    start_site: StartSite, transport_to: MakeTransport, trust: ssl.SSLContext, *, tls: bool
) -> None:
    """The proxy reads the request: it has the whole URL, and the login of the proxy."""
    proxy = await start_site(tls=tls)
    transport = transport_to(
        "http://kube.example:8080/a b", proxy_url=proxy.url, proxy_headers=LOGIN
    )
    got = await send(transport, target="/healthz?x=y", context=trust)
    assert got.body == b"http://kube.example:8080/a%20b/healthz?x=y"
    ((_, head),) = proxy.requests
    assert LOGIN_LINE in head
    assert b"\r\nHost: kube.example:8080\r\n" in head


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"HTTP/1.1 407 Login\r\nContent-Length: 0\r\n\r\n", ProxyRefused),
        (b"HTTP/1.1 502 No\r\nContent-Length: 6\r\n\r\n<html>", ProxyRefused),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", ProxyRefused),
        (b"HTTP/1.1 200 OK\r\n\r\nearly", BadResponse),
        (b"<html>", BadResponse),
        (b"", ConnectionLost),
        (b"HTTP/1.1 200 OK\r\n", ConnectionLost),
        (b"HTTP/1.1 200 OK\r\n\r\n", (DialError, ConnectionLost)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", (DialError, ConnectionLost)),
    ],
)
async def test_a_proxy_that_does_not_connect(
    start_site: StartSite,
    transport_to: MakeTransport,
    trust: ssl.SSLContext,
    said: bytes,
    error: type[OSError],
    *,
    tls: bool,
) -> None:
    """What it says instead is an error, not a response of the server; nothing stays open."""

    async def speak(peer: Peer) -> None:
        await peer.request()
        peer.say(said)

    proxy = await start_site(speak, tls=tls)
    transport = transport_to("https://kube.example", proxy_url=proxy.url)
    with pytest.raises(error) as raised:
        await send(transport, context=trust)
    if isinstance(raised.value, ProxyRefused):
        assert raised.value.status == int(said.split()[1])
    await until(lambda: connected_to(proxy.port) == 0, "the sockets are closed")
    await transport.close()


async def test_a_proxy_that_is_absent(
    transport_to: MakeTransport, trust: ssl.SSLContext, refusing: int
) -> None:
    """The error is about the proxy, and it is certain that nothing was sent."""
    transport = transport_to("https://kube.example", proxy_url=f"http://127.0.0.1:{refusing}")
    with pytest.raises(DialError, match=f"cannot connect to 127.0.0.1:{refusing}: Conn") as raised:
        await send(transport, context=trust)
    assert raised.value.to_proxy
    assert unreachable("get /", raised.value).refused


async def test_a_server_that_ends_after_the_handshake(
    start_site: StartSite, transport_to: MakeTransport, trust: ssl.SSLContext, *, tls: bool
) -> None:
    """Inside of a tunnel, the end may come before the tunnel is handed on; nothing hangs."""

    async def reset(peer: Peer) -> None:
        peer.reset()

    server, proxy = await start_site(reset, tls=True), await start_site(tunnel, tls=tls)
    for options in ({}, {"proxy_url": proxy.url}):
        transport = transport_to(server.url, **options)
        for _ in range(5):
            with pytest.raises((ConnectionError, TimeoutError)):
                await send(transport, context=trust)
        await asyncio.wait_for(transport.close(), 60)


@pytest.mark.parametrize("silent", ["handshake", "CONNECT", "handshake in the tunnel"])
async def test_the_end_of_the_client_ends_silent_dials(
    start_site: StartSite, transport_to: MakeTransport, trust: ssl.SSLContext, silent: str
) -> None:
    """A peer that does not respond is not waited for, at any stage."""

    async def speak(peer: Peer) -> None:
        if silent == "handshake in the tunnel":
            await peer.request()
            peer.say(b"HTTP/1.1 200 OK\r\n\r\n")
        while data := await peer.reader.read(100):
            site.requests.append((peer.number, data))

    site = await start_site(speak)
    https = site.url.replace("http:", "https:")
    if silent == "handshake":
        transport = transport_to(https)
    else:
        transport = transport_to("https://kube.example", proxy_url=site.url)
    call = asyncio.create_task(send(transport, context=trust))
    await until(lambda: len(site.requests) > (silent == "handshake in the tunnel"), "it is silent")
    await transport.close()
    assert connected_to(site.port) == 0
    with pytest.raises((ConnectionError, TimeoutError)):
        await call


@pytest.mark.parametrize(
    ("certified", "host", "tls_server_name", "shown"),
    [
        (("127.0.0.1",), "127.0.0.1", None, None),
        (("kube.example",), "127.0.0.1", "kube.example", "kube.example"),
        (("kube.example",), "kube.example", None, "kube.example"),
        (("*.kube.example",), "a.kube.example", None, "a.kube.example"),
        (("10.0.0.1",), "127.0.0.1", "10.0.0.1", None),
        (("kube.example",), "127.0.0.1", None, False),
        (("127.0.0.1",), "127.0.0.1", "kube.example", False),
        (("other.example",), "kube.example", None, False),
        (("*.kube.example",), "a.b.kube.example", None, False),
    ],
)
@pytest.mark.parametrize("way", ["direct", "tunnel"])
async def test_the_name_of_the_server_is_verified(
    start_site: StartSite,
    transport_to: MakeTransport,
    trust: ssl.SSLContext,
    name_server: dict[str, list[tuple[str, int]]],
    certified: tuple[str, ...],
    host: str,
    tls_server_name: str | None,
    shown: str | bool | None,
    way: str,
) -> None:
    """The one in the kubeconfig, or that of the URL; it is shown unless it is an address."""
    names: list[str | None] = []
    server = await start_site(tls=True, names=certified)
    assert server.context is not None
    server.context.sni_callback = lambda _, name, __: names.append(name)
    options: dict[str, Any] = {"tls_server_name": tls_server_name}
    name_server[host] = [("127.0.0.1", server.port)]
    if way == "tunnel":
        proxy = await start_site(tunnel)
        name_server["proxy.example"] = [("127.0.0.1", proxy.port)]
        name_server["127.0.0.1"] = [("127.0.0.1", server.port)]
        options["proxy_url"] = "http://proxy.example"
    transport = transport_to(f"https://{host}:{server.port}", **options)
    if shown is False:
        with pytest.raises(DialError, match=r"verify failed|mismatch|not valid for"):
            await send(transport, context=trust)
        assert server.requests == []
        return
    await send(transport, context=trust)
    assert names == [shown]
    assert f"\r\nHost: {host}:{server.port}\r\n".encode() in server.requests[0][1]


async def test_ipv6(
    start_site: StartSite, transport_to: MakeTransport, trust: ssl.SSLContext, *, tls: bool
) -> None:
    """An address in brackets: in the URL, in the Host header, and without them in TLS."""
    try:
        server = await start_site(tls=tls, names=("::1",), host="::1")
    except OSError:
        pytest.skip("there is no IPv6 here")
    await send(transport_to(server.url), context=trust if tls else None)
    assert f"\r\nHost: [::1]:{server.port}\r\n".encode() in server.requests[0][1]


@pytest.mark.parametrize("first", ["refused", "silent"])
async def test_another_address_is_tried(
    start_site: StartSite,
    transport_to: MakeTransport,
    name_server: dict[str, list[tuple[str, int]]],
    refusing: int,
    monkeypatch: pytest.MonkeyPatch,
    first: str,
) -> None:
    """Where the first one refuses, at once; where it is silent, soon (RFC 8305)."""
    site = await start_site()
    name_server["kube.example"] = [("127.0.0.1", refusing), ("127.0.0.1", site.port)]
    loop = asyncio.get_running_loop()
    connect = loop.sock_connect

    async def sock_connect(sock: socket.socket, address: Any) -> None:
        if address[1] == refusing:
            await loop.create_future()
        await connect(sock, address)

    if first == "silent":
        monkeypatch.setattr(loop, "sock_connect", sock_connect)
        monkeypatch.setattr(dialer, "HAPPY_EYEBALLS_SECONDS", 0.01)
    got = await send(transport_to("http://kube.example"), target="/a")
    assert got.body == b"/a"


async def test_all_addresses_refuse(
    transport_to: MakeTransport,
    name_server: dict[str, list[tuple[str, int]]],
    refusing: int,
) -> None:
    """As with one address it is certain that nothing was sent (IQ-24)."""
    name_server["kube.example"] = [("127.0.0.1", refusing), ("127.0.0.2", refusing)]
    with pytest.raises(DialError, match=r"cannot connect to kube.example:80: ") as raised:
        await send(transport_to("http://kube.example"))
    assert raised.value.cause.errno == errno.ECONNREFUSED
    assert unreachable("get /", raised.value).refused
    assert not raised.value.to_proxy


@pytest.mark.usefixtures("name_server")
async def test_a_name_without_an_address(transport_to: MakeTransport) -> None:
    """The error names it; it is not one of those after which nothing was sent for certain."""
    with pytest.raises(
        DialError, match=r"^cannot connect to kube.example:80: Name or service not known$"
    ) as raised:
        await send(transport_to("http://kube.example"))
    assert not unreachable("get /", raised.value).refused
