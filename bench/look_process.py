"""
A host with all five controllers over a cluster in memory, which is looked at.

Run by the workload `looks` in a process of its own: `python -m bench.look_process OBJECTS
NAMESPACES`. Prints one JSON object of figures.
"""

import asyncio
import json
import os
import signal
import socket
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

from bench.cluster_in_memory import ClusterInMemory
from kcm_host.client.auth.connection import connect
from kcm_host.client.rest import Client
from kcm_host.config.load import load_settings
from kcm_host.observe.logging import start_logging
from kcm_host.observe.states import Detail
from kcm_host.runtime.bootstrap import HostConfig, bootstrap, load_plugins
from kcm_host.runtime.host import Host

CONTROLLERS = ("clusterrole-aggregation", "resourceclaim", "resourcequota", "servicecidrs", "ttl")
LOOKS = 50
HEARTBEAT_SECONDS = 0.001
LOOK = ("/livez", "/readyz", "/metrics")
KUBECONFIG = {
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
}


class HostInMemory(Host):
    """A host whose client is a cluster in memory; everything else is the host's own."""

    def __init__(self, config: HostConfig, cluster: ClusterInMemory) -> None:
        super().__init__(config)
        self._cluster = cluster

    @asynccontextmanager
    async def _clients(self) -> AsyncIterator[tuple[Client, dict[str, Client]]]:
        yield cast(Client, self._cluster), {}


async def measure(objects: int, namespaces: int) -> dict[str, float]:
    """Return the figures of one host."""
    with tempfile.TemporaryDirectory() as folder:
        config = _config(Path(folder))
    cluster = ClusterInMemory(config.connection, objects=objects, namespaces=namespaces)
    host = HostInMemory(config, cluster)
    running = asyncio.create_task(host.run())
    await _until_quiet(host, running)
    address = f"http://{config.bind}"
    held = sum(stream.objects for stream in host.state(Detail.METRICS).streams)
    # A thread that asks costs the loop something of its own, which is the measurement's.
    nothing = await _loop_seconds(lambda: None)
    look = await _loop_seconds(lambda: _ask(address, *LOOK)) - nothing
    status = await _loop_seconds(lambda: _ask(address, "/status")) - nothing
    gap = await _longest_gap(lambda: _ask(address, *LOOK))
    os.kill(os.getpid(), signal.SIGTERM)
    await running
    return {"objects": held, "look": look, "status": status, "gap": gap}


def _config(folder: Path) -> HostConfig:
    config, kubeconfig = folder / "config.yaml", folder / "kubeconfig"
    kubeconfig.write_text(json.dumps(KUBECONFIG))
    controllers: dict[str, object] = {name: {} for name in CONTROLLERS}
    # Any port would do, but only the log would tell which one it is.
    bind = f"127.0.0.1:{_free_port()}"
    config.write_text(json.dumps({"controllers": controllers, "http": {"bind": bind}}))
    loaded = load_settings(file=config, environ={})
    connection = connect(str(kubeconfig), environ={})
    return bootstrap(loaded.settings, load_plugins(loaded), connection=connection)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


async def _until_quiet(host: Host, running: "asyncio.Task[int]") -> None:
    """Return when every controller runs and has nothing to do, twice in a row."""
    quiet = 0
    while quiet < 2:
        await asyncio.wait({running}, timeout=1.0)
        if running.done():
            raise RuntimeError(f"the host ended with {running.result()}")
        state = host.state(Detail.METRICS)
        busy = [
            one
            for one in state.controllers
            if one.queue is None or one.queue.depth or one.queue.processing or not one.ready
        ]
        quiet = 0 if busy else quiet + 1


async def _loop_seconds(ask: Callable[[], None]) -> float:
    """Return the processor time of the event loop's own thread for one call of `ask` elsewhere."""
    await asyncio.to_thread(ask)
    before = time.thread_time()
    for _ in range(LOOKS):
        await asyncio.to_thread(ask)
    return (time.thread_time() - before) / LOOKS


async def _longest_gap(ask: Callable[[], None]) -> float:
    """Return the longest time that a callback which was due had to wait meanwhile."""

    def ask_often() -> None:
        for _ in range(LOOKS):
            ask()

    asking = asyncio.get_running_loop().run_in_executor(None, ask_often)
    longest = 0.0
    while not asking.done():
        due = time.monotonic() + HEARTBEAT_SECONDS
        await asyncio.sleep(HEARTBEAT_SECONDS)
        longest = max(longest, time.monotonic() - due)
    await asking
    return longest


def _ask(address: str, *paths: str) -> None:
    for path in paths:
        with urllib.request.urlopen(f"{address}{path}", timeout=60) as answer:
            answer.read()


if __name__ == "__main__":
    start_logging("error")
    found = asyncio.run(measure(*map(int, sys.argv[1:])))
    sys.stdout.write(json.dumps(found) + "\n")
