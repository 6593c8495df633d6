"""Workload: both controllers start with one write each to make, then idle."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from bench import nodes, roles
from bench.calls import Call
from bench.candidates import Candidate
from bench.machine import Span
from bench.outcome import require
from bench.run import Run
from bench.servers import servers_cpu, servers_quantities
from bench.stage import Stage, fresh_stage
from bench.workload import Measure, Quantity, Repetition, Sizes, Unit, Workload

CONTROLLERS = ("ttl", "clusterrole-aggregation")
BOTH = "{} until both"
SOURCE = {
    "metadata": {"name": f"{roles.PREFIX}00000", "labels": {f"{roles.LABEL}0": "true"}},
    "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}],
}


@contextmanager
def _prepared(sizes: Sizes) -> Iterator[Measure]:
    yield partial(_measure, sizes)


def _measure(sizes: Sizes, candidate: Candidate) -> Repetition:
    with fresh_stage() as stage:
        settle(stage, candidate)
        nodes.create_node(stage, nodes.NEW_NODE)
        stage.calls.all([Call("POST", roles.ROLES, role) for role in (SOURCE, roles.aggregated(0))])
        span = Span(stage.pids)
        with Run(candidate, stage, CONTROLLERS) as run:
            run.wait_for_writes(2)
            others = span.others_share(run.pid)
            start_cpu = run.cpu_seconds()
            servers = servers_cpu(stage, span).named(BOTH)
            run.wait_until_quiet()
            idle = idle_cpu(run, sizes.idle_seconds)
            usage = run.usage()
        _check(stage, run, candidate)
    first, second = (write.received_at - run.started_at for write in run.trail.writes)
    return Repetition(
        {
            "exec to first write": first,
            "exec to both first writes": second,
            "CPU until both": start_cpu,
            **servers,
            "idle: memory (RSS)": usage.rss_bytes,
            "idle: private memory": usage.private_bytes,
            "idle: CPU in a minute": idle,
        },
        others,
    )


def settle(stage: Stage, candidate: Candidate, controllers: Sequence[str] = CONTROLLERS) -> None:
    """Run the candidate until it has filled the aggregated roles of a fresh API server."""
    with Run(candidate, stage, controllers) as run:
        run.wait_until_watching("clusterroles")
        run.wait_until_quiet()


def idle_cpu(run: Run, seconds: float) -> float:
    """Return the processor time that it uses in a minute, measured over so many seconds."""
    before = run.cpu_seconds()
    time.sleep(seconds)
    return (run.cpu_seconds() - before) / seconds * 60


def _check(stage: Stage, run: Run, candidate: Candidate) -> None:
    who = candidate.name
    run.trail.read()
    written = sorted(write.name for write in run.trail.writes)
    wanted = sorted([nodes.NEW_NODE, str(roles.aggregated(0)["metadata"]["name"])])
    require(written == wanted, f"{who}: wrote {written}, not each of {wanted} once")
    nodes.require_ttl(stage, ttl="0", count=1, who=who)
    roles.require_aggregated(stage, count=1, who=who)


WORKLOAD = Workload(
    name="start",
    title="start of both controllers, then idle",
    quantities=(
        Quantity("exec to first write", Unit.SECONDS, goal=2.5),
        Quantity("exec to both first writes", Unit.SECONDS),
        Quantity("CPU until both", Unit.SECONDS),
        *servers_quantities(BOTH),
        Quantity("idle: memory (RSS)", Unit.BYTES, goal=0.95),
        Quantity("idle: private memory", Unit.BYTES),
        Quantity("idle: CPU in a minute", Unit.SECONDS, goal=1),
    ),
    prepared=_prepared,
)
