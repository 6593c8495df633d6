"""What a process holds at one moment, and whether it grows."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from kcm_host_testing import probe
from kcm_host_testing.usage import usage_of

MIB = 2**20
TASKS = re.compile(rb"^kcm_host_tasks ([0-9.e+]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at the host, so many minutes after its start."""

    minutes: float
    rss_mib: float
    descriptors: int
    tasks: int
    log_lines: int


@dataclass(frozen=True, slots=True)
class Growth:
    """How one figure moved over a soak."""

    name: str
    first_half: float
    """Median of the first half."""
    last_half: float
    slope_an_hour: float
    """Of the straight line that fits best."""
    most: float | None
    """The most that the last half may be above the first; None where it is expected to grow."""

    @property
    def too_much(self) -> bool:
        """Return whether it grew beyond what is allowed."""
        return self.most is not None and self.last_half - self.first_half > self.most


def sample(pid: int, address: str, log: Path, *, minutes: float) -> Sample:
    """Look at the host with this process id, pages and log."""
    code, body = probe.request(f"{address}/metrics")
    found = TASKS.search(body)
    if code != 200 or found is None:
        raise RuntimeError(f"{address}/metrics answered {code} without the number of tasks")
    return Sample(
        minutes=minutes,
        rss_mib=usage_of(pid).rss_bytes / MIB,
        descriptors=len(list(Path(f"/proc/{pid}/fd").iterdir())),
        tasks=round(float(found[1])),
        log_lines=log.read_bytes().count(b"\n"),
    )


def growth(samples: Sequence[Sample]) -> list[Growth]:
    """
    Return how each figure moved: memory may grow by 1 MiB, descriptors by 1, tasks by none.

    Between two bursts the pool has one idle connection more or less, which is no growth.
    """
    figures: dict[str, tuple[Callable[[Sample], float], float | None]] = {
        "RSS, MiB": (lambda each: each.rss_mib, 1.0),
        "descriptors": (lambda each: each.descriptors, 1.0),
        "tasks": (lambda each: each.tasks, 0.5),
        "log lines": (lambda each: each.log_lines, None),
    }
    times = [each.minutes / 60 for each in samples]
    half = len(samples) // 2
    result = []
    for name, (figure, most) in figures.items():
        values = [figure(each) for each in samples]
        first, last = median(values[:half]), median(values[half:])
        result.append(
            Growth(
                name=name,
                first_half=first,
                last_half=last,
                slope_an_hour=_slope(times, values),
                most=most,
            )
        )
    return result


def _slope(times: Sequence[float], values: Sequence[float]) -> float:
    """Return the slope of the line with the least squares."""
    time, value = fmean(times), fmean(values)
    spread = sum((each - time) ** 2 for each in times)
    product = sum((t - time) * (v - value) for t, v in zip(times, values, strict=True))
    return product / spread if spread else 0.0
