"""What a workload came to: medians with their range, and whether the goals are met."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.candidates import OURS
from bench.machine import Condition
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
    """One quantity of one workload."""

    workload: str
    quantity: Quantity
    other: Spread | None
    """That of the one whom ours is compared with; None when ours alone is measured."""
    ours: Spread
    met: bool | None
    """None when there is no goal, or the work was too small for it."""

    @property
    def ratio(self) -> float | None:
        """Ours divided by the other's; None when there is nothing to divide by."""
        if self.other is None or not self.other.median:
            return None
        return self.ours.median / self.other.median


@dataclass(frozen=True, slots=True)
class Result:
    """All rows of one workload, and how undisturbed they are."""

    workload: Workload
    rows: Sequence[Row]
    others_share: Spread
    machine: tuple[Condition, Condition]
    """At the beginning and at the end."""


def result_of(
    workload: Workload,
    repetitions: Mapping[str, Sequence[Repetition]],
    *,
    machine: tuple[Condition, Condition],
    judged: bool,
) -> Result:
    """Sum up the repetitions of both candidates; goals are looked at only when `judged`."""
    rows = [
        _row(workload, quantity, repetitions, judged=judged) for quantity in workload.quantities
    ]
    shares = [each.others_share for side in repetitions.values() for each in side]
    return Result(workload=workload, rows=rows, others_share=_spread(shares), machine=machine)


def _row(
    workload: Workload,
    quantity: Quantity,
    repetitions: Mapping[str, Sequence[Repetition]],
    *,
    judged: bool,
) -> Row:
    spreads = {
        side: _spread([each.values[quantity.name] for each in those])
        for side, those in repetitions.items()
    }
    ours, other = spreads[OURS], spreads.get(workload.against)
    met = None
    if judged and quantity.goal is not None:
        scale = 1.0 if quantity.alone or other is None else other.median
        met = ours.median <= quantity.goal * scale
    return Row(workload=workload.name, quantity=quantity, other=other, ours=ours, met=met)


def _spread(values: Sequence[float]) -> Spread:
    return Spread(
        median=statistics.median(values),
        lowest=min(values),
        highest=max(values),
        values=tuple(values),
    )
