"""The command line in this process where it is pure, and as a real process where it matters."""

import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from plugin_site import PluginSite

from kcm_host.cli.commands import kcm_host
from kcm_host.observe.logging import HostHandler

Cli = Callable[..., Result]
WriteFile = Callable[..., Path]


@dataclass(frozen=True)
class Ended:
    """The result of a process: exit code, stdout, stderr."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """The error lines; everything on stderr must be one."""
        lines = self.err.splitlines()
        assert all(line.startswith("error: ") for line in lines), self.err
        return [line.removeprefix("error: ") for line in lines]


class Command:
    """Starts `kcm-host` as a process of its own, away from the user's own configuration."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment: dict[str, str] = {}

    def start(self, *arguments: object, **options: Any) -> "subprocess.Popen[str]":
        """Start it; the caller waits."""
        return subprocess.Popen(
            [sys.executable, "-m", "kcm_host", *map(str, arguments)],
            env=self.variables(),
            cwd=self.home,
            text=True,
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
        )

    def __call__(self, *arguments: object, **options: Any) -> Ended:
        """Run it to its end."""
        process = self.start(*arguments, **options)
        out, err = process.communicate(timeout=60)
        return Ended(process.returncode, out or "", err or "")

    def variables(self) -> dict[str, str]:
        """Return its environment: ours without what would configure it."""
        own = {name: text for name, text in os.environ.items() if not _configures(name)}
        return {**own, "HOME": str(self.home), **self.environment}


def _configures(name: str) -> bool:
    return name.startswith(("KCM_HOST_", "KUBE")) or name in ("NO_COLOR", "PYTHONPATH")


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Run `kcm-host` as a process: `command("run", "-c", file)`."""
    return Command(tmp_path)


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """Run a verb in this process: `cli("check", "-c", file)`; whatever it logs is undone."""
    for name in filter(_configures, tuple(os.environ)):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    root = logging.getLogger()
    level = root.level

    def run(*arguments: object, env: Mapping[str, str] | None = None) -> Result:
        return CliRunner().invoke(kcm_host, [str(one) for one in arguments], env=env)

    yield run
    root.setLevel(level)
    for handler in [one for one in root.handlers if isinstance(one, HostHandler)]:
        root.removeHandler(handler)


@pytest.fixture
def site(tmp_path: Path, command: Command) -> PluginSite:
    """Plugins that are installed for `command`."""
    found = PluginSite(tmp_path / "site")
    command.environment.update(found.environment)
    return found


@pytest.fixture
def config(tmp_path: Path) -> WriteFile:
    """Write a config file: `config(ttl={})`, other keys of the file in `more`."""

    def write(*, more: Mapping[str, Any] | None = None, **controllers: Any) -> Path:
        whole = {
            "controllers": controllers or {"ttl": {}},
            "leaderElection": {"enabled": False},
            "http": {"bind": "127.0.0.1:0"},
            "startTimeout": "0s",
            **(more or {}),
        }
        path = tmp_path / "kcm-host.yaml"
        path.write_text(json.dumps(whole))
        return path

    return write


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Return a port that refuses connections for as long as the test runs."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound, so that nobody else gets it, but not listening
        yield held.getsockname()[1]


@pytest.fixture
def kubeconfig(tmp_path: Path, silent_port: int) -> WriteFile:
    """Write a kubeconfig: `kubeconfig({"token": "t"})`; its server refuses connections."""

    def write(user: Mapping[str, Any] | None = None, **cluster: Any) -> Path:
        cluster = {"server": f"http://127.0.0.1:{silent_port}", **cluster}
        whole = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": "t"} if user is None else user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(whole))
        return path

    return write
