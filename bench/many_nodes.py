"""Workload: ttl starts over a great many nodes that are right, and one new one."""

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
from bench.stage import Stage, fresh_stage
from bench.workload import Measure, Quantity, Repetition, Sizes, Unit, Workload

# What more than 2,000 nodes carry.
TTL = "300"
SETTLE_SECONDS = 3.0
THEN = "{} until then"


@contextmanager
def _prepared(sizes: Sizes) -> Iterator[Measure]:
    with fresh_stage() as stage:
        nodes.load_nodes(stage, sizes.many_nodes, ttl=TTL)
        yield partial(_measure, stage, sizes.many_nodes)


def _measure(stage: Stage, count: int, candidate: Candidate) -> Repetition:
    nodes.create_node(stage, nodes.NEW_NODE)
    span = Span(stage.pids)
    with Run(candidate, stage, ["ttl"]) as run:
        run.wait_for_writes(1)
        cpu = run.cpu_seconds()
        servers = servers_cpu(stage, span).named(THEN)
        others = span.others_share(run.pid)
        run.wait_until_quiet()
        time.sleep(SETTLE_SECONDS)
        usage = run.usage()
    run.trail.read()
    writes = run.trail.writes
    new = [write for write in writes if write.name == nodes.NEW_NODE]
    require(bool(new), f"{candidate.name}: never wrote the new node, but {len(writes)} others")
    # Only the reference may write more: nodes that it meets while it still counts (TTL-32).
    allowed = len(writes) == 1 or not candidate.strict
    require(allowed, f"{candidate.name}: {len(writes)} writes where 1 is needed")
    nodes.require_ttl(stage, ttl=TTL, count=count + 1, who=candidate.name)
    nodes.delete_node(stage, nodes.NEW_NODE)
    return Repetition(
        {
            "exec to first write": writes[0].received_at - run.started_at,
            "CPU until then": cpu,
            **servers,
            "memory settled (RSS)": usage.rss_bytes,
            "memory peak (RSS)": usage.peak_rss_bytes,
            "private memory": usage.private_bytes,
            "writes": len(writes),
        },
        others,
    )


WORKLOAD = Workload(
    name="many-nodes",
    title="20,000 right nodes of 5 KB, one new",
    quantities=(
        Quantity("exec to first write", Unit.SECONDS, goal=0.6),
        Quantity("CPU until then", Unit.SECONDS, goal=0.5),
        *servers_quantities(THEN),
        Quantity("memory settled (RSS)", Unit.BYTES, goal=0.25),
        Quantity("memory peak (RSS)", Unit.BYTES, goal=0.25),
        Quantity("private memory", Unit.BYTES),
        Quantity("writes", Unit.COUNT),
    ),
    prepared=_prepared,
)
