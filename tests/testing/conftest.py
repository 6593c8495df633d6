"""What the tests of the kit need beside the kit itself."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from eventually import eventually

Until = Callable[[Callable[[], bool]], None]


@pytest.fixture
def until() -> Until:
    """Waits for a condition: `until(lambda: ...)` fails the test after a minute."""

    def wait(condition: Callable[[], bool]) -> None:
        eventually(condition, "the condition came true")

    return wait


@pytest.fixture
def lives() -> Callable[[int], bool]:
    """Return whether a process exists and is more than an unread exit code."""

    def check(pid: int) -> bool:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False
        return stat.rpartition(")")[2].split()[0] != "Z"

    return check


@pytest.fixture
def fake_go(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """Puts a `go` of one's own before all others: gives the environment for a subprocess."""

    def make(build: str) -> dict[str, str]:
        folder = tmp_path / "fake"
        folder.mkdir()
        program = folder / "go"
        program.write_text(f'#!/bin/sh\nif [ "$1" = env ]; then echo go1.99.0; exit; fi\n{build}\n')
        program.chmod(0o755)
        return os.environ | {
            "PATH": f"{folder}:{os.environ['PATH']}",
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
        }

    return make


@pytest.fixture
def cluster_command() -> list[str]:
    """The command line of the kit's own command."""
    return [sys.executable, "-m", "kcm_host_testing.cluster"]
