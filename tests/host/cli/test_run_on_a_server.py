"""`kcm-host run` against a real API server: start, work, signals, exit codes, logs."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from eventually import eventually
from plugin_site import PluginSite, controller
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer

HANG = "await asyncio.sleep(60)"
STUBBORN = """
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(60)
"""


@pytest.fixture
def installed(tmp_path: Path) -> PluginSite:
    """Plugins for the host under test."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    return PluginSite(folder)


def host_of(
    server: ApiServer, installed: PluginSite, *, level: str = "info", **more: Any
) -> RunningHost:
    """Describe a host that runs the plugin `loop` of the site."""
    config = {"controllers": {"loop": {}}, "log": {"format": "json", "level": level}, **more}
    environment = installed.environment
    return RunningHost(config, kubeconfig=server.kubeconfig(), environment=environment)


def syncing(host: RunningHost) -> None:
    """Return when a sync is under way."""
    eventually(lambda: host.controller("loop")["queue"]["processing"], "a sync is running")


def test_every_line_of_a_json_log_is_json(api_server: ApiServer, installed: PluginSite) -> None:
    """From the first line to the last, with time, level, logger and event."""
    installed.plugin("loop", controller("raise ValueError('two\\nlines')"))
    with host_of(api_server, installed) as host:
        eventually(lambda: host.log("sync failed"), "a sync has failed")
        host.stop()
        lines = host.process.log.read_text().splitlines()
    for line in lines:
        assert {"time", "level", "logger", "event"} <= json.loads(line).keys()


@pytest.mark.parametrize("level", ["info", "debug"])
def test_stacks_are_shown_at_level_debug(
    api_server: ApiServer, installed: PluginSite, level: str
) -> None:
    """A failing sync is one line for operators; its stack is for authors."""
    installed.plugin("loop", controller("raise ValueError('broken on purpose')"))
    with host_of(api_server, installed, level=level) as host:
        eventually(lambda: host.log("sync failed"), "a sync has failed")
        stacks = [line["stack"] for line in host.log() if "stack" in line]
    if level == "info":
        assert stacks == []
    else:
        assert any("acme_loop.py" in stack and "on purpose" in stack for stack in stacks)


def test_a_second_signal_ends_a_hanging_host_at_once(
    api_server: ApiServer, installed: PluginSite
) -> None:
    """A sync hangs and the drain would take long: the second signal is exit code 130 (H-61)."""
    installed.plugin("loop", controller(HANG))
    with host_of(api_server, installed, shutdownTimeout="60s") as host:
        syncing(host)
        os.kill(host.pid, signal.SIGTERM)
        eventually(lambda: host.log("draining"), "the host drains")
        assert host.process.running
        os.kill(host.pid, signal.SIGINT)
        assert host.ended() == 130


def test_a_sync_that_resists_its_cancellation_does_not_hold_the_host(
    api_server: ApiServer, installed: PluginSite
) -> None:
    """A plugin that waits while it is cancelled cannot keep the process alive (H-61)."""
    installed.plugin("loop", controller(STUBBORN))
    with host_of(api_server, installed, shutdownTimeout="100ms") as host:
        syncing(host)
        assert host.stop() == 1
