"""What a process has used, as the kernel counts it (Linux)."""

import os
import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Usage:
    """Processor time and memory of one process, without its children."""

    cpu_seconds: float
    """User and system time since it started."""
    rss_bytes: int
    """Resident now, pages that it shares with others included."""
    peak_rss_bytes: int
    """The most that was ever resident."""
    private_bytes: int
    """Resident now and used by nobody else: what its end would give back."""


def usage_of(pid: int) -> Usage:
    """What a process has used so far; `ProcessLookupError` when there is none with this id."""
    process = Path("/proc") / str(pid)
    try:
        stat = (process / "stat").read_text()
        status = (process / "status").read_text()
        smaps = (process / "smaps_rollup").read_text()
    except FileNotFoundError as error:
        raise ProcessLookupError(f"no process {pid} to measure; it has ended") from error
    # The second field is the name in brackets, which may hold spaces.
    user_ticks, system_ticks = stat.rpartition(")")[2].split()[11:13]
    return Usage(
        cpu_seconds=(int(user_ticks) + int(system_ticks)) / os.sysconf("SC_CLK_TCK"),
        rss_bytes=_sum(status, "VmRSS"),
        peak_rss_bytes=_sum(status, "VmHWM"),
        private_bytes=_sum(smaps, "Private_Clean|Private_Dirty"),
    )


def _sum(text: str, names: str) -> int:
    values = re.findall(rf"^(?:{names}):\s+(\d+) kB$", text, re.MULTILINE)
    return sum(int(value) for value in values) * 1024
