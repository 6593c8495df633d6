"""Workload: all five controllers start with one thing each to do, then idle."""

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from typing import Any

from bench import claims, nodes, pods, quotas, ranges, roles
from bench.calls import Call
from bench.candidates import Candidate
from bench.machine import Span
from bench.many_pods import CONTROLLERS, QUOTA
from bench.outcome import require
from bench.run import Run
from bench.servers import servers_cpu, servers_quantities
from bench.stage import Stage, fresh_stage
from bench.start import SOURCE, idle_cpu, settle
from bench.workload import Measure, Quantity, Repetition, Sizes, Unit, Workload

POD = "trainer"
RANGE = "range-00000"
THEN = "{} until then"
# One resource that each controller writes first, and nobody else does.
FIRST_WRITES = frozenset(
    {"nodes", "clusterroles", "servicecidrs", "resourceclaims", "resourcequotas"}
)


@contextmanager
def _prepared(sizes: Sizes) -> Iterator[Measure]:
    yield partial(_measure, sizes)


def _measure(sizes: Sizes, candidate: Candidate) -> Repetition:
    with fresh_stage() as stage:
        settle(stage, candidate, CONTROLLERS)
        _create_work(stage)
        span = Span(stage.pids)
        with Run(candidate, stage, CONTROLLERS) as run:
            run.wait_until(lambda: _written(run) >= FIRST_WRITES, "the first write of all five")
            cpu, others = run.cpu_seconds(), span.others_share(run.pid)
            servers = servers_cpu(stage, span).named(THEN)
            run.wait_until_quiet()
            idle = idle_cpu(run, sizes.idle_seconds)
            usage = run.usage()
        _check(stage, candidate.name)
    firsts = [
        min(write.received_at for write in run.trail.writes if write.resource == resource)
        for resource in FIRST_WRITES
    ]
    return Repetition(
        {
            "exec to all five first writes": max(firsts) - run.started_at,
            "CPU until then": cpu,
            **servers,
            "exec to first write": min(firsts) - run.started_at,
            "writes": len(run.trail.writes),
            "idle: memory (RSS)": usage.rss_bytes,
            "idle: private memory": usage.private_bytes,
            "idle: CPU in a minute": idle,
        },
        others,
    )


def _written(run: Run) -> set[str]:
    return {write.resource for write in run.trail.writes}


def _create_work(stage: Stage) -> None:
    """The pod comes before the quota: a quota without status lets no pod be created."""
    nodes.create_node(stage, nodes.NEW_NODE)
    ranges.create_ranges(stage, {RANGE: ranges.cidr(0)})
    claims.create_template(stage)
    stage.calls.all([Call("POST", roles.ROLES, role) for role in (SOURCE, roles.aggregated(0))])
    stage.calls.all([pods.creation(claims.NAMESPACE, claims.pod(POD))])
    hard = {"hard": {"pods": "10"}}
    stage.calls.all([quotas.creation(claims.NAMESPACE, QUOTA, hard)])


def _check(stage: Stage, who: str) -> None:
    nodes.require_ttl(stage, ttl="0", count=1, who=who)
    roles.require_aggregated(stage, count=1, who=who)
    claims.require_made(stage, [POD], who=who)
    right = {f"{claims.NAMESPACE}/{QUOTA}": {"pods": Decimal(1)}}
    quotas.require_right(stage, right, who=who)
    listed: list[dict[str, Any]] = stage.calls.one(Call("GET", ranges.RANGES))["items"]
    ready = {each["metadata"]["name"]: ranges.ready(each) for each in listed}
    require(ready.get(RANGE) == "True", f"{who}: the ServiceCIDRs are Ready={ready}")


WORKLOAD = Workload(
    name="start-five",
    title="start of all five controllers, then idle",
    quantities=(
        Quantity("exec to all five first writes", Unit.SECONDS, goal=1.7),
        Quantity("CPU until then", Unit.SECONDS),
        *servers_quantities(THEN),
        Quantity("exec to first write", Unit.SECONDS),
        Quantity("writes", Unit.COUNT),
        Quantity("idle: memory (RSS)", Unit.BYTES, goal=0.63),
        Quantity("idle: private memory", Unit.BYTES),
        Quantity("idle: CPU in a minute", Unit.SECONDS, goal=1),
    ),
    prepared=_prepared,
)
