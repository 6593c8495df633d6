"""The first request's failure, in one line that says what to do."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from host.client.conftest import Authority, Connected, Serve, ask, encoded

from kcm_host.api.errors import ApiError, Unreachable
from kcm_host.client.auth.connection import Connection
from kcm_host.client.errors import ConnectionProblem
from kcm_host.client.http.connection import ConnectionLost
from kcm_host.client.startup_probe import explain

USER = {"token": "s3cr3t"}

Trusting = Callable[..., Connection]


async def explained(connection: Connection) -> tuple[str, int]:
    """Return message and exit code for the failure of a first request."""
    with pytest.raises((ConnectionError, TimeoutError)) as caught:
        await ask(connection)
    problem = explain(caught.value, connection)
    assert "\n" not in str(problem)
    assert "s3cr3t" not in str(problem)
    return str(problem), problem.exit_code


@pytest.fixture
def trusting(authority: Authority, connected: Connected) -> Trusting:
    """Connects to a URL with the test's authority."""

    def to(url: str, **fields: Any) -> Connection:
        cluster = {"server": url, "certificate-authority-data": encoded(authority.pem), **fields}
        return connected(cluster=cluster, user=USER)

    return to


@pytest.fixture
def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


async def test_a_certificate_of_another_authority(serve: Serve, trusting: Trusting) -> None:
    """An untrusted certificate names the authorities that counted: exit code 2."""
    server = await serve(Authority().issue())
    message, code = await explained(trusting(server.url))
    assert (
        f"the certificate of {server.url} is not trusted by certificate-authority-data" in message
    )
    assert "put the server's certificate authority into kubeconfig" in message
    assert code == 2


async def test_a_certificate_for_another_name(
    serve: Serve, authority: Authority, trusting: Trusting
) -> None:
    """A certificate for other names points to tls-server-name: exit code 2."""
    server = await serve(authority.issue(names=("kube.example",)))
    message, code = await explained(trusting(server.url))
    assert "is for other names" in message
    assert "tls-server-name" in message
    assert code == 2


async def test_an_expired_certificate(
    serve: Serve, authority: Authority, trusting: Trusting
) -> None:
    """An expired server certificate is the server's fault: exit code 1."""
    server = await serve(authority.issue(days=-1))
    message, code = await explained(trusting(server.url))
    assert "not valid at this time (certificate has expired)" in message
    assert code == 1


async def test_nobody_listens(trusting: Trusting, free_port: int) -> None:
    """A refused connection names server and kubeconfig: exit code 1."""
    message, code = await explained(trusting(f"https://127.0.0.1:{free_port}"))
    assert f"cannot reach https://127.0.0.1:{free_port} (from kubeconfig" in message
    assert "connection refused" in message
    assert code == 1


async def test_a_name_without_address(trusting: Trusting) -> None:
    """A host name that does not resolve is said to have no address: exit code 1."""
    message, code = await explained(trusting("https://no-such-host.invalid"))
    assert "its name has no address" in message
    assert code == 1


async def test_tls_to_a_server_without(serve: Serve, trusting: Trusting) -> None:
    """https:// to a server that speaks plain HTTP suggests http://."""
    server = await serve(tls=False)
    message, code = await explained(trusting(f"https://127.0.0.1:{server.port}"))
    assert "does not use TLS" in message
    assert code == 2


async def test_plain_http_to_a_server_with_tls(serve: Serve, connected: Connected) -> None:
    """http:// to a server that wants TLS suggests https://."""
    server = await serve()
    cluster = {"server": f"http://127.0.0.1:{server.port}"}
    message, code = await explained(connected(cluster=cluster, user=USER))
    assert "write https://" in message
    assert code == 2


@pytest.fixture
async def strict_server(authority: Authority, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of a TLS 1.2 server that insists on a client certificate and says so."""
    context = authority.issue("api server").server(tmp_path, clients=authority)
    context.maximum_version = ssl.TLSVersion.TLSv1_2

    def serve_one(listener: socket.socket) -> None:
        # Blocking sockets, because servers of asyncio hang up without the TLS alert.
        connection, _ = listener.accept()
        with connection, pytest.raises(ssl.SSLError):
            context.wrap_socket(connection, server_side=True)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        serving = asyncio.create_task(asyncio.to_thread(serve_one, listener))
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        await serving


async def test_a_missing_client_certificate(strict_server: str, trusting: Trusting) -> None:
    """A server that insists on a client certificate is said to refuse ours."""
    message, code = await explained(trusting(strict_server))
    assert "refuses our client certificate" in message
    assert code == 2


def test_a_server_that_hangs_up(trusting: Trusting) -> None:
    """A disconnect without a word mentions that the server may want a client certificate."""
    connection = trusting("https://127.0.0.1:1")
    problem = explain(ConnectionLost("closed", is_unanswered=True), connection)
    assert "wants a client certificate" in str(problem)
    assert problem.exit_code == 1


def test_no_answer_in_time(trusting: Trusting) -> None:
    """A time-out is said as one: exit code 1."""
    connection = trusting("https://127.0.0.1:1")
    problem = explain(TimeoutError(), connection)
    assert "no response in time" in str(problem)
    assert problem.exit_code == 1


async def test_a_proxy_that_is_not_there(trusting: Trusting, free_port: int) -> None:
    """An unreachable proxy is blamed instead of the server."""
    connection = trusting("https://127.0.0.1:1", **{"proxy-url": f"http://127.0.0.1:{free_port}"})
    message, code = await explained(connection)
    assert "through a proxy" in message
    assert "the proxy cannot be reached" in message
    assert code == 1


@pytest.mark.parametrize(
    ("status", "fact", "code"),
    [(401, "refuses the credentials from kubeconfig", 2), (503, "answered 503", 1)],
)
def test_an_error_answer(trusting: Trusting, status: int, fact: str, code: int) -> None:
    """401 blames the credentials (exit code 2), other answers the server (exit code 1)."""
    problem = explain(ApiError("get /healthz", status=status), trusting("https://127.0.0.1:1"))
    assert fact in str(problem)
    assert problem.exit_code == code


def test_the_go_servers_answer_to_plain_http(connected: Connected) -> None:
    """A 400 to http:// is how servers in Go say that they want TLS."""
    connection = connected(cluster={"server": "http://127.0.0.1:1"}, user=USER)
    assert "write https://" in str(explain(ApiError("bad", status=400), connection))


def test_a_renamed_error_is_looked_into(trusting: Trusting) -> None:
    """What our own layers wrapped is explained by its cause."""
    connection = trusting("https://127.0.0.1:1")
    wrapped = Unreachable("get /healthz: no answer")
    wrapped.__cause__ = ConnectionRefusedError(111, "Connection refused")
    assert "connection refused" in str(explain(wrapped, connection))
    told = ConnectionProblem("already told")
    assert explain(told, connection) is told
