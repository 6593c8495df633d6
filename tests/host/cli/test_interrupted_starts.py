"""Ctrl-C before the host runs ends it at once and without a word."""

import signal
import subprocess
from pathlib import Path

import pytest
from eventually import eventually
from host.cli.conftest import Command, WriteFile
from plugin_site import PluginSite, controller

BLOCKED = """
import time
from pathlib import Path

Path(__file__).with_suffix(".reached").touch()
for _ in range(1200):  # a signal that another thread receives does not end a sleep of this one
    time.sleep(0.05)
"""


def interrupted(process: subprocess.Popen[str], marker: Path) -> tuple[int, str]:
    """Send Ctrl-C once the process has printed the marker; return exit code and stderr."""
    try:
        eventually(marker.exists, f"the process has reached {marker.name}")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    return process.returncode, err


def test_in_the_first_imports(command: Command, site: PluginSite) -> None:
    """While click is being imported the system ends the process: killed by SIGINT, no traceback."""
    marker = site.module("click", BLOCKED).with_suffix(".reached")
    code, err = interrupted(command.start("--version"), marker)
    assert code == -signal.SIGINT
    assert err == ""


@pytest.mark.parametrize("verb", ["run", "check"])
def test_while_plugins_are_loaded(
    command: Command, site: PluginSite, config: WriteFile, kubeconfig: WriteFile, verb: str
) -> None:
    """A slow import of a plugin can be interrupted: exit code 130, no traceback."""
    marker = site.plugin("slow", BLOCKED).with_suffix(".reached")
    arguments = [verb, "-c", config(slow={}), "--kubeconfig", kubeconfig()]
    code, err = interrupted(command.start(*arguments), marker)
    assert code == 130
    assert err.strip() == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda one: one.name)
def test_while_the_server_is_awaited(
    command: Command,
    site: PluginSite,
    config: WriteFile,
    kubeconfig: WriteFile,
    number: signal.Signals,
) -> None:
    """A host that has not found its server yet has nothing to drain: exit code 0 (H-41, H-61)."""
    site.plugin("good", controller())
    file = config(good={}, more={"startTimeout": "10m"})
    process = command.start("run", "-c", file, "--kubeconfig", kubeconfig())
    assert process.stderr is not None
    try:
        line = next(line for line in process.stderr if "endpoints served" in line)
        assert "address=http://127.0.0.1:" in line
        # The handlers come after the pages; a host that is asked for its state has both.
        eventually(lambda: _answers(line.rsplit("=", 1)[1].strip()), "the pages answer")
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert "Traceback" not in err


def _answers(address: str) -> bool:
    from kcm_host_testing.probe import request  # noqa: PLC0415

    return request(f"{address}/readyz")[0] == 503
