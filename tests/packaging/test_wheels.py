"""Wheels and sdists: what is in them, and that one controller runs from them, with nothing else."""

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.message import Message
from email.parser import HeaderParser
from importlib.metadata import files as files_of
from pathlib import Path
from typing import Any

import pytest
from eventually import eventually
from kubernetes import client

from kcm_host import __version__
from kcm_host_testing import probe
from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.process import Process

ROOT = Path(__file__).parents[2]
PACKAGES = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["kcm-host-workspace"][
    "members"
]
PLUGINS = sorted((ROOT / "plugins").glob("*/pyproject.toml"))
QUIET = ("--quiet", "--disable-pip-version-check")
TTL = "node.alpha.kubernetes.io/ttl"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    Build sdists, and wheels from them, as `make wheels` does, beside their dependencies.

    These come from an index or from pip's cache, in the pinned versions.
    """
    folder = tmp_path_factory.mktemp("wheels")

    def build(package: str) -> None:
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT / package)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(build, PACKAGES))
    pins = ["-c", ROOT / "constraints.txt", "-d", folder]
    ours = folder.glob("kcm_host*.whl")
    run(sys.executable, "-m", "pip", "download", *QUIET, *pins, *ours)
    return folder


@pytest.fixture(scope="module")
def environment(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the ttl controller with the command of the README, into a new environment."""
    folder = tmp_path_factory.mktemp("installed") / "env"
    venv.create(folder, with_pip=True, symlinks=True)
    words = install_line("README.md").replace(" dist ", f" {wheels} ").split()
    run(folder / "bin" / "python", "-m", "pip", *words, *QUIET, "--no-compile")
    return folder


def install_line(page: str) -> str:
    """Return the pip arguments in a page."""
    (found,) = re.findall(r"pip (install --[^#\n]*)", (ROOT / page).read_text())
    return str(found)


def run(*command: object) -> str:
    """Run a program and return its output; a failure shows all of it."""
    own = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    ended = subprocess.run(
        list(map(str, command)), env=own, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    return ended.stdout


def contents(wheels: Path, distribution: str) -> zipfile.ZipFile:
    """Open the one wheel of a distribution."""
    (path,) = wheels.glob(f"{distribution}-*.whl")
    return zipfile.ZipFile(path)


def sdist(wheels: Path, distribution: str) -> tarfile.TarFile:
    """Open the one sdist of a distribution."""
    (path,) = wheels.glob(f"{distribution}-*.tar.gz")
    return tarfile.open(path)


def root_of(archive: tarfile.TarFile) -> str:
    """Return the one top folder of an sdist."""
    (root,) = {name.partition("/")[0] for name in archive.getnames()}
    return root


def sources(package: str) -> set[str]:
    """Return the files of a distribution's source, as a commit would hold them."""
    folder = ROOT / package / "src"
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and not _is_leftover(path.relative_to(folder))
    }


def _is_leftover(path: Path) -> bool:
    return any(part.startswith((".", "__pyc")) or part.endswith(".egg-info") for part in path.parts)


def metadata(wheel: zipfile.ZipFile) -> "Message[str, str]":
    """Return the metadata of a wheel."""
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return HeaderParser().parsestr(wheel.read(name).decode())


def project(package: str) -> dict[str, Any]:
    """Return the metadata of a distribution."""
    whole = tomllib.loads((ROOT / package / "pyproject.toml").read_text())
    found: dict[str, Any] = whole["project"]
    return found


def distribution_of(package: str) -> str:
    """Return the name that the files of a distribution begin with."""
    return str(project(package)["name"]).replace("-", "_")


@pytest.mark.parametrize("package", PACKAGES)
def test_wheels_and_sdists_hold_the_license(wheels: Path, package: str) -> None:
    """The license of the repository is in every wheel and sdist, and both name it (F-95)."""
    license_text = (ROOT / "LICENSE").read_bytes()
    assert b"Apache License" in license_text
    distribution = distribution_of(package)
    with contents(wheels, distribution) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith("licenses/LICENSE")]
        assert wheel.read(name) == license_text
        assert metadata(wheel)["License-Expression"] == "Apache-2.0"
        assert metadata(wheel)["License-File"] == "LICENSE"
    with sdist(wheels, distribution) as archive:
        packed = archive.extractfile(f"{root_of(archive)}/LICENSE")
        assert packed is not None
        assert packed.read() == license_text


@pytest.mark.parametrize("package", PACKAGES)
def test_an_sdist_holds_its_source_and_nothing_else(wheels: Path, package: str) -> None:
    """Source, project file, texts; what git ignores and what tools leave is not in it (F-95)."""
    with sdist(wheels, distribution_of(package)) as archive:
        root = root_of(archive)
        packed = {name.removeprefix(f"{root}/") for name in archive.getnames()}
    texts = {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "PKG-INFO"}
    assert packed - {".gitignore"} == texts | {f"src/{name}" for name in sources(package)}


def test_the_pins_of_the_readme_are_the_versions(wheels: Path) -> None:
    """The command of the README installs the wheels of `make wheels`, by version (F-94)."""
    for page in ("README.md", "host/README.md", "testing/README.md"):
        line = install_line(page)
        assert "--no-index --find-links dist " in line
        pins = re.findall(r"(kcm-host[a-z-]*)==(\S+)", line)
        assert pins
        for name, version in pins:
            assert list(wheels.glob(f"{name.replace('-', '_')}-{version}-*.whl")), line


@pytest.mark.parametrize("package", PACKAGES)
def test_a_wheel_holds_its_package_and_nothing_else(wheels: Path, package: str) -> None:
    """Every module of the source, the marker for type checkers, and no leftovers of tools."""
    distribution = distribution_of(package)
    with contents(wheels, distribution) as wheel:
        packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert f"{distribution}/py.typed" in packed
    assert packed == sources(package)


def test_the_kit_brings_its_go_modules(wheels: Path) -> None:
    """An author who installs the kit can build the servers: go.mod and go.sum are in the wheel."""
    with contents(wheels, "kcm_host_testing") as wheel:
        for name in ("go.mod", "go.sum"):
            packed = wheel.read(f"kcm_host_testing/kube/{name}")
            assert packed == (ROOT / "testing/src/kcm_host_testing/kube" / name).read_bytes()


def test_a_wheel_says_what_it_is(wheels: Path) -> None:
    """The metadata has version, summary, description, licence and entry points."""
    with contents(wheels, "kcm_host") as wheel:
        host = metadata(wheel)
    assert host["Version"] == __version__
    assert host["License-Expression"] == "Apache-2.0"
    assert "kcm-host" in host.get_payload()
    with contents(wheels, "kcm_host_ttl") as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
        assert wheel.read(name).decode().split() == [
            "[kcm_host.controllers]", "ttl", "=", "kcm_host_ttl:Ttl",
        ]  # fmt: skip


@pytest.mark.parametrize("file", PLUGINS, ids=lambda file: file.parent.name)
def test_plugins_state_the_bounds_of_the_host(file: Path) -> None:
    """Each requires this version of the host, below the next major one (design 2)."""
    project = tomllib.loads(file.read_text())["project"]
    (bound,) = [one for one in project["dependencies"] if one.startswith("kcm-host")]
    match = re.fullmatch(r"kcm-host>=(\d+)\.(\d+),<(\d+)", bound)
    assert match, bound
    major, minor, next_major = map(int, match.groups())
    assert next_major == major + 1
    here = tuple(map(int, __version__.split(".")[:2]))
    assert (major, minor) <= here < (next_major, 0)


def test_only_what_was_asked_for_is_installed(environment: Path) -> None:
    """One controller installs the host, and no other controller."""
    listed = run(environment / "bin" / "kcm-host", "plugins", "list", "-o", "json")
    assert [(one["name"], one["state"]) for one in json.loads(listed)] == [("ttl", "ok")]
    frozen = run(environment / "bin" / "python", "-m", "pip", "freeze")
    ours = [line.partition(" @ ")[0] for line in frozen.splitlines() if "kcm-host" in line]
    assert [name.partition("==")[0] for name in ours] == ["kcm-host", "kcm-host-ttl"]
    assert "pytest" not in frozen


def test_dependencies_fit_each_other(environment: Path) -> None:
    """Pip reports no conflict between the requirements of the wheels."""
    assert run(environment / "bin" / "python", "-m", "pip", "check").startswith("No broken")


@pytest.fixture
def host(environment: Path, api_server: ApiServer, tmp_path: Path) -> Iterator[Process]:
    """Run the installed command with the README's kind of config."""
    config = tmp_path / "kcm-host.yaml"
    config.write_text(
        "controllers: {ttl: {}}\n"
        "leaderElection: {enabled: false}\n"
        "http: {bind: 127.0.0.1:0}\n"
        "log: {format: json}\n"
    )
    program: list[str | Path] = [environment / "bin" / "kcm-host", "run", "-c", config]
    process = Process(
        [*program, "--kubeconfig", api_server.kubeconfig()],
        log=tmp_path / "log",
        environment={"PATH": os.defpath, "HOME": str(tmp_path)},
    )
    process.start()
    yield process
    process.stop()


def test_the_installed_controller_works(host: Process, api_server: ApiServer) -> None:
    """From the wheels alone the host gets ready, annotates a node, and ends in order."""

    def address() -> str:
        assert host.running, host.log_tail()
        lines = map(json.loads, host.log.read_text().splitlines())
        return next((one["address"] for one in lines if one["event"] == "endpoints served"), "")

    pages = eventually(address, "the pages are served")
    eventually(lambda: probe.answers(f"{pages}/readyz"), "the host is ready")
    core: Any = client.CoreV1Api(api_server.client())
    name = core.create_node({"metadata": {"generateName": "wheel-"}}).metadata.name
    try:
        eventually(lambda: TTL in (core.read_node(name).metadata.annotations or {}), "annotated")
    finally:
        core.delete_node(name)
    os.kill(host.pid, signal.SIGTERM)
    eventually(lambda: not host.running, "the host has ended")
    assert host.exit_code == 0


def test_the_largest_dependency_is_told_as_large_as_it_is() -> None:
    """The size of `kubernetes` in the project file is that of an installation (F-96)."""
    text = (ROOT / "host/pyproject.toml").read_text()
    (said,) = re.findall(r"# (\d+) MB unpacked.*\n.*\n  \"kubernetes", text)
    files = [file for file in files_of("kubernetes") or () if file.suffix != ".pyc"]
    size = sum(Path(str(file.locate())).stat().st_size for file in files)
    assert int(said) == pytest.approx(size / 1e6, rel=0.1)
