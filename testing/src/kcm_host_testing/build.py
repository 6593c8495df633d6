"""Builds the servers from the pinned modules, once for each release and machine."""

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kcm_host_testing import release, toolchain, workspace
from kcm_host_testing.process import Process
from kcm_host_testing.progress import Progress

_POLL_SECONDS = 0.2
_PARTIAL = ".partial"
_SETTINGS = {
    "CGO_ENABLED": "0",
    "GOTOOLCHAIN": "local",
    "GOFLAGS": "-mod=readonly",
    "GOWORK": "off",
}


class BuildError(Exception):
    """The binaries could not be built; says at which step, why and what to do."""


def ensure(progress: Progress | None = None) -> Path:
    """
    Build what is missing and give the folder of the binaries.

    Cold, about five minutes; a binary that is there is never built again. Two processes wait for
    each other. `BuildError` leaves what is finished and nothing half-made; so does Ctrl-C.
    """
    progress = progress or Progress()
    folder = release.binaries_folder()
    if release.missing_binaries():
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(folder.with_name(f"{folder.name}.lock"), progress):
            _build_missing(folder, progress)
    progress.say(f"kubernetes {release.kubernetes_version()} is built: '{folder}'")
    return folder


@contextmanager
def _lock(path: Path, progress: Progress) -> Iterator[None]:
    with path.open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say("another process builds the same binaries; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build_missing(folder: Path, progress: Progress) -> None:
    names = release.missing_binaries()
    if not names:
        return
    try:
        go = toolchain.find_go(progress)
    except toolchain.ToolchainError as error:
        raise BuildError(str(error)) from error
    progress.say(
        f"building {', '.join(names)} of kubernetes {release.kubernetes_version()} with '{go}'; "
        "all four take about 5 minutes and 4 GB of Go's caches the first time"
    )
    work = workspace.new_folder("build")
    try:
        for name in names:
            _build(name, go=go, work=work, folder=folder, progress=progress)
    finally:
        workspace.remove_folder(work)
        for left in folder.glob(f"*{_PARTIAL}"):
            left.unlink()


def _build(name: str, *, go: Path, work: Path, folder: Path, progress: Progress) -> None:
    for file in ("go.mod", "go.sum"):  # a copy: go writes next to them, and the package is not ours
        shutil.copy(release.MODULE / file, work / file)
    output = folder / f"{name}{_PARTIAL}"
    flags = ["-v", "-trimpath", f"-ldflags={_linker_flags(name)}"]
    command: list[str | Path] = [
        go,
        "build",
        "-C",
        work,
        *flags,
        "-o",
        output,
        release.PACKAGES[name],
    ]
    build = Process(command, log=work / f"{name}.log", environment=os.environ | _SETTINGS)
    begin = time.monotonic()
    code = _wait(build, f"{name}: building", progress)
    took = f"{time.monotonic() - begin:.0f} s"
    if code != 0 or not output.is_file():
        raise BuildError(
            f"building {name} failed after {took}: 'go build' ended with code {code}; "
            f"its last lines:\n{build.log_tail()}\n"
            "see that Go's module proxy is reachable ('go env GOPROXY') and build again: "
            "what is finished is kept"
        )
    output.rename(folder / name)
    progress.say(f"{name}: built in {took}, {(folder / name).stat().st_size / 1e6:.0f} MB")


def _wait(build: Process, doing: str, progress: Progress) -> int | None:
    begin = time.monotonic()
    build.start()
    try:
        while build.running:
            lines = build.log.read_text(errors="replace").splitlines()
            packages = sum(not line.startswith("go: ") for line in lines)
            seconds = time.monotonic() - begin
            progress.alive(f"{doing}, {seconds:.0f} s, {packages} packages compiled")
            time.sleep(_POLL_SECONDS)
        return build.exit_code
    finally:
        build.kill()


def _linker_flags(name: str) -> str:
    """Strip symbols; and write in the release, without which `/version` lies."""
    if name == "etcd":
        return "-s -w"
    version = release.kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".", 2)
    values = {
        "gitVersion": version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
    }
    places = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    sets = [f"-X {place}.{key}={value}" for place in places for key, value in values.items()]
    return " ".join(["-s", "-w", *sets])
