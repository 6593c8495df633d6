"""Workload: a hundred ServiceCIDRs are deleted, of which half have addresses in use."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from bench import ranges
from bench.calls import Call
from bench.candidates import Candidate
from bench.machine import Span
from bench.outcome import require
from bench.run import Run
from bench.servers import servers_cpu, servers_quantities
from bench.stage import Stage, fresh_stage
from bench.trail import Request
from bench.workload import Measure, Quantity, Repetition, Sizes, Unit, Workload

CONTROLLERS = ("servicecidrs",)
# The grace period of the controller, and half a second to act.
GONE_SECONDS = 10.5


@dataclass(frozen=True, slots=True)
class Ranges:
    """The ServiceCIDRs by their part in this: a quarter is empty, half of those deleted is used."""

    cidrs: dict[str, str]
    empty: Sequence[str]
    blocked: Sequence[str]
    addresses: Sequence[str]


@contextmanager
def _prepared(sizes: Sizes) -> Iterator[Measure]:
    yield partial(_measure, _ranges(sizes.ranges))


def _ranges(count: int) -> Ranges:
    quarter = count // 4
    names = [f"range-{number:05}" for number in range(count)]
    used = [address for number in range(quarter, count) for address in ranges.addresses(number)]
    return Ranges(
        cidrs={name: ranges.cidr(number) for number, name in enumerate(names)},
        empty=names[:quarter],
        blocked=names[quarter : 2 * quarter],
        addresses=used,
    )


def _measure(load: Ranges, candidate: Candidate) -> Repetition:
    with fresh_stage() as stage:
        ranges.create_ranges(stage, load.cidrs)
        ranges.create_services(stage, load.addresses)
        deleted = [*load.empty, *load.blocked]
        with Run(candidate, stage, CONTROLLERS) as run:
            run.wait_for_writes(2 * len(load.cidrs))
            run.wait_until_quiet()
            _require_ready(stage, candidate.name)
            ranges.require_addresses(stage, len(load.addresses), who=candidate.name)
            span, cpu, began = Span([*stage.pids, run.pid]), run.cpu_seconds(), time.time()
            ranges.delete_ranges(stage, deleted)
            run.wait_until(
                lambda: {write.name for write in _since(run, began)} >= set(deleted),
                "all deleted ranges to be written",
            )
            run.wait_until_quiet()
            cpu, others = run.cpu_seconds() - cpu, span.others_share()
            servers, usage = servers_cpu(stage, span).named(), run.usage()
        _require_right(stage, load, candidate.name)
    writes = _since(run, began)
    exact = len(writes) == len(deleted) or not candidate.strict
    require(exact, f"{candidate.name}: {len(writes)} writes where {len(deleted)} are needed")
    return Repetition(
        {
            "delete to empty ones gone": _last(writes, load.empty) - began,
            "delete to used ones blocked": _last(writes, load.blocked) - began,
            "CPU until quiet": cpu,
            **servers,
            "writes": len(writes),
            "memory (RSS)": usage.rss_bytes,
        },
        others,
    )


def _since(run: Run, began: float) -> Sequence[Request]:
    return [write for write in run.trail.writes if write.received_at >= began]


def _last(writes: Sequence[Request], names: Sequence[str]) -> float:
    wanted = set(names)
    return max(write.answered_at for write in writes if write.name in wanted and write.code < 400)


def _require_ready(stage: Stage, who: str) -> None:
    listed = stage.calls.one(Call("GET", ranges.RANGES))["items"]
    wrong = [each["metadata"]["name"] for each in listed if ranges.ready(each) != "True"]
    require(not wrong, f"{who}: {wrong} should be Ready=True")


def _require_right(stage: Stage, load: Ranges, who: str) -> None:
    """Those empty are gone, those blocked say so, all others are as they were."""
    listed = stage.calls.one(Call("GET", ranges.RANGES))["items"]
    found = {each["metadata"]["name"]: ranges.ready(each) for each in listed}
    left = {name for name in load.cidrs if name not in load.empty} | {"kubernetes"}
    wanted = {name: "False" if name in load.blocked else "True" for name in left}
    require(found == wanted, f"{who}: the ranges and their Ready are {found}, not {wanted}")
    ranges.require_addresses(stage, len(load.addresses), who=who)


WORKLOAD = Workload(
    name="servicecidrs",
    title="100 of 200 ServiceCIDRs are deleted, 9,900 addresses in use",
    quantities=(
        Quantity("delete to empty ones gone", Unit.SECONDS, goal=GONE_SECONDS, alone=True),
        Quantity("delete to used ones blocked", Unit.SECONDS),
        Quantity("CPU until quiet", Unit.SECONDS, goal=0.02),
        *servers_quantities(),
        Quantity("writes", Unit.COUNT),
        Quantity("memory (RSS)", Unit.BYTES),
    ),
    prepared=_prepared,
)
