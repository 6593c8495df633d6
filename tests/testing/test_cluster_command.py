"""The command gives a person an API server and takes it away again."""

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kcm_host_testing import release
from kcm_host_testing.kubectl import Kubectl


def test_path_prints_the_folder(kube_binaries: Path, cluster_command: list[str]) -> None:
    """`path` prints the folder of the binaries and nothing else."""
    done = subprocess.run([*cluster_command, "path"], check=True, capture_output=True, text=True)
    assert done.stdout == f"{kube_binaries}\n"


def test_path_of_what_is_not_built_is_a_failure(
    tmp_path: Path, cluster_command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`path` says which binaries are missing and what to do."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    done = subprocess.run([*cluster_command, "path"], check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout.strip().startswith(str(tmp_path))
    assert f"not built yet: {', '.join(release.PACKAGES)}; run 'build' first" in done.stderr


@pytest.mark.usefixtures("kube_binaries")
def test_up_runs_until_it_is_interrupted(
    tmp_path: Path, cluster_command: list[str], until: Callable[[Callable[[], bool]], None]
) -> None:
    """`up` writes a kubeconfig that works, and Ctrl-C ends everything with code 0."""
    config = tmp_path / "kubeconfig"
    command = [*cluster_command, "up", "--kubeconfig", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as up:
        assert up.stdout is not None
        assert release.kubernetes_version() in up.stdout.readline()
        assert up.stdout.readline() == f"{config}\n"
        kubectl = Kubectl(config)
        assert "namespace/default" in kubectl("get", "namespaces", "-o", "name")
        server = config.read_text()
        up.send_signal(signal.SIGINT)
        assert up.stdout.read().endswith("stopping\n")
        assert up.wait(15) == 0
    assert "https://127.0.0.1:" in server
