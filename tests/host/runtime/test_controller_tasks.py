"""Tasks of a controller beside its workers: timers and synced watches."""

import os
import signal
from pathlib import Path

from eventually import eventually
from host.runtime.loops import Loops, loop

#: Enqueues a key every 50 ms; the status has the number of times.
TIMED = """
from datetime import timedelta
from kcm_host.api import Key, Timer

class Loop(Loop):
    ticks = 0

    @hookimpl
    def kcm_timers(self):
        return [Timer(every=timedelta(milliseconds=50), keys=self.tick)]

    def tick(self, view):
        TICK
        self.ticks += 1
        return [Key("tick")]

    @hookimpl
    def kcm_status(self):
        return {"start": self.start, "synced": sorted(self.synced), "ticks": self.ticks}
"""
#: Counts the ticks of ten intervals, once a file is there.
DRAINED = """
while not Path("FOLDER/go").exists():
    await asyncio.sleep(0.01)
before = self.ticks
await asyncio.sleep(0.5)
Path("FOLDER/ticks").write_text(str(self.ticks - before))
"""


def test_timers_end_when_the_host_drains(loops: Loops, tmp_path: Path) -> None:
    """While the last sync runs, no plugin code is called for new keys any more (H-61)."""
    sync = DRAINED.replace("FOLDER", str(tmp_path))
    source = loop(namespace=loops.namespace, sync=sync) + TIMED.replace("TICK", "pass")
    loops.site.plugin("timed", source)
    loops.create("a")
    host = loops.run("timed")
    eventually(lambda: host.controller("timed")["queue"]["processing"], "a sync is running")
    eventually(lambda: host.controller("timed")["status"]["ticks"], "it ticks")
    os.kill(host.pid, signal.SIGTERM)
    eventually(lambda: host.log("draining"), "the host drains")
    (tmp_path / "go").touch()
    assert host.ended() == 0
    assert (tmp_path / "ticks").read_text() == "0"
