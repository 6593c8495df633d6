"""Processor time: of processes we know, and of all others in the same span."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

# The kernel's number for "all threads of a process, as the scheduler counts them".
_SCHEDULER_CLOCK = 2


def cpu_seconds(pid: int) -> float:
    """
    Return the processor time of a process since its start, user and system, to the nanosecond.

    `/proc/PID/stat` says the same in ticks of 10 ms, too coarse for an idle minute. Raises
    `ProcessLookupError` when there is no such process.
    """
    try:
        return time.clock_gettime((~pid << 3) | _SCHEDULER_CLOCK)
    except OSError as error:
        raise ProcessLookupError(f"no process {pid} to measure; it has ended") from error


class Condition(NamedTuple):
    """The condition of the machine at one moment: what disturbs it, and how fast it is."""

    load1: float
    """The load over the last minute."""
    calibration: float
    """The processor seconds of a fixed piece of Python: the speed of some machines changes."""


def condition() -> Condition:
    """Return the condition now; takes a tenth of a second."""
    return Condition(os.getloadavg()[0], min(_calibration() for _ in range(5)))


def _calibration() -> float:
    began = time.thread_time()
    counts: dict[str, int] = {}
    for number in range(100_000):
        word = str(number % 1000)
        counts[word] = counts.get(word, 0) + len(word)
    return time.thread_time() - began


def read_all(folders: Sequence[Path]) -> None:
    """Read all files below these folders, so that nobody's first start waits for the disk."""
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file():
                path.read_bytes()


class Span:
    """A stretch of time in which some processes are known to work, from now to `others_share`."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._began = time.monotonic()
        self._busy = _busy_seconds()
        self._known = {pid: cpu_seconds(pid) for pid in (*pids, os.getpid())}

    def used_by(self, pid: int) -> float:
        """Return the processor time of one process in the span; one not named began in it."""
        return cpu_seconds(pid) - self._known.get(pid, 0.0)

    def others_share(self, *began_since: int) -> float:
        """
        Return what all other processes used, as a share of the span: 1 means one whole core.

        `began_since` are the processes of ours that did not exist when the span began.
        """
        ours = sum(self.used_by(pid) for pid in {*self._known, *began_since})
        others = _busy_seconds() - self._busy - ours
        return max(0.0, others / (time.monotonic() - self._began))


def _busy_seconds() -> float:
    """All cores together; stolen time counts, because we did not have it."""
    fields = Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]
    user, nice, system, _idle, _waiting, interrupts, soft, stolen = map(int, fields)
    busy = user + nice + system + interrupts + soft + stolen
    return busy / os.sysconf("SC_CLK_TCK")
