"""Stuck syncs, which ignore their cancellation, hold up neither restart nor stop."""

from pathlib import Path

import pytest
from eventually import eventually
from host.runtime.loops import Loops, loop
from running_host import RunningHost

#: Goes on until the test makes a file, whoever cancels it.
DEAF = """
while key.name == "deaf" and not Path("FOLDER/go").exists():
    try:
        await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        pass
"""
#: A sync may take half a second instead of a minute; the module is in the host's process.
HASTY = """
from datetime import timedelta
from kcm_host.api import ControllerInfo
from kcm_host.reconcile import worker
worker.GRACE_SECONDS = 0.5
INFO = ControllerInfo(sync_timeout=timedelta(seconds=0.5))
Loop.kcm_info = staticmethod(hookimpl(lambda: INFO))
"""


@pytest.fixture
def source(namespace: str, tmp_path: Path) -> str:
    """Return a controller with one stuck key, whose watch function fails for key `fail`."""
    return loop(
        namespace=namespace,
        sync=DEAF.replace("FOLDER", str(tmp_path)),
        keys="if change.key.name == 'fail' and self.start == 1: raise ValueError('no')",
    )


def synced(host: RunningHost, name: str) -> bool:
    """Return whether the present instance has synced a key."""
    return name in host.controller("one")["status"].get("synced", ())


def test_it_is_shown_and_its_worker_replaced(loops: Loops, source: str, tmp_path: Path) -> None:
    """Until it ends, the controller is not ready and its problem has the key (F-4)."""
    loops.site.plugin("one", source + HASTY)
    host = loops.run("one")
    loops.create("deaf", "other")
    eventually(lambda: host.page("/readyz")[0] == 503, "it is not ready")
    assert b"syncs go on though they were cancelled: 1 (" in host.page("/readyz")[1]
    (line,) = host.log("sync stuck after its cancellation")
    assert (line["controller"], line["key"]) == ("one", f"{loops.namespace}/deaf")
    eventually(lambda: synced(host, "other"), "the one worker goes on")
    (tmp_path / "go").touch()
    eventually(lambda: host.page("/readyz")[0] == 200, "it is ready again")
    eventually(lambda: synced(host, "deaf"), "its key came again")
    assert host.stop() == 0


def test_a_restart_does_not_wait_for_it(loops: Loops, source: str, tmp_path: Path) -> None:
    """The next instance begins without it, and is not ready before it ends (F-4)."""
    loops.site.plugin("one", source.replace('"deaf"', '"deaf" and self.start == 1') + HASTY)
    loops.create("deaf")
    host = loops.run("one", ready=False)
    eventually(lambda: host.log("sync stuck after its cancellation"), "it is told")
    loops.create("fail")
    eventually(lambda: host.controller("one")["status"].get("start") == 2, "it started again")
    eventually(lambda: synced(host, "fail"), "the new instance syncs")
    assert "syncs go on" in host.controller("one")["problem"]
    assert not host.controller("one")["ready"]
    (tmp_path / "go").touch()
    eventually(lambda: host.controller("one")["ready"], "it is ready again")


def test_a_stop_names_it(loops: Loops, source: str) -> None:
    """The exit code is 1, and the log names the sync and not the event loop (F-4)."""
    loops.site.plugin("one", source)
    host = loops.run("one", shutdownTimeout="300ms")
    loops.create("deaf")
    eventually(lambda: host.controller("one")["queue"]["processing"], "a sync is running")
    assert host.stop(timeout_seconds=60) == 1
    (line,) = host.log("sync stuck after its cancellation")
    assert (line["controller"], line["key"]) == ("one", f"{loops.namespace}/deaf")
    (left,) = host.log("syncs left behind")
    assert left["problem"].startswith("syncs go on though they were cancelled: 1 (")
    assert not [line for line in host.log() if "event loop is blocked" in str(line)]


def test_a_stop_does_not_wait_for_threads(loops: Loops) -> None:
    """A sync that waits for a thread is cancelled, and the thread ends with the process (F-12)."""
    sync = "await asyncio.to_thread(time.sleep, 3600)"
    loops.plugin("one", sync=sync)
    host = loops.run("one", shutdownTimeout="300ms")
    loops.create("a")
    eventually(lambda: host.controller("one")["queue"]["processing"], "a sync is running")
    assert host.stop(timeout_seconds=60) == 1
    (line,) = host.log("syncs cancelled after the shutdown timeout")
    assert line["controller"] == "one"
    (left,) = host.log("exit with work left")
    assert (left["tasks"], "asyncio_0" in left["threads"]) == ("", True)
