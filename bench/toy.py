"""Workloads: the same toy controller as a kopf operator and as a plugin of ours."""

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from bench import toys
from bench.candidates import Against, Candidate
from bench.following import Following
from bench.machine import Span
from bench.outcome import require
from bench.run import Run
from bench.servers import servers_cpu, servers_quantities
from bench.stage import Stage, fresh_stage
from bench.workload import Measure, Quantity, Repetition, Sizes, Unit, Workload

CONTROLLERS = ("toy",)
CHANGES_A_SECOND = 200.0
PATIENCE_SECONDS = 600.0
# kopf ends the worker of an object that has not changed for 5 s; then its memory is settled.
SETTLE_SECONDS = 8.0
THEN, CHANGES = "{} until then", "changes: {}"


@dataclass(frozen=True, slots=True)
class Part:
    """What one of the two parts took: the start, or the changes."""

    values: Mapping[str, float]
    others_share: float


@contextmanager
def _prepared(sizes: Sizes) -> Iterator[Measure]:
    yield partial(_measure, sizes)


def _measure(sizes: Sizes, candidate: Candidate) -> Repetition:
    with fresh_stage() as stage:
        names = toys.load_toys(stage, sizes.toys)
        values = dict.fromkeys(names, toys.FIRST_VALUE)
        changes = toys.changes(names, sizes.toy_changes)
        with Following(stage.server, toys.TOYS, toys.shown) as following:
            following.wait_for(len(names))
            span = Span(stage.pids)
            with Run(candidate, stage, CONTROLLERS) as run:
                start = _started(stage, run, following, span, values=values)
                run.wait_until_quiet()
                values |= {change.name: change.value for change in changes}
                changed = _changed(stage, run, following, changes, values=values)
                run.wait_until_quiet()
                time.sleep(SETTLE_SECONDS)
                usage = run.usage()
        toys.require_repeated(stage, values, who=candidate.name)
        run.trail.read()
    writes, most = len(run.trail.writes), len(names) + len(changes)
    allowed = writes <= most or not candidate.strict
    require(allowed, f"{candidate.name}: {writes} writes where {most} are enough")
    memory = {
        "memory peak (RSS)": usage.peak_rss_bytes,
        "memory settled (RSS)": usage.rss_bytes,
        "private memory": usage.private_bytes,
        "writes": writes,
    }
    others = max(start.others_share, changed.others_share)
    return Repetition({**start.values, **changed.values, **memory}, others)


def _started(
    stage: Stage, run: Run, following: Following, span: Span, *, values: Mapping[str, int]
) -> Part:
    """Wait until it has given every object its annotation."""
    _wait_until_repeated(run, following, values)
    found = {
        "exec to all annotated": following.seen[-1].at - run.started_at,
        "CPU until then": run.cpu_seconds(),
        **servers_cpu(stage, span).named(THEN),
    }
    return Part(found, span.others_share(run.pid))


def _changed(
    stage: Stage,
    run: Run,
    following: Following,
    changes: Sequence[toys.Change],
    *,
    values: Mapping[str, int],
) -> Part:
    """Send the changes, and wait until each is answered by the annotation."""
    calls = [change.call for change in changes]
    span, cpu, began = Span([*stage.pids, run.pid]), run.cpu_seconds(), time.time()
    answered = stage.calls.paced(calls, a_second=CHANGES_A_SECOND)
    _wait_until_repeated(run, following, values)
    cpu, servers, others = run.cpu_seconds() - cpu, servers_cpu(stage, span), span.others_share()
    delays = toys.delays(following.seen, changes, answered)
    found = {
        "changes: sent in": max(answered) - began,
        "changes: CPU": cpu,
        **servers.named(CHANGES),
        "delay, median": statistics.median(delays),
        "delay, p99": statistics.quantiles(delays, n=100)[98],
        "delay, longest": max(delays),
    }
    return Part(found, others)


def _wait_until_repeated(run: Run, following: Following, values: Mapping[str, int]) -> None:
    run.wait_until(
        # The first condition costs nothing, so that the driver takes little from those measured.
        lambda: len(run.trail.writes) >= len(values) and toys.repeated(following.newest, values),
        "all annotations to be right",
        seconds=PATIENCE_SECONDS,
    )


QUANTITIES = (
    Quantity("exec to all annotated", Unit.SECONDS),
    Quantity("CPU until then", Unit.SECONDS, goal=0.2),
    *servers_quantities(THEN),
    Quantity("changes: sent in", Unit.SECONDS),
    Quantity("changes: CPU", Unit.SECONDS, goal=0.2),
    *servers_quantities(CHANGES),
    Quantity("delay, median", Unit.SECONDS),
    Quantity("delay, p99", Unit.SECONDS, goal=0.1),
    Quantity("delay, longest", Unit.SECONDS),
    Quantity("memory peak (RSS)", Unit.BYTES, goal=0.25),
    Quantity("memory settled (RSS)", Unit.BYTES, goal=0.25),
    Quantity("private memory", Unit.BYTES),
    Quantity("writes", Unit.COUNT),
)
ON_EVENT = Workload(
    name="toy",
    title="a toy controller over 20,000 ConfigMaps, then 200 changes/s for a minute",
    quantities=QUANTITIES,
    prepared=_prepared,
    against=Against.ON_EVENT,
)
ON_UPDATE = Workload(
    name="toy-on-update",
    title="the same, beside handlers of kopf that keep what they handled last",
    quantities=QUANTITIES,
    prepared=_prepared,
    against=Against.ON_UPDATE,
)
