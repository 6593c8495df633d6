"""Workload: probes and scrapes of a host with many objects, and what they take from its loop."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.candidates import Against, Candidate, clean_environment
from bench.machine import Span
from bench.outcome import WrongOutcome, require
from bench.workload import Measure, Quantity, Repetition, Sizes, Unit, Workload


@contextmanager
def _prepared(sizes: Sizes) -> Iterator[Measure]:
    yield partial(_measure, sizes)


def _measure(sizes: Sizes, candidate: Candidate) -> Repetition:
    """Start a host over a cluster in memory, in a process of its own, and let it be looked at."""
    objects, namespaces = sizes.looks
    span = Span([])
    with subprocess.Popen(
        [sys.executable, "-m", "bench.look_process", str(objects), str(namespaces)],
        env=clean_environment(),
        stdout=subprocess.PIPE,
    ) as process:
        said = process.stdout.read() if process.stdout else b""
        # Its processor time is known until it is waited for.
        others = span.others_share(process.pid)
    if process.returncode:
        raise WrongOutcome(f"{candidate.name}: the host in memory ended with {process.returncode}")
    found = json.loads(said)
    held = found["objects"]
    require(held >= objects, f"{candidate.name}: holds {held} objects only")
    return Repetition(
        {
            "loop time of /livez, /readyz and /metrics": found["look"],
            "loop time of /status": found["status"],
            "longest wait of the loop meanwhile": found["gap"],
        },
        others,
    )


WORKLOAD = Workload(
    name="looks",
    title="probes and scrapes at 100,000 objects in 10,000 namespaces",
    quantities=(
        Quantity("loop time of /livez, /readyz and /metrics", Unit.SECONDS, goal=0.002, alone=True),
        Quantity("loop time of /status", Unit.SECONDS),
        Quantity("longest wait of the loop meanwhile", Unit.SECONDS),
    ),
    prepared=_prepared,
    against=Against.NOBODY,
)
