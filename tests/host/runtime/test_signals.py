"""SIGHUP drains, SIGUSR1 logs the stacks of all tasks and threads."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from eventually import eventually
from host.runtime.loops import Loops


def test_a_second_signal_of_another_sort_ends_it(loops: Loops) -> None:
    """SIGHUP counts like SIGTERM also there (F-93)."""
    loops.plugin("one", sync="await asyncio.sleep(3600)")
    loops.create("a")
    host = loops.run("one", shutdownTimeout="1h")
    eventually(lambda: host.controller("one")["queue"]["processing"], "a sync is running")
    os.kill(host.pid, signal.SIGHUP)
    eventually(lambda: host.log("draining"), "the host drains")
    os.kill(host.pid, signal.SIGTERM)
    assert host.ended() == 130


@pytest.mark.parametrize(
    ("sync", "sort", "name", "place"),
    [
        ("await asyncio.sleep(3600)", "task", "one worker 0", "Loop.kcm_sync"),
        ("await asyncio.to_thread(time.sleep, 5)", "thread", "asyncio_0", "_WorkItem.run"),
        ("time.sleep(5)", "thread", "MainThread", "Loop.kcm_sync"),
    ],
    ids=["awaits", "in a thread", "blocks the loop"],
)
def test_stacks_are_shown_on_request(
    loops: Loops, tmp_path: Path, sync: str, sort: str, name: str, place: str
) -> None:
    """SIGUSR1 logs the stacks of all tasks and threads, and the host goes on (F-93)."""
    begun = f"Path('{tmp_path}/begun').touch()\n"
    loops.plugin("one", sync=begun + sync)
    loops.create("a")
    host = loops.run("one", ready=False, shutdownTimeout="0s")
    eventually((tmp_path / "begun").exists, "a sync has begun")

    def shown_there() -> bool:
        """Return whether the stack of the sync is logged."""
        os.kill(host.pid, signal.SIGUSR1)
        return any(place in line["stack"] for line in host.log(sort, name=name))

    eventually(shown_there, f"{name} is shown at {place}")
    shown = {line["name"] for line in host.log("task")}
    assert {"one", "discovery"} <= shown
    assert any(one.startswith("watch ") for one in shown)
    names = {line["name"] for line in host.log("thread")}
    assert {"MainThread", "kcm-host-signals", "kcm-host-watchdog"} <= names
    eventually(lambda: host.page("/readyz")[0] == 200, "it is ready")
    host.stop()


IGNORED = """
import asyncio, logging, os, signal
from datetime import timedelta
from kcm_host.runtime.process import StopSignals

async def main():
    loop = asyncio.get_running_loop()
    shown = asyncio.Event()

    class Shown(logging.Handler):
        def emit(self, record):
            loop.call_soon_threadsafe(shown.set)

    logging.getLogger("kcm_host").addHandler(Shown())
    logging.getLogger("kcm_host").setLevel("INFO")
    with StopSignals(loop, timedelta(seconds=60)) as signals:
        os.kill(os.getpid(), signal.SIGHUP)
        # What came before the first of these has been handled when the second is.
        for _ in range(2):
            shown.clear()
            os.kill(os.getpid(), signal.SIGUSR1)
            await shown.wait()
        print("stopping" if signals.stop.is_set() else "going on")

signal.signal(signal.SIGHUP, signal.SIG_IGN)
asyncio.run(main())
"""


def test_an_ignored_hangup_stays_ignored() -> None:
    """A process of `nohup` does not end with its terminal (F-93)."""
    run = [sys.executable, "-c", IGNORED]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "going on"
