"""Workload: all five controllers start over a great many pods, whose quotas have no status yet."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import partial

from bench import pods, quotas
from bench.candidates import Candidate, reference
from bench.clones import new_uid, put, stored
from bench.following import Following
from bench.machine import Span
from bench.outcome import require
from bench.run import Run
from bench.servers import servers_cpu, servers_quantities
from bench.stage import Stage, fresh_stage
from bench.start import settle
from bench.workload import Measure, Quantity, Repetition, Sizes, Unit, Workload

CONTROLLERS = (
    "ttl",
    "clusterrole-aggregation",
    "servicecidrs",
    "resourceclaim",
    "resourcequota",
)
QUOTA = "team"
HARD = {"pods": "100k", "requests.cpu": "100k", "requests.memory": "100Ti"}
REQUESTS = {"cpu": "250m", "memory": "64Mi"}
SETTLE_SECONDS = 3.0
THEN = "{} until then"


@contextmanager
def _prepared(sizes: Sizes) -> Iterator[Measure]:
    """Pods are spread evenly; each namespace has one quota."""
    namespaces = [f"team-{number:05}" for number in range(sizes.many_quotas)]
    with fresh_stage() as stage:
        settle(stage, reference(), CONTROLLERS)
        each = sizes.many_pods // sizes.many_quotas
        _load_pods(stage, namespaces, each)
        yield partial(_measure, stage, namespaces, each)


def _load_pods(stage: Stage, namespaces: Sequence[str], each: int) -> None:
    pods.create_namespaces(stage, list(namespaces))
    first, name = namespaces[0], "application-00000"
    uid = pods.create_running(stage, first, pods.pod(name, requests=REQUESTS))
    pattern = stored(stage.etcd, f"/pods/{first}/{name}")
    put(
        stage.etcd,
        (
            pattern.copied({first: namespace, name: f"application-{number:05}", uid: new_uid()})
            for namespace in namespaces
            for number in range(each)
        ),
    )


def _measure(
    stage: Stage, namespaces: Sequence[str], pods_each: int, candidate: Candidate
) -> Repetition:
    wanted = {f"{namespace}/{QUOTA}": _used_by(pods_each) for namespace in namespaces}
    stage.calls.all([quotas.creation(each, QUOTA, {"hard": HARD}) for each in namespaces])
    span = Span(stage.pids)
    with (
        Following(stage.server, quotas.ALL) as following,
        Run(candidate, stage, CONTROLLERS) as run,
    ):
        run.wait_until(lambda: quotas.all_right(following, wanted), "all quotas to be right")
        cpu, right = run.cpu_seconds(), following.seen[-1].at - run.started_at
        servers = servers_cpu(stage, span).named(THEN)
        others = span.others_share(run.pid)
        run.wait_until_quiet()
        time.sleep(SETTLE_SECONDS)
        usage = run.usage()
    quotas.require_right(stage, wanted, who=candidate.name)
    run.trail.read()
    writes = len(run.trail.writes)
    exact = writes == len(namespaces) or not candidate.strict
    require(exact, f"{candidate.name}: {writes} writes where {len(namespaces)} are needed")
    stage.calls.all([quotas.deletion(each, QUOTA) for each in namespaces])
    return Repetition(
        {
            "exec to all right": right,
            "CPU until then": cpu,
            **servers,
            "memory settled (RSS)": usage.rss_bytes,
            "memory peak (RSS)": usage.peak_rss_bytes,
            "private memory": usage.private_bytes,
            "writes": writes,
        },
        others,
    )


def _used_by(count: int) -> Mapping[str, Decimal]:
    return {
        "pods": Decimal(count),
        "requests.cpu": count * Decimal("0.25"),
        "requests.memory": Decimal(count * 64 * 2**20),
    }


WORKLOAD = Workload(
    name="pods-20000",
    title="all five start over 20,000 pods of 5 KB, 50 quotas without status",
    quantities=(
        Quantity("exec to all right", Unit.SECONDS, goal=1),
        Quantity("CPU until then", Unit.SECONDS, goal=0.6),
        *servers_quantities(THEN),
        Quantity("memory settled (RSS)", Unit.BYTES, goal=0.2),
        Quantity("memory peak (RSS)", Unit.BYTES),
        Quantity("private memory", Unit.BYTES),
        Quantity("writes", Unit.COUNT),
    ),
    prepared=_prepared,
)
