"""What a workload is: sizes, what it measures, and how one repetition of it goes."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum

from bench.candidates import Against, Candidate


class Unit(StrEnum):
    """How a value is shown; values themselves are seconds, bytes and plain numbers."""

    SECONDS = "s"
    BYTES = "MiB"
    COUNT = "count"
    FACTOR = "factor"
    SHARE = "share"


@dataclass(frozen=True, slots=True)
class Quantity:
    """One thing that a workload measures."""

    name: str
    unit: Unit
    goal: float | None = None
    """The most that ours divided by the other's may be; with `alone`, that ours may be."""
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much work there is; the defaults are those that the goals are for."""

    idle_seconds: float = 60
    many_nodes: int = 20_000
    roles: int = 1_000
    grown_roles: tuple[int, ...] = (500, 1_000, 2_000)
    edits: int = 100
    many_pods: int = 20_000
    many_quotas: int = 50
    churned_pods: tuple[int, ...] = (500, 2_000, 8_000)
    churn_events: int = 200
    claims: int = 3_000
    ranges: int = 200
    toys: int = 20_000
    toy_changes: int = 12_000
    looks: tuple[int, int] = (100_000, 10_000)
    """Objects and namespaces."""


QUICK = Sizes(
    idle_seconds=10,
    many_nodes=2_500,
    roles=200,
    grown_roles=(100, 200, 400),
    edits=20,
    many_pods=1_000,
    many_quotas=10,
    churned_pods=(100, 200, 400),
    churn_events=40,
    claims=100,
    ranges=20,
    toys=500,
    toy_changes=1_000,
    looks=(5_000, 400),
)


@dataclass(frozen=True, slots=True)
class Repetition:
    """What one candidate needed once, by the names of the quantities."""

    values: Mapping[str, float]
    others_share: float
    """What other processes used meanwhile, as a share of the time: 1 means one whole core."""


Measure = Callable[[Candidate], Repetition]


@dataclass(frozen=True, slots=True)
class Workload:
    """
    Something to measure.

    `prepared` opens what all repetitions share, and gives the function that measures one. That
    function raises `WrongOutcome` when the candidate's work is not as it should be.
    """

    name: str
    title: str
    quantities: Sequence[Quantity]
    prepared: Callable[[Sizes], AbstractContextManager[Measure]] = field(repr=False)
    against: Against = Against.REFERENCE
    """Whom ours is compared with; if with nobody, all goals are `alone`."""
