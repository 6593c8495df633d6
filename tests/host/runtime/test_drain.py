"""The drain of a host: running syncs may end, and no sync begins."""

import os
import signal
from pathlib import Path

import pytest
from eventually import eventually
from host.runtime.loops import Loops, loop
from running_host import RunningHost

from kcm_host_testing.proxy import FaultProxy

#: Records its begin, waits for a file of the test, and writes an annotation.
WAITING = """
folder = Path("FOLDER")
(folder / f"{key.name}.begun").touch()
while not (folder / "go").exists():
    await asyncio.sleep(0.01)
await writer.patch(KIND, key, {"metadata": {"annotations": {"acme": "written"}}})
"""
SYNC = "kcm_sync(self, key, view, writer)"
PERMISSION = """
    @hookimpl
    def kcm_writes(self):
        from kcm_host.api import Permission
        return [Permission(kind=KIND, verb="patch")]
"""


def processing(host: RunningHost, name: str) -> int:
    """Return how many syncs of a controller are running."""
    return int((host.controller(name)["queue"] or {"processing": 0})["processing"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
def test_running_syncs_end_and_queued_keys_are_dropped(
    loops: Loops, tmp_path: Path, number: signal.Signals
) -> None:
    """The one running sync may still write, and no other begins: exit code 0 (H-61, F-93)."""
    source = loop(namespace=loops.namespace, sync=WAITING.replace("FOLDER", str(tmp_path)))
    loops.site.plugin("one", source.replace("kcm_sync(self, key, view)", SYNC) + PERMISSION)
    loops.create("a", "b", "c")
    host = loops.run("one", shutdownTimeout="1m")
    eventually(lambda: list(tmp_path.glob("*.begun")), "a sync has begun")
    os.kill(host.pid, number)
    eventually(lambda: host.log("draining"), "the host drains")
    eventually(lambda: host.controller("one")["queue"]["depth"] == 0, "the queue is dropped")
    loops.create("d")
    (tmp_path / "go").touch()
    assert host.ended() == 0
    (begun,) = tmp_path.glob("*.begun")
    written = loops.core.read_namespaced_config_map(begun.stem, loops.namespace)
    assert written.metadata.annotations == {"acme": "written"}
    events = [line["event"] for line in host.log()]
    assert (events[0], events[-1]) == ("kcm-host starting", "drained")
    assert events.index("endpoints served") < events.index("server reached")


def test_controllers_drain_independently(loops: Loops) -> None:
    """A controller without running syncs stops; only the one that hangs is logged."""
    loops.plugin("hanging", sync="await asyncio.sleep(3600)")
    loops.plugin("idle")
    loops.create("a")
    host = loops.run("hanging", "idle", shutdownTimeout="300ms")
    eventually(lambda: processing(host, "hanging"), "a sync is running")
    assert host.stop() == 1
    (line,) = host.log("syncs cancelled after the shutdown timeout")
    assert (line["controller"], line["timeout"]) == ("hanging", "0.3s")
    assert host.log("controller", controller="idle", phase="stopped")


def test_no_controller_restarts_during_a_drain(loops: Loops) -> None:
    """A controller that waits for its next run stops (H-61)."""
    loops.plugin("hanging", sync="await asyncio.sleep(3600)")
    loops.plugin("shaky", keys="raise ValueError('always')")
    loops.create("a")
    host = loops.run("hanging", "shaky", ready=False, shutdownTimeout="2500ms")
    eventually(lambda: processing(host, "hanging"), "a sync is running")
    eventually(lambda: host.log("controller restarting"), "the other one has failed")
    os.kill(host.pid, signal.SIGTERM)
    assert host.ended() == 1
    events = host.log()
    drain = next(number for number, line in enumerate(events) if line["event"] == "draining")
    later = [line for line in events[drain:] if line.get("controller") == "shaky"]
    assert [line.get("phase") for line in later] == ["stopped"]


def test_a_host_without_its_server_drains(loops: Loops, fault_proxy: FaultProxy) -> None:
    """Draining needs no server (H-61)."""
    loops.plugin("one")
    host = loops.run("one")
    fault_proxy.refuse()
    eventually(lambda: host.stream("configmaps")["phase"] == "failed", "the stream is broken")
    assert host.stop() == 0


#: `/livez` turns red after 2 s instead of 30; the module is in the host's process.
IMPATIENT = """
from kcm_host.observe.endpoints import Endpoints
Endpoints.__init__.__kwdefaults__["dead_seconds"] = 2.0
"""


@pytest.fixture
def blocked(loops: Loops) -> RunningHost:
    """Return a host in which a sync blocks the event loop."""
    source = loop(namespace=loops.namespace, sync="time.sleep(3600)") + IMPATIENT
    loops.site.plugin("blocking", source)
    host = loops.run("blocking", shutdownTimeout="0s")
    loops.create("a")
    eventually(lambda: host.log("event loop stalled"), "the stall is logged")
    return host


def test_a_sync_that_blocks_the_loop_does_not_prevent_the_exit(blocked: RunningHost) -> None:
    """The log names plugin and stack, `/livez` turns red, and SIGTERM ends it with 1 (H-61)."""
    (line,) = blocked.log("event loop stalled")
    assert line["controller"] == "blocking"
    assert "acme_blocking:" in line["stack"]
    assert "Loop.kcm_sync" in line["stack"]
    eventually(lambda: blocked.page("/livez")[0] == 500, "/livez is red")
    assert b"controller 'blocking' blocks it" in blocked.page("/livez")[1]
    os.kill(blocked.pid, signal.SIGTERM)
    assert blocked.ended() == 1
    assert blocked.log("shutdown overdue")


def test_a_second_signal_ends_a_blocked_host(blocked: RunningHost) -> None:
    """Two signals end it at once with exit code 130 (H-61)."""
    os.kill(blocked.pid, signal.SIGTERM)
    os.kill(blocked.pid, signal.SIGINT)
    assert blocked.ended() == 130
