"""What a workload came to: medians with their range, and whether the goals are met."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.workload import Quantity, Repetition, Workload


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of some values, and how far they went."""

    median: float
    lowest: float
    highest: float
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity of one workload, for both contestants."""

    workload: str
    quantity: Quantity
    reference: Spread
    ours: Spread
    met: bool | None
    """None when there is no goal, or the work was too small for it."""

    @property
    def ratio(self) -> float | None:
        """Ours divided by the reference's; None when the reference's is nothing."""
        return self.ours.median / self.reference.median if self.reference.median else None


@dataclass(frozen=True, slots=True)
class Result:
    """All rows of one workload, and how undisturbed they are."""

    workload: Workload
    rows: Sequence[Row]
    others_share: Spread
    load1: tuple[float, float]
    """At the beginning and at the end."""


def result_of(
    workload: Workload,
    repetitions: Mapping[str, Sequence[Repetition]],
    *,
    load1: tuple[float, float],
    judged: bool,
) -> Result:
    """Sum up the repetitions of both contestants; goals are looked at only when `judged`."""
    rows = [
        _row(workload, quantity, repetitions, judged=judged) for quantity in workload.quantities
    ]
    shares = [each.others_share for side in repetitions.values() for each in side]
    return Result(workload, rows, _spread(shares), load1)


def _row(
    workload: Workload,
    quantity: Quantity,
    repetitions: Mapping[str, Sequence[Repetition]],
    *,
    judged: bool,
) -> Row:
    reference, ours = (
        _spread([each.values[quantity.name] for each in repetitions[side]])
        for side in ("reference", "ours")
    )
    met = None
    if judged and quantity.goal is not None:
        most = quantity.goal if quantity.alone else quantity.goal * reference.median
        met = ours.median <= most
    return Row(workload.name, quantity, reference, ours, met)


def _spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values), tuple(values))
