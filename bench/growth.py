"""Workload: the burst of edits over more and more cluster roles."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.burst import cold_and_burst
from bench.candidates import Candidate
from bench.servers import servers_quantities
from bench.workload import Measure, Quantity, Repetition, Sizes, Unit, Workload

# Four times the roles: four times the work, and something for what does not scale so evenly.
LINEAR = 5.0
LARGE = "{}, 2,000 roles"


@contextmanager
def _prepared(sizes: Sizes) -> Iterator[Measure]:
    yield partial(_measure, sizes)


def _measure(sizes: Sizes, candidate: Candidate) -> Repetition:
    bursts = [
        cold_and_burst(candidate, count=count, edits=sizes.edits)[1] for count in sizes.grown_roles
    ]
    small, middle, large = (burst.cpu_seconds for burst in bursts)
    return Repetition(
        {
            "burst CPU, 500 roles": small,
            "burst CPU, 1,000 roles": middle,
            "burst CPU, 2,000 roles": large,
            "2,000 against 500": large / small,
            **bursts[-1].servers.named(LARGE),
        },
        max(burst.others_share for burst in bursts),
    )


WORKLOAD = Workload(
    name="growth",
    title="the same burst, 500 to 2,000 roles",
    quantities=(
        Quantity("burst CPU, 500 roles", Unit.SECONDS),
        Quantity("burst CPU, 1,000 roles", Unit.SECONDS),
        Quantity("burst CPU, 2,000 roles", Unit.SECONDS),
        Quantity("2,000 against 500", Unit.FACTOR, goal=LINEAR, alone=True),
        *servers_quantities(LARGE),
    ),
    prepared=_prepared,
)
