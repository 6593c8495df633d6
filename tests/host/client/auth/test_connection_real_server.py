"""Connecting to a real API server with the kubeconfig of the kit."""

from pathlib import Path

import pytest
from host.client.conftest import WriteKubeconfig, ask

from kcm_host.client.auth.connection import connect
from kcm_host_testing.api_server import ApiServer


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
