"""Workload: thousands of pods appear, and each gets the claim that it needs."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from bench import claims
from bench.candidates import Candidate
from bench.machine import Span
from bench.outcome import require
from bench.run import Run
from bench.servers import servers_cpu, servers_quantities
from bench.stage import Stage, fresh_stage
from bench.trail import Request
from bench.workload import Measure, Quantity, Repetition, Sizes, Unit, Workload

CONTROLLERS = ("resourceclaim",)
# One makes the claim, one tells the pod its name.
WRITES = 2


@contextmanager
def _prepared(sizes: Sizes) -> Iterator[Measure]:
    yield partial(_measure, sizes)


def _measure(sizes: Sizes, candidate: Candidate) -> Repetition:
    with fresh_stage() as stage:
        names, pods = claims.names(sizes.claims), stage_pods(stage)
        with Run(candidate, stage, CONTROLLERS) as run:
            run.wait_until_watching("pods")
            run.wait_until_quiet()
            span, cpu, began = Span([*stage.pids, run.pid]), run.cpu_seconds(), time.time()
            pods.appear(names)
            wait_until_told(run, names)
            servers, others = servers_cpu(stage, span).named(), span.others_share()
            run.wait_until_quiet()
            cpu = run.cpu_seconds() - cpu
        claims.require_made(stage, names, who=candidate.name)
        run.trail.read()
        left = claims.claims_left(stage)
    writes = run.trail.writes
    exact = len(writes) == WRITES * len(names) or not candidate.strict
    require(exact, f"{candidate.name}: {len(writes)} writes for {len(names)} pods")
    return Repetition(
        {
            "time until all right": max(write.answered_at for write in _told(writes)) - began,
            "CPU until quiet": cpu,
            **servers,
            "writes a pod": len(writes) / len(names),
            "claims too many": left - len(names),
        },
        others,
    )


def stage_pods(stage: Stage) -> claims.Pods:
    """Put the template on the stage, and have the pods ready."""
    claims.create_template(stage)
    return claims.Pods(stage)


def wait_until_told(run: Run, names: Sequence[str]) -> None:
    """Return when all these pods were told the names of their claims."""
    run.wait_until(
        lambda: (
            len(run.trail.writes) >= WRITES * len(names)
            and {write.name for write in _told(run.trail.writes)} >= set(names)
        ),
        "all pods to know their claims",
    )


def _told(writes: Sequence[Request]) -> Sequence[Request]:
    return [write for write in writes if write.resource == "pods" and write.code < 400]


WORKLOAD = Workload(
    name="claims-made",
    title="3,000 pods appear, each needs a claim from a template",
    quantities=(
        Quantity("time until all right", Unit.SECONDS, goal=0.95),
        Quantity("CPU until quiet", Unit.SECONDS, goal=0.8),
        *servers_quantities(),
        Quantity("writes a pod", Unit.FACTOR, goal=WRITES, alone=True),
        Quantity("claims too many", Unit.COUNT, goal=0, alone=True),
    ),
    prepared=_prepared,
)
