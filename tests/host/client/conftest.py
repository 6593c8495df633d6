"""Certificates, kubeconfigs and TLS servers for the tests of the wire."""

import base64
import datetime as dt
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from aiohttp import web
from cryptography.hazmat.primitives import serialization

from kcm_host.client.auth.connection import Connection, connect
from kcm_host.client.http.transport import Request, Transport

Fields = Mapping[str, Any]


def encoded(text: str) -> str:
    """Return a text the way kubeconfigs embed it."""
    return base64.b64encode(text.encode()).decode()


@dataclass(frozen=True)
class Pair:
    certificate: str
    key: str

    @property
    def user(self) -> dict[str, str]:
        """The user of a kubeconfig in which it is embedded."""
        data = {"certificate": self.certificate, "key": self.key}
        return {f"client-{name}-data": encoded(text) for name, text in data.items()}

    def store(self, folder: Path) -> None:
        """Write it to `me.crt` and `me.key`."""
        (folder / "me.crt").write_text(self.certificate)
        (folder / "me.key").write_text(self.key)

    def server(self, folder: Path, *, clients: "Authority | None" = None) -> ssl.SSLContext:
        """Return what a server shows; with `clients` it wants a certificate of that authority."""
        chain = folder / "server.pem"
        chain.write_text(self.certificate + self.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain)
        if clients is not None:
            context.load_verify_locations(cadata=clients.pem)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


class Authority:
    """A certificate authority that issues what a test asks for."""

    def __init__(self) -> None:
        self._ca = trustme.CA()
        self.pem = self._ca.cert_pem.bytes().decode()

    def issue(
        self,
        name: str = "somebody",
        *,
        names: tuple[str, ...] = ("127.0.0.1",),
        key_type: trustme.KeyType = trustme.KeyType.ECDSA,
        days: int = 1,
        password: bytes | None = None,
    ) -> Pair:
        """Issue a certificate that began five days ago and ends in `days`."""
        now = dt.datetime.now(dt.UTC)
        issued = self._ca.issue_cert(
            *names,
            common_name=name,
            not_before=now - dt.timedelta(days=5),
            not_after=now + dt.timedelta(days=days),
            key_type=key_type,
        )
        key = issued.private_key_pem.bytes()
        if password is not None:
            key = _encrypted(key, password)
        return Pair(issued.cert_chain_pems[0].bytes().decode(), key.decode())


def _encrypted(key: bytes, password: bytes) -> bytes:
    return serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password),
    )


@dataclass
class Server:
    """A server on loopback that notes who asked; tokens in `refused` get a 401."""

    authority: Authority
    url: str = ""
    port: int = 0
    seen: list[dict[str, str | None]] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)

    @property
    def cluster(self) -> dict[str, str]:
        """The cluster of a kubeconfig that trusts it."""
        return {"server": self.url, "certificate-authority-data": encoded(self.authority.pem)}

    async def answer(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        peer = request.transport.get_extra_info("peercert") or {}
        names = {key: value for ((key, value),) in peer.get("subject", ())}
        header = request.headers.get("Authorization")
        self.seen.append(
            {"path": request.path, "authorization": header, "certificate": names.get("commonName")}
        )
        return web.Response(status=401 if header in self.refused else 200)


Serve = Callable[..., Awaitable[Server]]
WriteKubeconfig = Callable[..., Path]
Connected = Callable[..., Connection]


@pytest.fixture
def authority() -> Authority:
    """An authority of the test's own."""
    return Authority()


@pytest.fixture
async def serve(tmp_path: Path, authority: Authority) -> AsyncIterator[Serve]:
    """
    Starts servers of the test's authority.

    With another `pair` than their own, without TLS, or such that want a certificate of `clients`.
    """
    async with AsyncExitStack() as stack:

        async def start(
            pair: Pair | None = None, *, tls: bool = True, clients: bool = False
        ) -> Server:
            context = None
            if tls:
                pair = pair or authority.issue("api server")
                context = pair.server(tmp_path, clients=authority if clients else None)
            return await stack.enter_async_context(_serving(authority, context))

        yield start


@asynccontextmanager
async def _serving(authority: Authority, context: ssl.SSLContext | None) -> AsyncIterator[Server]:
    server = Server(authority)
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    server.port = runner.addresses[0][1]
    server.url = f"{'https' if context else 'http'}://127.0.0.1:{server.port}"
    try:
        yield server
    finally:
        await runner.cleanup()


@pytest.fixture
def kubeconfig(tmp_path: Path) -> WriteKubeconfig:
    """Writes a kubeconfig: `kubeconfig(cluster={...}, user={...})` gives its path."""

    def write(
        *, cluster: Fields, user: Fields, name: str = "config", context: str = "here"
    ) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": context,
            "contexts": [{"name": context, "context": {"cluster": "c1", "user": "u1"}}],
            "clusters": [{"name": "c1", "cluster": cluster}],
            "users": [{"name": "u1", "user": user}],
        }
        path.write_text(yaml.safe_dump(content))
        return path

    return write


@pytest.fixture
def connected(kubeconfig: WriteKubeconfig) -> Connected:
    """Connects with a kubeconfig of this cluster and user."""

    def make(
        *, cluster: Fields, user: Fields, environ: Mapping[str, str] | None = None, **more: Any
    ) -> Connection:
        path = kubeconfig(cluster=cluster, user=user)
        return connect(str(path), environ=environ or {}, **more)

    return make


async def ask(connection: Connection, path: str = "/healthz") -> int:
    """Send one GET and return the status; raise what the transport raises."""
    access = await connection.credentials.current()
    proxy = connection.proxy
    transport = Transport(
        connection.base_url,
        proxy_url=proxy.url if proxy is not None else None,
        tls_server_name=connection.tls_server_name,
    )
    try:
        request = Request("GET", path, access.headers)
        response = await transport.round_trip(request, access.ssl, seconds=60, max_bytes=1 << 20)
    finally:
        await transport.close()
    return response.status
