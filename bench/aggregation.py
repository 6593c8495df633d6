"""Workload: 30 aggregated roles over 1,000 cluster roles."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.burst import cold_and_burst
from bench.candidates import Candidate
from bench.servers import servers_quantities
from bench.workload import Measure, Quantity, Repetition, Sizes, Unit, Workload


@contextmanager
def _prepared(sizes: Sizes) -> Iterator[Measure]:
    yield partial(_measure, sizes)


def _measure(sizes: Sizes, candidate: Candidate) -> Repetition:
    cold, burst = cold_and_burst(candidate, count=sizes.roles, edits=sizes.edits)
    return Repetition(
        {
            "start: time until right": cold.seconds_until_right,
            "start: CPU until quiet": cold.cpu_seconds,
            **cold.servers.named("start: {}"),
            "start: writes": cold.writes,
            "burst: time until right": burst.seconds_until_right,
            "burst: CPU until quiet": burst.cpu_seconds,
            **burst.servers.named("burst: {}"),
            "burst: writes": burst.writes,
        },
        max(cold.others_share, burst.others_share),
    )


WORKLOAD = Workload(
    name="aggregation",
    title="30 aggregated roles over 1,000, 100 edits",
    quantities=(
        Quantity("start: time until right", Unit.SECONDS),
        Quantity("start: CPU until quiet", Unit.SECONDS, goal=0.35),
        *servers_quantities("start: {}"),
        Quantity("start: writes", Unit.COUNT, goal=1),
        Quantity("burst: time until right", Unit.SECONDS, goal=0.6),
        Quantity("burst: CPU until quiet", Unit.SECONDS, goal=0.1),
        *servers_quantities("burst: {}"),
        Quantity("burst: writes", Unit.COUNT, goal=1),
    ),
    prepared=_prepared,
)
