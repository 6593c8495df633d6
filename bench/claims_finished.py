"""Workload: thousands of pods are done, and their claims go."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from bench import claims
from bench.candidates import Candidate
from bench.claims_made import CONTROLLERS, stage_pods, wait_until_told
from bench.machine import Span
from bench.outcome import require
from bench.run import Run
from bench.servers import servers_cpu, servers_quantities
from bench.stage import fresh_stage
from bench.trail import Request
from bench.workload import Measure, Quantity, Repetition, Sizes, Unit, Workload

# One takes consumer and allocation away, one the finalizer, one deletes the claim.
WRITES = 3
AFTER_SECONDS = 5.0
THEN = "{} until then"


@contextmanager
def _prepared(sizes: Sizes) -> Iterator[Measure]:
    yield partial(_measure, sizes)


def _measure(sizes: Sizes, candidate: Candidate) -> Repetition:
    """
    Measure how the candidate makes the claims, then allocate them, then finish the pods.

    The reference makes the claim of a finished pod again as soon as it is gone, and deletes it
    again, for as long as the pod exists. So the work ends when all claims of the beginning have
    gone for the first time, and what is written in the seconds after that is counted apart.
    """
    with fresh_stage() as stage:
        names, pods = claims.names(sizes.claims), stage_pods(stage)
        with Run(candidate, stage, CONTROLLERS) as run:
            run.wait_until_watching("pods")
            pods.appear(names)
            wait_until_told(run, names)
            made = claims.allocate_all(stage)
            run.wait_until_quiet()
            span, cpu, began = Span([*stage.pids, run.pid]), run.cpu_seconds(), time.time()
            claims.finish(stage, names)
            _wait_until_gone(run, made, began)
            cpu, servers = run.cpu_seconds() - cpu, servers_cpu(stage, span).named(THEN)
            others = span.others_share()
            time.sleep(AFTER_SECONDS)
            run.trail.read()
        left = claims.claims_left(stage)
    counted = _counted(run.trail.writes, made, began)
    if candidate.strict:
        require(left == 0, f"{candidate.name}: {left} claims are left")
        right = counted.until_gone == WRITES * len(made) and counted.after == 0
        require(right, f"{candidate.name}: for {len(made)} claims it wrote {counted}")
    return Repetition(
        {
            "time until all gone": counted.gone_at - began,
            "CPU until then": cpu,
            **servers,
            "writes a claim": counted.until_gone / len(made),
            "writes in the 5 s after": counted.after,
        },
        others,
    )


@dataclass(frozen=True, slots=True)
class Counted:
    """The writes from the beginning to the first time that all were gone, and after that."""

    gone_at: float
    until_gone: int
    after: int


def _counted(writes: Sequence[Request], made: Sequence[str], began: float) -> Counted:
    wanted = set(made)
    since = [write for write in writes if write.received_at >= began]
    gone_at = max(write.answered_at for write in _deletions(since, began) if write.name in wanted)
    until = sum(write.received_at <= gone_at for write in since)
    after = sum(gone_at < write.received_at <= gone_at + AFTER_SECONDS for write in since)
    return Counted(gone_at, until, after)


def _wait_until_gone(run: Run, made: Sequence[str], began: float) -> None:
    wanted, before = set(made), 2 * len(made)
    run.wait_until(
        lambda: (
            len(run.trail.writes) >= before + WRITES * len(made)
            and {write.name for write in _deletions(run.trail.writes, began)} >= wanted
        ),
        "all claims of the beginning to be gone",
    )


def _deletions(writes: Sequence[Request], began: float) -> Sequence[Request]:
    return [
        write
        for write in writes
        if write.verb == "delete" and write.code < 400 and write.received_at >= began
    ]


WORKLOAD = Workload(
    name="claims-finished",
    title="3,000 pods with an allocated claim each succeed",
    quantities=(
        Quantity("time until all gone", Unit.SECONDS),
        Quantity("CPU until then", Unit.SECONDS, goal=0.7),
        *servers_quantities(THEN),
        Quantity("writes a claim", Unit.FACTOR, goal=WRITES, alone=True),
        Quantity("writes in the 5 s after", Unit.COUNT, goal=0, alone=True),
    ),
    prepared=_prepared,
)
