"""The controller of the tutorial is real: it type-checks, loads, and does what the page says."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from eventually import eventually
from kubernetes import client
from pages import BLOCK, ROOT, read
from plugin_site import PluginSite
from running_host import RunningHost

PAGE = read("docs/write-a-controller.md")
BLOCKS = BLOCK.findall(PAGE)
SOURCE = next(text for language, text in BLOCKS if language == "python")
PROJECT = tomllib.loads(next(text for language, text in BLOCKS if language == "toml"))
((NAME, VALUE),) = PROJECT["project"]["entry-points"]["kcm_host.controllers"].items()


@pytest.fixture
def installed(tmp_path: Path) -> PluginSite:
    """The controller of the page, as its own toml installs it."""
    site = PluginSite(tmp_path / "site")
    site.folder.mkdir()
    site.module(VALUE.partition(":")[0], SOURCE)
    site.metadata(PROJECT["project"]["name"], f"{NAME} = {VALUE}")
    return site


def test_it_is_clean_for_strict_mypy(installed):
    """An author who checks strictly sees no error: the API is typed."""
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", installed.folder / "cache",
         "--config-file", ROOT / "pyproject.toml", *installed.folder.glob("*.py")],
        capture_output=True, text=True, check=False, cwd=installed.folder,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout


def test_it_labels_namespaces(installed, api_server, namespace):
    """Run by the host on a real server, it puts the label on, and puts it back when it is taken."""
    core = client.CoreV1Api(api_server.client())
    initial = "example.org/initial"

    def label() -> str | None:
        return (core.read_namespace(namespace).metadata.labels or {}).get(initial)

    config = {"controllers": {NAME: {}}}
    environment = installed.environment
    with RunningHost(config, kubeconfig=api_server.kubeconfig(), environment=environment) as host:
        eventually(lambda: label() == namespace[0], "the namespace has its label")
        core.patch_namespace(namespace, {"metadata": {"labels": {initial: None}}})
        eventually(lambda: label() == namespace[0], "the namespace has its label again")
        assert host.controller(NAME)["status"]["namespaces"] >= 1
        assert host.stream("namespaces")["metadataOnly"] is True
        assert host.stop() == 0


def test_it_states_the_bounds_of_the_host():
    """Its distribution asks for this major version of the host and no other."""
    assert PROJECT["project"]["dependencies"] == ["kcm-host>=0.2,<1"]
