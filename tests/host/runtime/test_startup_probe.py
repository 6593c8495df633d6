"""Waiting for the API server at the start."""

import asyncio
import dataclasses
import json
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from host.informer.reflector.running_reflector import until
from host.runtime.loops import Loops

from kcm_host.client import startup_probe
from kcm_host.client.auth.connection import connect
from kcm_host.client.auth.credentials import Credentials, RequestCredentials
from kcm_host.client.discovery import CachedDiscoveryClient
from kcm_host.client.errors import ConnectionProblem
from kcm_host.client.rest import Client, user_agent_of
from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import Answer, Fault, Rewrite, Stall
from kcm_host_testing.proxy import FaultProxy

SHORT = timedelta(seconds=0.5)
LONG = timedelta(seconds=600)
V1 = "client.authentication.k8s.io/v1"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask ten times a second instead of once."""
    monkeypatch.setattr(startup_probe, "PAUSE_SECONDS", 0.1)


@pytest.fixture
async def stranger(fault_proxy: FaultProxy) -> AsyncIterator[Client]:
    """Return a client with an invalid token."""
    connection = connect(str(fault_proxy.kubeconfig()), environ={})

    async def unknown() -> RequestCredentials:
        known = await connection.credentials.current()
        return dataclasses.replace(known, headers={"Authorization": "Bearer unknown"})

    told = dataclasses.replace(connection, credentials=Credentials(unknown))
    async with Client(told, lambda _: None) as made:
        yield made


async def wait_for_server(client: Client, timeout: timedelta) -> CachedDiscoveryClient:  # noqa: ASYNC109 - passed on
    """Wait for the server."""
    return await startup_probe.wait_for_api_server(
        client, agent=user_agent_of("host"), timeout=timeout
    )


async def test_a_healthy_server_is_reached_at_once(client: Client, fault_proxy: FaultProxy) -> None:
    """One question for its health, and what it serves (H-41)."""
    await wait_for_server(client, LONG)
    assert fault_proxy.requests()[0].path == "/healthz"
    assert len(fault_proxy.requests()) == 3


async def test_a_server_that_comes_up_in_time_is_reached(
    client: Client, fault_proxy: FaultProxy
) -> None:
    """Asked again and again until it answers 200 (H-41)."""
    fault_proxy.refuse()
    waiting = asyncio.create_task(wait_for_server(client, LONG))
    unhealthy = fault_proxy.add(Answer(500, b"etcd failed"), path="/healthz")
    fault_proxy.accept()
    await until(lambda: unhealthy.hits >= 2)
    assert not waiting.done()
    unhealthy.remove()
    await asyncio.wait_for(waiting, 60)


@pytest.mark.parametrize(
    ("fault", "path", "words"),
    [
        (Answer(500, b"[-]etcd failed"), "/healthz", ["is not healthy", "[-]etcd failed"]),
        (Stall(), "/healthz", ["cannot reach", "no response in time"]),
        (Stall(), "/apis", ["cannot reach", "no response in time"]),
        (Answer(403), "/apis", ["does not let us see", "bind ClusterRole 'system:discovery'"]),
        (Answer(503), "/api$", ["is not healthy", "503"]),
        (Rewrite(lambda _: b"<html>"), "/apis", ["is not healthy", "is a Kubernetes API server"]),
    ],
    ids=["unhealthy", "silent", "silent later", "no discovery", "no core", "another server"],
)
async def test_a_server_that_does_not_answer_is_reported(
    client: Client, fault_proxy: FaultProxy, fault: Fault, path: str, words: list[str]
) -> None:
    """After `startTimeout` one line has the place, the fact and the remedy; exit code 1 (H-41)."""
    fault_proxy.add(fault, path=path)
    time_limit, text = SHORT, ""
    while not text or ("no response in time" in text and not isinstance(fault, Stall)):
        # A loaded machine may need longer for a response.
        assert time_limit < timedelta(minutes=1)
        with pytest.raises(ConnectionProblem) as raised:
            await wait_for_server(client, time_limit)
        text, time_limit = str(raised.value), time_limit * 4
    assert fault_proxy.url in text
    assert "\n" not in text
    assert all(word in text for word in words)
    assert raised.value.exit_code == 1


async def test_forbidden_health_counts_as_healthy(client: Client, fault_proxy: FaultProxy) -> None:
    """403 for /healthz: the server has authenticated the client."""
    fault_proxy.add(Answer(403), path="/healthz")
    await wait_for_server(client, LONG)


async def test_refused_credentials_end_the_wait(stranger: Client) -> None:
    """401: waiting cannot help; exit code 2 at once."""
    with pytest.raises(ConnectionProblem, match="refuses the credentials") as raised:
        await asyncio.wait_for(wait_for_server(stranger, LONG), 60)
    assert raised.value.exit_code == 2


async def test_an_untrusted_server_ends_the_wait(api_server: ApiServer) -> None:
    """An untrusted certificate is a permanent error: exit code 2 at once."""
    connection = connect(str(api_server.kubeconfig()), environ={})
    nobody = RequestCredentials({})

    async def current() -> RequestCredentials:
        return nobody

    untrusting = dataclasses.replace(connection, credentials=Credentials(current, initial=nobody))
    async with Client(untrusting, lambda _: None) as client:
        with pytest.raises(ConnectionProblem, match="is not trusted") as raised:
            await asyncio.wait_for(wait_for_server(client, LONG), 60)
    assert raised.value.exit_code == 2


def test_a_host_waits_for_its_server(loops: Loops, fault_proxy: FaultProxy) -> None:
    """Until the server is healthy `/readyz` names the reason; then the host runs (H-41)."""
    loops.plugin("one")
    fault_proxy.refuse()
    host = loops.run("one", ready=False, startTimeout="60s")
    code, body = host.page("/readyz")
    assert (code, b"waiting for the API server" in body) == (503, True)
    fault_proxy.accept()
    host.process.wait_until(lambda: host.page("/readyz")[0] == 200, timeout_seconds=60)
    assert host.stop() == 0


async def test_a_hanging_exec_plugin_is_named(fault_proxy: FaultProxy, tmp_path: Path) -> None:
    """F-83: no firewall is blamed while nothing has been sent; the wait fits into the start."""
    path = tmp_path / "config"
    content = yaml.safe_load(fault_proxy.kubeconfig().read_text())
    section = {"command": "sleep", "args": ["600"], "apiVersion": V1, "interactiveMode": "Never"}
    content["users"][0]["user"] = {"exec": section}
    path.write_text(yaml.safe_dump(content))
    async with Client(connect(str(path), environ=os.environ), lambda _: None) as client:
        with pytest.raises(ConnectionProblem) as raised:
            await asyncio.wait_for(wait_for_server(client, SHORT), 60)
    assert str(raised.value).startswith("exec plugin 'sleep' of user ")
    assert "has returned no credentials within 0.5 s" in str(raised.value)
    assert "raise 'startTimeout'" in str(raised.value)
    assert raised.value.exit_code == 1
    assert fault_proxy.requests() == []


async def test_an_anonymous_client_is_reported(client: Client, fault_proxy: FaultProxy) -> None:
    """F-84: rights for 'system:anonymous' would be the wrong remedy."""
    drop = fault_proxy.add(Answer(200, b"ok"), path="/healthz")
    message = 'forbidden: User "system:anonymous" cannot get path "/api"'
    body = {"kind": "Status", "reason": "Forbidden", "message": message, "code": 403}
    fault_proxy.add(Answer(403, json.dumps(body).encode()), path="^/api$")
    with pytest.raises(ConnectionProblem) as raised:
        await wait_for_server(client, SHORT)
    assert drop.hits
    assert "does not get the credentials from kubeconfig" in str(raised.value)
    assert "bind ClusterRole" not in str(raised.value)


#: Makes garbage all the time, as each attempt to reach a server does, and tells when it is
#: collected; the module is in the host's process.
LITTERING = """
import threading
import weakref
from pathlib import Path

class Litter:
    def __init__(self):
        self.itself = self

def litter():
    collected = False
    def note():
        nonlocal collected
        collected = True
    while not collected:
        for _ in range(1000):
            weakref.finalize(Litter(), note).atexit = False
        time.sleep(0.01)
    Path("FOLDER/collected").touch()

threading.Thread(target=litter, daemon=True).start()
"""


def test_garbage_is_collected_while_the_server_is_awaited(
    loops: Loops, fault_proxy: FaultProxy, tmp_path: Path
) -> None:
    """A host that waits for an hour does not grow by each attempt (F-13)."""
    littering = LITTERING.replace("FOLDER", str(tmp_path))
    loops.plugin("one", after=littering)
    fault_proxy.refuse()
    host = loops.run("one", ready=False, startTimeout="1h")
    host.process.wait_until((tmp_path / "collected").exists, timeout_seconds=60)
    assert b"waiting for the API server" in host.page("/readyz")[1]
    assert host.stop() == 0
