"""The controller of the tutorial is real: it type-checks, loads, and does what the page says."""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from eventually import eventually
from kubernetes import client
from pages import BLOCK, ROOT, read
from plugin_site import PluginSite
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer

PAGE = read("docs/write-a-controller.md")
BLOCKS = BLOCK.findall(PAGE)
SOURCE = next(text for language, text in BLOCKS if language == "python")
PROJECT = tomllib.loads(next(text for language, text in BLOCKS if language == "toml"))
((NAME, VALUE),) = PROJECT["project"]["entry-points"]["kcm_host.controllers"].items()


@pytest.fixture
def installed(tmp_path: Path) -> PluginSite:
    """The controller of the page, as its own toml installs it."""
    site = PluginSite(tmp_path / "site")
    site.module(VALUE.partition(":")[0], SOURCE)
    site.metadata(PROJECT["project"]["name"], f"{NAME} = {VALUE}")
    return site


def test_it_is_clean_for_strict_mypy(installed: PluginSite) -> None:
    """An author who checks strictly sees no error: the API is typed."""
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", installed.folder / "cache",
         "--config-file", ROOT / "pyproject.toml", *installed.folder.glob("*.py")],
        capture_output=True, text=True, check=False, cwd=installed.folder,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout


def test_it_labels_namespaces(installed: PluginSite, api_server: ApiServer, namespace: str) -> None:
    """Run by the host on a real server, it puts the label on, and puts it back when it is taken."""
    core: Any = client.CoreV1Api(api_server.client())
    initial = "example.org/initial"

    def label() -> str | None:
        labels: dict[str, str] = core.read_namespace(namespace).metadata.labels or {}
        return labels.get(initial)

    config: dict[str, Any] = {"controllers": {NAME: {}}}
    environment = installed.environment
    with RunningHost(config, kubeconfig=api_server.kubeconfig(), environment=environment) as host:
        eventually(lambda: label() == namespace[0], "the namespace has its label")
        core.patch_namespace(namespace, {"metadata": {"labels": {initial: None}}})
        eventually(lambda: label() == namespace[0], "the namespace has its label again")
        assert host.controller(NAME)["status"]["namespaces"] >= 1
        assert host.stream("namespaces")["metadataOnly"] is True
        assert host.stop() == 0


def test_it_states_the_bounds_of_the_host() -> None:
    """Its distribution asks for this major version of the host and no other."""
    assert PROJECT["project"]["dependencies"] == ["kcm-host>=0.2,<1"]
