"""The real servers start, keep what they promise across restarts, and say why they fail."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from kcm_host_testing import probe, release
from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.etcd import Etcd
from kcm_host_testing.process import Process, ServerError


@pytest.fixture(scope="module")
def server(etcd: Etcd) -> Iterator[ApiServer]:
    """One server that these tests may stop and pause; each leaves it running."""
    with ApiServer(etcd, audit=False) as running:
        yield running


def get(server: ApiServer, path: str) -> tuple[int, bytes]:
    """Status and body of a GET as admin."""
    return probe.request(
        f"{server.url}{path}", ca_file=server.ca_file, token=server.admin_token, timeout_seconds=60
    )


def test_the_api_server_answers_with_the_pinned_release(api_server: ApiServer) -> None:
    """A started server answers, and `/version` is the release that go.mod requires."""
    version = client.VersionApi(api_server.client()).get_code()
    assert version.git_version == release.kubernetes_version()


def test_an_unknown_user_is_named_with_those_there_are(api_server: ApiServer) -> None:
    """Asking for a user whom the server does not know tells how to get one."""
    with pytest.raises(KeyError, match=r"no user 'zoe'.*users=\['zoe'\]"):
        api_server.kubeconfig("zoe")


def test_a_restart_keeps_port_certificate_and_objects(server: ApiServer) -> None:
    """After a kill and a start the same client goes on with the same certificate and objects."""
    core: Any = client.CoreV1Api(server.client())
    core.create_namespace({"metadata": {"name": "kept"}})
    before = (server.url, server.ca_file.read_bytes(), server.pid)
    server.kill()
    assert not server.running
    server.start()
    assert (server.url, server.ca_file.read_bytes()) == before[:2]
    assert server.pid != before[2]
    assert core.read_namespace("kept").metadata.name == "kept"


def test_servers_on_one_etcd_share_nothing(
    api_server: ApiServer, namespace: str, server: ApiServer
) -> None:
    """A server with a prefix of its own does not see another server's objects."""
    assert get(api_server, f"/api/v1/namespaces/{namespace}")[0] == 200
    assert get(server, f"/api/v1/namespaces/{namespace}")[0] == 404


def test_a_paused_server_is_silent_and_then_goes_on(server: ApiServer) -> None:
    """While paused nothing answers; after resume the same process does."""
    server.pause()
    with pytest.raises(TimeoutError):
        probe.request(f"{server.url}/readyz", ca_file=server.ca_file, timeout_seconds=0.3)
    server.resume()
    assert get(server, "/readyz")[0] == 200


def test_versions_before_expire_history_are_gone() -> None:
    """
    After `expire_history` a watch and a list at an old version, and an old page, are 410.

    Before it, with etcd compacted only, the server still answers from memory.
    """
    with Etcd() as etcd, ApiServer(etcd, audit=False) as server:
        namespaces = "/api/v1/namespaces"
        core: Any = client.CoreV1Api(server.client())
        page = core.list_namespace(limit=1)
        version, token = page.metadata.resource_version, page.metadata._continue
        watch = f"{namespaces}?watch=1&timeoutSeconds=1&resourceVersion={version}"
        etcd.compact()
        assert b"Expired" not in get(server, watch)[1]
        server.expire_history()
        assert b'"code":410' in get(server, watch)[1]
        exact = f"{namespaces}?resourceVersion={version}&resourceVersionMatch=Exact"
        assert get(server, exact)[0] == 410
        assert get(server, f"{namespaces}?limit=1&continue={token}")[0] == 410


def test_a_server_that_cannot_start_shows_its_log(etcd: Etcd) -> None:
    """A wrong flag ends in an error with the server's own words, and leaves no folder."""
    server = ApiServer(etcd, extra_args=["--no-such-flag"])
    folder = server.folder
    with pytest.raises(ServerError, match="unknown flag: --no-such-flag"), server:
        pass
    assert not folder.exists()


def test_a_server_that_is_never_ready_is_given_up(tmp_path: Path) -> None:
    """The deadline ends the wait, and the error names it and the log."""
    log = tmp_path / "log"
    process = Process(["/bin/sh", "-c", "echo still warming up; exec sleep 60"], log=log)
    process.start()
    with pytest.raises(ServerError, match=r"not ready within 0\.5 s") as late:
        process.wait_until(lambda: False, timeout_seconds=0.5)
    process.stop()
    assert "still warming up" in str(late.value)


def test_a_server_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    """Stopping ends a process that does not want to, when the grace is over."""
    log = tmp_path / "log"
    process = Process(["/bin/sh", "-c", "trap '' TERM; echo ready; sleep 60 & wait; wait"], log=log)
    process.start()
    process.wait_until(lambda: "ready" in process.log_tail(), timeout_seconds=60)
    process.stop(grace_seconds=0.2)
    assert not process.running
