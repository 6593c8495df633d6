"""Aggregated roles over many sources: a cold start, then a burst of edits."""

import time
from dataclasses import dataclass

from bench import roles
from bench.candidates import Candidate
from bench.machine import Span
from bench.outcome import require
from bench.run import Run
from bench.servers import ServersCpu, servers_cpu
from bench.stage import Stage, fresh_stage
from bench.start import settle

CONTROLLERS = ("clusterrole-aggregation",)


@dataclass(frozen=True, slots=True)
class Phase:
    """What one of the two phases took, from its beginning until the candidate was quiet."""

    seconds_until_right: float
    cpu_seconds: float
    servers: ServersCpu
    writes: int
    others_share: float


def cold_and_burst(candidate: Candidate, *, count: int, edits: int) -> tuple[Phase, Phase]:
    """
    Start over `count` sources and empty aggregated roles, then edit some sources.

    `WrongOutcome` when the aggregated roles do not have the right rules after each phase.
    """
    with fresh_stage() as stage:
        settle(stage, candidate)
        roles.create_roles(stage, count)
        changes = roles.edits(edits, count)
        span = Span(stage.pids)
        with Run(candidate, stage, CONTROLLERS) as run:
            run.wait_for_writes(roles.AGGREGATED)
            cold = _finished(stage, run, candidate, span=span, began=run.started_at)
            span, began = Span([*stage.pids, run.pid]), time.time()
            stage.calls.all(changes)
            burst = _finished(stage, run, candidate, span=span, began=began)
    return cold, burst


def _finished(stage: Stage, run: Run, candidate: Candidate, span: Span, *, began: float) -> Phase:
    """Wait until the candidate has nothing more to do, and see whether all is right."""
    run.wait_until_quiet()
    cpu, others = span.used_by(run.pid), span.others_share(run.pid)
    servers = servers_cpu(stage, span)
    roles.require_aggregated(stage, count=roles.AGGREGATED, who=candidate.name)
    writes = [write for write in run.trail.writes if write.received_at >= began]
    refused = [write for write in writes if write.code >= 400]
    require(not refused, f"{candidate.name}: was refused {refused}")
    # Nobody writes rules that are there already, so the last write made the last role right.
    right = max(write.answered_at for write in writes) - began
    return Phase(
        seconds_until_right=right,
        cpu_seconds=cpu,
        servers=servers,
        writes=len(writes),
        others_share=others,
    )
