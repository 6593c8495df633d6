"""Workload: pods come and go in a namespace with four quotas."""

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from bench import churn, quotas
from bench.calls import Refused
from bench.candidates import Candidate
from bench.following import Following
from bench.machine import Span
from bench.outcome import require
from bench.run import Run
from bench.servers import ServersCpu, servers_cpu, servers_quantities
from bench.shown import Sent, lags, shown, steps_back
from bench.stage import Stage, fresh_stage
from bench.trail import Request
from bench.workload import Measure, Quantity, Repetition, Sizes, Unit, Workload

CONTROLLERS = ("resourcequota",)
EVENTS_A_SECOND = 20.0
TRIES = 10
# What ours may need for sixteen times the pods.
INDEPENDENT = 1.2
LARGE = "{}, 8,000"


@dataclass(frozen=True, slots=True)
class Churned:
    """What the churn of one size came to."""

    cpu_seconds: float
    servers: ServersCpu
    lags: Sequence[float]
    writes: int
    conflicts: int
    steps_back: int
    refused: int
    others_share: float


@contextmanager
def _prepared(sizes: Sizes) -> Iterator[Measure]:
    yield partial(_measure, sizes)


def _measure(sizes: Sizes, candidate: Candidate) -> Repetition:
    each = [_churned(candidate, count, sizes.churn_events) for count in sizes.churned_pods]
    small, middle, large = each
    return Repetition(
        {
            "CPU, 500 pods": small.cpu_seconds,
            "CPU, 2,000 pods": middle.cpu_seconds,
            "CPU, 8,000 pods": large.cpu_seconds,
            "8,000 against 500": large.cpu_seconds / small.cpu_seconds,
            **large.servers.named(LARGE),
            "delete to right, 500": statistics.median(small.lags),
            "delete to right, 8,000": statistics.median(large.lags),
            "the slowest, 8,000": max(large.lags),
            "writes, 8,000": large.writes,
            "conflicts, most of a size": max(one.conflicts / one.writes for one in each),
            "steps back": sum(one.steps_back for one in each),
            "pods refused for a conflict": sum(one.refused for one in each),
        },
        max(one.others_share for one in each),
    )


def _churned(candidate: Candidate, count: int, number: int) -> Churned:
    events = churn.events(number)
    with fresh_stage() as stage:
        churn.load(stage, count)
        churn.create_quotas(stage)
        with (
            Following(stage.server, quotas.ALL) as following,
            Run(candidate, stage, CONTROLLERS) as run,
        ):
            first = churn.used(count, dict.fromkeys(churn.SPECS, churn.Counts()))
            run.wait_until(lambda: quotas.all_right(following, first), "the first status")
            run.wait_until_quiet()
            span, cpu, began = Span([*stage.pids, run.pid]), run.cpu_seconds(), time.time()
            sent = _send(stage, events)
            right = churn.used(count, events[-1].after)
            run.wait_until(lambda: quotas.all_right(following, right), "all quotas to be right")
            run.wait_until_quiet()
            cpu, others = run.cpu_seconds() - cpu, span.others_share()
            servers = servers_cpu(stage, span)
            history = shown(following.seen, loaded=count, sent=sent)
            writes = [write for write in run.trail.writes if write.received_at >= began]
        quotas.require_right(stage, right, who=candidate.name)
    return Churned(
        cpu_seconds=cpu,
        servers=servers,
        lags=lags(history, sent),
        writes=len(writes),
        conflicts=_conflicts(writes),
        steps_back=steps_back(history, sent),
        refused=sum(each.refused for each in sent),
        others_share=others,
    )


def _send(stage: Stage, events: Sequence[churn.Event]) -> Sequence[Sent]:
    """Send one after the other, each when its time has come or the one before is answered."""
    sent, began = [], time.time()
    for number, event in enumerate(events):
        time.sleep(max(0.0, began + number / EVENTS_A_SECOND - time.time()))
        sent.append(_accepted(stage, event))
    return sent


def _accepted(stage: Stage, event: churn.Event) -> Sent:
    """Send it until the API server accepts it, as a ReplicaSet does."""
    refused = 0
    while True:
        sent_at = time.time()
        try:
            stage.calls.one(event.call)
        except Refused as error:
            refused += 1
            if error.code != 409:
                raise
            require(refused < TRIES, f"a pod was refused {refused} times; the last one: {error}")
        else:
            return Sent(event=event, sent_at=sent_at, answered_at=time.time(), refused=refused)


def _conflicts(writes: Sequence[Request]) -> int:
    return sum(write.code == 409 for write in writes)


WORKLOAD = Workload(
    name="quota-churn",
    title="200 pods come and go at 20/s under four quotas, 500 to 8,000 pods",
    quantities=(
        Quantity("CPU, 500 pods", Unit.SECONDS, goal=0.08),
        Quantity("CPU, 2,000 pods", Unit.SECONDS, goal=0.03),
        Quantity("CPU, 8,000 pods", Unit.SECONDS, goal=0.02),
        Quantity("8,000 against 500", Unit.FACTOR, goal=INDEPENDENT, alone=True),
        *servers_quantities(LARGE),
        Quantity("delete to right, 500", Unit.SECONDS),
        Quantity("delete to right, 8,000", Unit.SECONDS, goal=0.03, alone=True),
        Quantity("the slowest, 8,000", Unit.SECONDS),
        Quantity("writes, 8,000", Unit.COUNT),
        Quantity("conflicts, most of a size", Unit.SHARE, goal=0.1, alone=True),
        Quantity("steps back", Unit.COUNT, goal=0, alone=True),
        Quantity("pods refused for a conflict", Unit.COUNT),
    ),
    prepared=_prepared,
)
