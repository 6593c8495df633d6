"""Connecting to a real API server with the kubeconfig of the kit."""

from pathlib import Path

import pytest
from host.client.conftest import WriteKubeconfig, ask

from kcm_host.client.auth.connection import connect
from kcm_host.client.startup_probe import credentials_refused
from kcm_host_testing.api_server import ApiServer


async def test_a_token_is_accepted(api_server: ApiServer) -> None:
    """With the admin's kubeconfig the API server lists namespaces (H-41 asks the same way)."""
    connection = connect(str(api_server.kubeconfig()), environ={})
    assert connection.base_url == api_server.url
    assert await ask(connection, "/healthz") == 200
    assert await ask(connection, "/api/v1/namespaces") == 200


@pytest.mark.parametrize(("user", "status"), [("alice", 403), ("admin", 200)])
async def test_a_token_file_is_accepted(
    api_server: ApiServer, kubeconfig: WriteKubeconfig, tmp_path: Path, user: str, status: int
) -> None:
    """A token file of that user identifies that user."""
    (tmp_path / "token").write_text(f"{api_server.token(user)}\n")
    cluster = {"server": api_server.url, "certificate-authority": str(api_server.ca_file)}
    path = kubeconfig(cluster=cluster, user={"tokenFile": "token"})
    connection = connect(str(path), environ={})
    assert await ask(connection, "/api/v1/namespaces") == status


async def test_a_wrong_token_is_refused(api_server: ApiServer, kubeconfig: WriteKubeconfig) -> None:
    """A token the server does not know is answered 401, which is an error of exit code 2."""
    cluster = {"server": api_server.url, "certificate-authority": str(api_server.ca_file)}
    connection = connect(str(kubeconfig(cluster=cluster, user={"token": "no"})), environ={})
    assert await ask(connection, "/api/v1/namespaces") == 401
    problem = credentials_refused(connection)
    assert "refuses the credentials from kubeconfig" in str(problem)
    assert problem.exit_code == 2
