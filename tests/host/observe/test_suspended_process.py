"""A process that was stopped from outside names no plugin for the time of the suspension."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PROGRAM = """
import asyncio, sys, time
from kcm_host.observe.logging import start_logging
from kcm_host.observe.watchdog import Watchdog

async def main():
    watchdog = Watchdog(
        asyncio.get_running_loop(), plugins={}, limit_seconds=1.0, check_seconds=0.05
    )
    watchdog.start()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await asyncio.sleep(0.2)
    watchdog.stop()

start_logging("info")
asyncio.run(main())
"""


def is_stopped(pid: int) -> bool:
    """Return whether the kernel shows a process as stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_suspended_process_is_no_stalled_loop() -> None:
    """After SIGSTOP and SIGCONT the log has a suspended process, not a stalled loop."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        os.kill(child.pid, signal.SIGSTOP)
        stopped = time.monotonic()
        while not is_stopped(child.pid) or time.monotonic() < stopped + 1.5:
            assert time.monotonic() < stopped + 60
            time.sleep(0.01)
        os.kill(child.pid, signal.SIGCONT)
        _, errors = child.communicate("\n", timeout=60)
    assert "process suspended" in errors
    assert 'reason="suspended or starved"' in errors
    assert "event loop stalled" not in errors
