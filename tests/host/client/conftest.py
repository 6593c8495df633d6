"""Certificates, kubeconfigs and TLS servers for the tests of the wire."""

import datetime as dt
import ipaddress
import ssl
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from kcm_host.client.auth.connection import connect
from kcm_host.client.transport import ConnectionPool


@dataclass(frozen=True)
class Pair:
    certificate: str
    key: str


class Authority:
    """A certificate authority that issues what a test asks for."""

    def __init__(self):
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        builder = self._builder(self._name, self._key.public_key(), days=10)
        certificate = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        ).sign(self._key, hashes.SHA256())
        self.pem = certificate.public_bytes(serialization.Encoding.PEM).decode()

    def issue(self, name="somebody", *, names=("127.0.0.1",), key_type="ec", days=1, password=None):
        key = (
            rsa.generate_private_key(65537, 2048)
            if key_type == "rsa"
            else ec.generate_private_key(ec.SECP256R1())
        )
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(subject, key.public_key(), days=days).add_extension(
            x509.SubjectAlternativeName([_general(entry) for entry in names]), critical=False
        )
        certificate = builder.sign(self._key, hashes.SHA256())
        encryption = (
            serialization.BestAvailableEncryption(password)
            if password
            else serialization.NoEncryption()
        )
        return Pair(
            certificate.public_bytes(serialization.Encoding.PEM).decode(),
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
            ).decode(),
        )

    def _builder(self, subject, public_key, *, days):
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=5))
            .not_valid_after(now + dt.timedelta(days=days))
        )


def _general(entry):
    try:
        return x509.IPAddress(ipaddress.ip_address(entry))
    except ValueError:
        return x509.DNSName(entry)


@dataclass
class Server:
    """A server on loopback that notes who asked; tokens in `refused` get a 401."""

    url: str = ""
    port: int = 0
    seen: list[dict] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)

    async def answer(self, request):
        peer = request.transport.get_extra_info("peercert") or {}
        names = {key: value for ((key, value),) in peer.get("subject", ())}
        header = request.headers.get("Authorization")
        self.seen.append(
            {"path": request.path, "authorization": header, "certificate": names.get("commonName")}
        )
        return web.Response(status=401 if header in self.refused else 200)


@pytest.fixture
def authority():
    """An authority of the test's own."""
    return Authority()


@pytest.fixture
def server_pair(authority):
    """A server certificate for 127.0.0.1."""
    return authority.issue("api server")


@pytest.fixture
async def serve(tmp_path):
    """Starts servers, over TLS when given a pair and in plain HTTP when given None."""
    async with AsyncExitStack() as stack:

        async def start(pair, **options):
            return await stack.enter_async_context(_serving(pair, tmp_path, **options))

        yield start


@asynccontextmanager
async def _serving(pair, folder, *, client_authority=None):
    server, context = Server(), None
    if pair is not None:
        chain = folder / "server-chain.pem"
        chain.write_text(pair.certificate + pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain)
        if client_authority is not None:
            context.load_verify_locations(cadata=client_authority.pem)
            context.verify_mode = ssl.CERT_REQUIRED
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    server.port = runner.addresses[0][1]
    server.url = f"{'https' if pair else 'http'}://127.0.0.1:{server.port}"
    try:
        yield server
    finally:
        await runner.cleanup()


@pytest.fixture
def kubeconfig(tmp_path):
    """Writes a kubeconfig: `kubeconfig(cluster={...}, user={...})` gives its path."""

    def write(*, cluster, user, name="config", context="here"):
        path = Path(tmp_path) / name
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
def connected(kubeconfig):
    """Connects with a kubeconfig of this cluster and user."""

    def make(*, cluster, user, environ=None, **more):
        path = kubeconfig(cluster=cluster, user=user)
        return connect(str(path), environ=environ or {}, **more)

    return make


@pytest.fixture
def ask():
    """Sends one GET the way our sessions do and gives the status."""

    async def get(connection, path="/healthz"):
        access = await connection.credentials.current()
        timeout = aiohttp.ClientTimeout(total=5)
        async with (
            aiohttp.ClientSession(connector=ConnectionPool(), timeout=timeout) as session,
            session.get(
                connection.base_url + path,
                headers=access.headers,
                ssl=access.ssl if access.ssl is not None else True,
                proxy=connection.proxy and connection.proxy.url,
                server_hostname=connection.tls_server_name,
            ) as response,
        ):
            return response.status

    return get
