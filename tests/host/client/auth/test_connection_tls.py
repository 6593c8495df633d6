"""TLS to a real server: whom we trust, what we show, and what is left on disk."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from host.client.conftest import Authority, Connected, Serve, WriteKubeconfig, ask, encoded
from trustme import KeyType

from kcm_host.client.http.dialer import DialError


@pytest.fixture
def temp_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder of the test's own, so that everything left there is ours."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


async def test_an_embedded_authority_is_trusted(serve: Serve, connected: Connected) -> None:
    """A server whose authority stands in the kubeconfig is trusted, and gets the token."""
    server = await serve()
    cluster = {**server.cluster, "server": f"{server.url}/"}
    connection = connected(cluster=cluster, user={"token": "abc"})
    assert connection.base_url == server.url
    assert await ask(connection) == 200
    assert server.seen[0]["authorization"] == "Bearer abc"


async def test_an_authority_file_beside_the_kubeconfig(
    serve: Serve, authority: Authority, connected: Connected, tmp_path: Path
) -> None:
    """A relative certificate-authority is found beside the kubeconfig."""
    server = await serve()
    (tmp_path / "ca.crt").write_text(authority.pem)
    cluster = {"server": server.url, "certificate-authority": "ca.crt"}
    assert await ask(connected(cluster=cluster, user={"token": "abc"})) == 200


async def test_the_servers_own_certificate_can_be_the_authority(
    serve: Serve, authority: Authority, connected: Connected
) -> None:
    """A listed certificate is an anchor even when no authority stands behind it, as in Go."""
    pair = authority.issue("api server")
    server = await serve(pair)
    cluster = {"server": server.url, "certificate-authority-data": encoded(pair.certificate)}
    assert await ask(connected(cluster=cluster, user={"token": "abc"})) == 200


async def test_without_an_authority_the_system_decides(serve: Serve, connected: Connected) -> None:
    """Without certificate-authority the system's trust store counts, which knows no test CA."""
    server = await serve()
    connection = connected(cluster={"server": server.url}, user={"token": "abc"})
    with pytest.raises(DialError, match=r"self-signed|unable to get"):
        await ask(connection)
    assert server.seen == []


async def test_checks_can_be_switched_off(serve: Serve, connected: Connected) -> None:
    """insecure-skip-tls-verify accepts any certificate and gives a warning."""
    server = await serve()
    cluster = {"server": server.url, "insecure-skip-tls-verify": True}
    connection = connected(cluster=cluster, user={"token": "abc"})
    assert await ask(connection) == 200
    (warning,) = connection.warnings
    assert warning.startswith(f"the certificate of {server.url} is not checked")


async def test_another_name_can_be_checked(
    serve: Serve, authority: Authority, connected: Connected
) -> None:
    """tls-server-name is the name that the certificate must carry."""
    server = await serve(authority.issue(names=("kube.example",)))
    with pytest.raises(DialError, match=r"not valid for '127|IP address mismatch"):
        await ask(connected(cluster=server.cluster, user={"token": "abc"}))
    named = connected(
        cluster={**server.cluster, "tls-server-name": "kube.example"}, user={"token": "t"}
    )
    assert await ask(named) == 200


@pytest.mark.parametrize("key_type", [*KeyType], ids=lambda one: one.name)
@pytest.mark.parametrize("place", ["data", "files"])
async def test_a_client_certificate_is_shown(
    serve: Serve,
    authority: Authority,
    connected: Connected,
    tmp_path: Path,
    temp_folder: Path,
    key_type: KeyType,
    place: str,
) -> None:
    """Embedded or in files, EC or RSA: the server sees our certificate, and no file is left."""
    server = await serve(clients=True)
    pair = authority.issue("me", key_type=key_type)
    if place == "data":
        user = pair.user
    else:
        (tmp_path / "me.crt").write_text(pair.certificate)
        (tmp_path / "me.key").write_text(pair.key)
        user = {"client-certificate": "me.crt", "client-key": "me.key"}
    assert await ask(connected(cluster=server.cluster, user=user)) == 200
    assert server.seen == [{"path": "/healthz", "authorization": None, "certificate": "me"}]
    assert list(temp_folder.iterdir()) == []


async def test_connecting_twice_with_embedded_keys(
    serve: Serve, authority: Authority, connected: Connected, temp_folder: Path
) -> None:
    """The same embedded key can be loaded again after its first file was removed."""
    server = await serve(clients=True)
    user = authority.issue("me").user
    for _ in range(2):
        assert await ask(connected(cluster=server.cluster, user=user)) == 200
    assert list(temp_folder.iterdir()) == []


def test_nothing_is_left_when_building_fails(
    authority: Authority, connected: Connected, temp_folder: Path
) -> None:
    """A pair that does not fit leaves no file behind either."""
    user = {**authority.issue().user, "client-key-data": authority.issue().user["client-key-data"]}
    with pytest.raises(Exception, match="do not belong together"):
        connected(cluster={"server": "https://127.0.0.1:1"}, user=user)
    assert list(temp_folder.iterdir()) == []


def test_a_killed_process_leaves_no_key(
    authority: Authority, kubeconfig: WriteKubeconfig, tmp_path: Path
) -> None:
    """SIGKILL right after connecting leaves no file in the temporary folder."""
    path = kubeconfig(cluster={"server": "https://127.0.0.1:1"}, user=authority.issue("me").user)
    folder = tmp_path / "temporary"
    folder.mkdir()
    program = textwrap.dedent(
        """
        import os, signal, sys
        from kcm_host.client.auth.connection import connect
        connect(sys.argv[1], environ={})
        print("connected", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, "connected\n"), ended.stderr
    assert list(folder.iterdir()) == []


async def test_replaced_certificate_files_are_picked_up(
    serve: Serve, authority: Authority, connected: Connected, tmp_path: Path
) -> None:
    """Five minutes after client certificate files were replaced the new pair is shown."""
    server = await serve(clients=True)
    now = [1000.0]

    authority.issue("first").store(tmp_path)
    user = {"client-certificate": "me.crt", "client-key": "me.key"}
    connection = connected(cluster=server.cluster, user=user, monotonic=lambda: now[0])
    first = await connection.credentials.current()
    now[0] += 301
    assert (await connection.credentials.current()).ssl is first.ssl
    authority.issue("second, a longer name").store(tmp_path)
    await ask(connection)
    now[0] += 301
    await ask(connection)
    shown = [request["certificate"] for request in server.seen]
    assert shown == ["first", "second, a longer name"]


def test_importing_the_wire_does_not_import_the_official_package() -> None:
    """The official package is for older auth providers only; it would cost every start 70 ms."""
    program = textwrap.dedent(
        """
        import importlib, pkgutil, sys
        import kcm_host.client
        for module in pkgutil.walk_packages(kcm_host.client.__path__, "kcm_host.client."):
            importlib.import_module(module.name)
        sys.exit("kubernetes" in sys.modules)
        """
    )
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)


def test_what_connects_shows_no_secret(connected: Connected) -> None:
    """Neither a connection nor its access shows the token or the proxy's password."""
    connection = connected(
        cluster={"server": "https://127.0.0.1:1", "proxy-url": "http://me:hidden@127.0.0.1:2"},
        user={"token": "hidden"},
    )
    assert "hidden" not in repr(connection) + repr(connection.credentials)


async def test_plain_http_to_another_machine_is_warned_about(connected: Connected) -> None:
    """A token to http:// is allowed; only where it leaves this machine a warning says so."""
    for server in ("http://127.0.0.1:1", "http://localhost:1"):
        assert connected(cluster={"server": server}, user={"token": "abc"}).warnings == ()
    connection = connected(cluster={"server": "http://kube.example"}, user={"token": "abc"})
    (warning,) = connection.warnings
    assert warning.startswith("credentials travel unencrypted to http://kube.example")
    access = await connection.credentials.current()
    assert access.ssl is None
    assert "abc" not in repr(access)


async def test_name_and_password(serve: Serve, connected: Connected) -> None:
    """User name and password are sent as basic authentication."""
    server = await serve(tls=False)
    user = {"username": "me", "password": "pass:word"}
    assert await ask(connected(cluster={"server": server.url}, user=user)) == 200
    assert server.seen[0]["authorization"] == f"Basic {encoded('me:pass:word')}"
