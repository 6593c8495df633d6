"""Candidates as a user installs them: wheels, a virtual environment, byte-compiled."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.candidates import clean_environment

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
# Of the environments of older sources, those that nobody used for so long are removed.
KEPT_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True)
class Installation:
    """
    What is installed together: our packages by their folders, and what a file requires.

    With our packages, the versions of the others are those of `constraints.txt`; without them, the
    file says all versions.
    """

    packages: Sequence[str] = ()
    requirements: str = ""


HOST = Installation(
    packages=(
        "host",
        "plugins/ttl",
        "plugins/clusterrole_aggregation",
        "plugins/servicecidrs",
        "plugins/resourceclaim",
        "plugins/resourcequota",
    ),
    requirements="bench/host_requirements.txt",
)
TOY = Installation(packages=("host", "bench/toy_plugin"), requirements=HOST.requirements)
KOPF = Installation(requirements="bench/toy_kopf/requirements.txt")


def installed(what: Installation, say: Callable[[str], None]) -> Path:
    """
    Return the virtual environment with what these sources say, built if it is not cached.

    The cache is `${XDG_CACHE_HOME:-~/.cache}/kcm-host/bench`, a folder for each state of the
    sources.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kcm-host" / "bench"
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / _state_of_sources(what)
    ready = folder / "ready"
    with _locked(cache / "lock"):
        if not ready.exists():
            shutil.rmtree(folder, ignore_errors=True)
            _install(what, folder, say)
        ready.touch()
        _remove_old(cache)
    return folder / "venv"


def _install(what: Installation, folder: Path, say: Callable[[str], None]) -> None:
    wheels, environment = folder / "wheels", folder / "venv"
    for package in what.packages:
        say(f"building the wheel of '{package}'")
        build = ["-m", "build", "--no-isolation", "--wheel", "--outdir", str(wheels)]
        _python(sys.executable, *build, str(ROOT / package))
    say(f"installing {what.requirements or 'the wheels'} into an environment of its own")
    venv.create(environment, with_pip=True)
    python = str(environment / "bin" / "python")
    found = [str(wheel) for wheel in wheels.glob("*.whl")]
    if what.requirements:
        found += ["-r", str(ROOT / what.requirements)]
    if what.packages:
        found += ["-c", str(CONSTRAINTS)]
    pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _python(python, *pip, *found)
    _python(python, "-m", "compileall", "-q", str(environment / "lib"))


def _python(python: str, *arguments: str) -> None:
    """Run Python; its output is shown only when it fails."""
    done = subprocess.run(
        [python, *arguments],
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"error: '{' '.join(arguments)}' failed:\n{done.stdout}")


def _state_of_sources(what: Installation) -> str:
    digest = hashlib.sha256(sys.version.encode())
    for path in _sources(what):
        digest.update(str(path.relative_to(ROOT)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _sources(what: Installation) -> Sequence[Path]:
    found = [CONSTRAINTS]
    if what.requirements:
        found.append(ROOT / what.requirements)
    for package in what.packages:
        found += [path for path in (ROOT / package).glob("*") if path.is_file()]
        found += [path for path in (ROOT / package / "src").rglob("*") if path.is_file()]
    return sorted(path for path in found if path.suffix != ".pyc")


def _remove_old(cache: Path) -> None:
    for ready in cache.glob("*/ready"):
        if time.time() - ready.stat().st_mtime > KEPT_SECONDS:
            shutil.rmtree(ready.parent, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
