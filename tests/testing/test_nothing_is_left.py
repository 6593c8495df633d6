"""Servers and their folders never outlive whoever started them."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kcm_host_testing import workspace

Until = Callable[[Callable[[], bool]], None]
Lives = Callable[[int], bool]

# Started in a thread that ends at once: the servers must live until the *process* ends.
STARTS_BOTH = """
import threading, time
from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.etcd import Etcd
etcd = Etcd()
server = ApiServer(etcd)
def start():
    etcd.start()
    server.start()
starter = threading.Thread(target=start)
starter.start()
starter.join()
print(etcd.pid, server.pid, server.folder, flush=True)
time.sleep(600)
"""

USES_THE_FIXTURE = """
import time
def test_it(api_server, etcd):
    with open({marker!r}, "w") as marker:
        print(etcd.pid, api_server.pid, file=marker)
    # In short steps: a signal that another thread receives does not end a sleep of this one.
    for _ in range(12_000):
        time.sleep(0.05)
"""


def test_a_killed_owner_takes_its_servers_along(until: Until, lives: Lives) -> None:
    """After kill -9 of the process that started them, etcd and kube-apiserver are gone."""
    command = [sys.executable, "-c", STARTS_BOTH]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        etcd, server, folder = owner.stdout.readline().split()
        assert lives(int(etcd))
        assert lives(int(server))
        owner.kill()
    until(lambda: not lives(int(etcd)) and not lives(int(server)))
    workspace._own_of.cache_clear()  # as a later run of the kit begins
    workspace.remove_folder(workspace.new_folder("later"))
    assert not Path(folder).exists()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=lambda how: how.name)
def test_an_interrupted_pytest_ends_its_servers(
    tmp_path: Path, until: Until, lives: Lives, how: signal.Signals
) -> None:
    """A session that is interrupted in the middle of a test leaves no server behind."""
    marker = tmp_path / "pids"
    test = tmp_path / "test_it.py"
    test.write_text(USES_THE_FIXTURE.format(marker=str(marker)))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as session:
        until(lambda: marker.exists() and marker.read_text().endswith("\n"))
        pids = [int(pid) for pid in marker.read_text().split()]
        assert all(lives(pid) for pid in pids)
        session.send_signal(how)
    until(lambda: not any(lives(pid) for pid in pids))


def test_the_folder_of_a_living_owner_is_kept() -> None:
    """Only what nobody owns is swept: another process leaves our folders alone."""
    mine = workspace.new_folder("mine")
    other = "from kcm_host_testing import workspace; print(workspace.new_folder('other'))"
    done = subprocess.run([sys.executable, "-c", other], check=True, capture_output=True, text=True)
    assert mine.is_dir()
    assert not Path(done.stdout.strip()).exists()
    workspace.remove_folder(mine)
