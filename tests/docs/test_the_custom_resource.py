"""The page about a custom resource: its files are installed and run as they are written."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from pages import ROOT, read

from kcm_host_testing.api_server import ApiServer

PAGE = read("docs/custom-resource.md")
FILES = dict(re.findall(r"^### (\S+)\n.*?^```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Every file of the page in a folder, with the metadata that pip would install."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    found = tomllib.loads(FILES["pyproject.toml"])["project"]
    info = tmp_path / f"{found['name'].replace('-', '_')}-{found['version']}.dist-info"
    info.mkdir()
    lines = [f"Name: {found['name']}", f"Version: {found['version']}"]
    lines += [f"Requires-Dist: {each}" for each in found["dependencies"]]
    (info / "METADATA").write_text("\n".join(["Metadata-Version: 2.1", *lines, ""]))
    entries = found["entry-points"]["kcm_host.controllers"]
    text = "".join(f"{name} = {value}\n" for name, value in entries.items())
    (info / "entry_points.txt").write_text(f"[kcm_host.controllers]\n{text}")
    return tmp_path


def run(project: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command as the author in the project would."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(project)}
    return subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, check=False
    )


def test_the_page_has_all_files() -> None:
    """The three levels of tests stand beside the controller and its resource."""
    assert set(FILES) == {
        "crd.yaml",
        "kcm_host_website.py",
        "test_readiness.py",
        "test_in_memory.py",
        "test_on_a_server.py",
        "pyproject.toml",
    }


def test_it_is_clean_for_strict_mypy(project: Path) -> None:
    """An author who checks strictly sees no error."""
    options = ["--strict", "--cache-dir", "cache", "--config-file", str(ROOT / "pyproject.toml")]
    ended = run(project, sys.executable, "-m", "mypy", *options, *map(str, project.glob("*.py")))
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize("file", ["test_readiness.py", "test_in_memory.py"])
def test_its_tests_without_a_server_pass(project: Path, file: str) -> None:
    """They are what the page says they are."""
    ended = run(project, sys.executable, "-m", "pytest", "-q", "-o", "asyncio_mode=auto", file)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_its_test_on_a_server_passes(project: Path, api_server: ApiServer) -> None:
    """It starts servers of its own, as for its author; this fixture has built the binaries."""
    ended = run(project, sys.executable, "-m", "pytest", "-q", "test_on_a_server.py")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert api_server.url
