"""Workload: the 1,001st node takes 1,000 others over a boundary of the ttl table."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench import nodes
from bench.candidates import Candidate
from bench.machine import Span
from bench.outcome import require
from bench.run import Run
from bench.servers import servers_cpu, servers_quantities
from bench.stage import fresh_stage
from bench.workload import Measure, Quantity, Repetition, Sizes, Unit, Workload

# The most nodes that still carry `BEFORE`.
NODES = 1_000
BEFORE, AFTER = "30", "60"


@contextmanager
def _prepared_alike(_sizes: Sizes) -> Iterator[Measure]:
    yield partial(_measure, for_all=True)


@contextmanager
def _prepared_needed(_sizes: Sizes) -> Iterator[Measure]:
    yield partial(_measure, for_all=False)


def _measure(candidate: Candidate, *, for_all: bool) -> Repetition:
    """
    Create the last node and, at once, report the status of every node.

    The reference looks at a node again only when that changes, so without reports it would wait
    for minutes. Ours does not need them; `for_all` says whether it gets them all the same.
    """
    with fresh_stage() as stage:
        names = nodes.load_nodes(stage, NODES, ttl=BEFORE)
        with Run(candidate, stage, ["ttl"]) as run:
            run.wait_until_watching("nodes")
            run.wait_until_quiet()
            require(not run.trail.writes, f"{candidate.name}: wrote before the boundary")
            span, cpu, began = Span([*stage.pids, run.pid]), run.cpu_seconds(), time.time()
            nodes.create_node(stage, nodes.NEW_NODE)
            if for_all or not candidate.strict:
                nodes.send_heartbeats(stage, [*names, nodes.NEW_NODE])
            run.wait_for_writes(NODES + 1)
            servers = servers_cpu(stage, span).named()
            others = span.others_share()
            run.wait_until_quiet()
            cpu = run.cpu_seconds() - cpu
        nodes.require_ttl(stage, ttl=AFTER, count=NODES + 1, who=candidate.name)
        run.trail.read()
    writes = run.trail.writes
    exact = len(writes) == NODES + 1 or not candidate.strict
    require(exact, f"{candidate.name}: {len(writes)} writes where {NODES + 1} are needed")
    return Repetition(
        {
            "time until all right": max(write.answered_at for write in writes) - began,
            "CPU until quiet": cpu,
            **servers,
            "writes": len(writes),
        },
        others,
    )


QUANTITIES = (
    Quantity("time until all right", Unit.SECONDS, goal=0.7),
    Quantity("CPU until quiet", Unit.SECONDS, goal=0.4),
    *servers_quantities(),
    Quantity("writes", Unit.COUNT, goal=1),
)
ALIKE = Workload(
    name="ttl-step",
    title="1,000 nodes cross a boundary; every node reports",
    quantities=QUANTITIES,
    prepared=_prepared_alike,
)
NEEDED = Workload(
    name="ttl-step-silent",
    title="the same; nodes report only for the reference, which needs it",
    quantities=QUANTITIES,
    prepared=_prepared_needed,
)
