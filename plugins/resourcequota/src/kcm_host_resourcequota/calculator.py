"""What a quota's objects use: its evaluators' totals put together."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import msgspec

from kcm_host_resourcequota.deferred_release import Decision
from kcm_host_resourcequota.evaluators.base import Evaluator
from kcm_host_resourcequota.models import Asked, Quota
from kcm_host_resourcequota.quantity import Format, Quantity, canonical
from kcm_host_resourcequota.usage_index import Ledger, Total

#: Which format wins where several are as frequent (RQ-B26).
_ORDER = {Format.DECIMAL_SI: 0, Format.BINARY_SI: 1, Format.DECIMAL_EXPONENT: 2}


class Plan(msgspec.Struct, frozen=True):
    """Which evaluators answer for which names of one `spec.hard` (RQ-60 to RQ-62)."""

    #: Each evaluator with the names it serves; one that serves none is not run.
    runs: tuple[tuple[Evaluator, frozenset[str]], ...]
    #: Names that nobody serves; they get no entry (RQ-61).
    unserved: tuple[str, ...]


class Calculation(msgspec.Struct, frozen=True):
    """
    The usage of one quota, in nano units.

    `numbers` has every name whose evaluators all answered. `failed` says of each evaluator that
    did not, by its resource, why; the names it serves are left out (RQ-63, RQ-66).
    """

    numbers: Mapping[str, int]
    failed: Mapping[str, str] = {}


def plan_for(names: Iterable[str], serving: Callable[[str], Collection[Evaluator]]) -> Plan:
    """Sort names by the evaluators that serve them."""
    served: dict[str, tuple[Evaluator, set[str]]] = {}
    unserved = []
    for name in sorted(names):
        evaluators = serving(name)
        for evaluator in evaluators:
            served.setdefault(evaluator.resource, (evaluator, set()))[1].add(name)
        if not evaluators:
            unserved.append(name)
    runs = tuple((evaluator, frozenset(mine)) for evaluator, mine in served.values())
    return Plan(runs, tuple(unserved))


def calculate(
    plan: Plan,
    asked: Asked,
    *,
    namespace: str,
    ledger: Ledger,
    problem: Callable[[Evaluator, str], str],
) -> Calculation:
    """
    Give the usage of a quota out of the ledger, without looking at any object (RQ-B7).

    `problem` says why an evaluator cannot answer for a namespace, empty if it can. Names that two
    evaluators serve are summed, and an evaluator that runs also adds to names it does not serve
    itself (RQ-64). A malformed selection makes everything 0 (RQ-73).
    """
    failed: dict[str, str] = {}
    matched: set[str] = set()
    left_out: set[str] = set()
    for evaluator, mine in plan.runs:
        why = problem(evaluator, namespace)
        (left_out if why else matched).update(mine)
        if why:
            failed[evaluator.resource] = why
    matched -= left_out
    numbers = dict.fromkeys(matched, 0)
    for evaluator, mine in plan.runs:
        if evaluator.resource not in failed and not mine <= left_out:
            counts = asked.counts(evaluator)
            ledger.add_up(evaluator.resource, namespace, counts=counts, into=numbers)
    return Calculation(numbers, failed)


def total_of(name: str, plan: Plan, asked: Asked, *, namespace: str, ledger: Ledger) -> Total:
    """Give the total of one name of a calculation, with the formats that were added to it."""
    found = Total()
    for evaluator, _ in plan.runs:
        counts = asked.counts(evaluator)
        found.include(ledger.total(evaluator.resource, namespace, counts=counts, name=name))
    return found


def format_of(total: Total, present: Quantity | None) -> Format:
    """
    Give the format to write a total in (RQ-B26).

    That of the present entry if something was added in it, else the most frequent: always one that
    the sum could have had in some order of the objects (RQ-304).
    """
    if present is not None and present.format in total.formats:
        return present.format
    if not total.formats:
        return Format.DECIMAL_SI
    return min(total.formats, key=lambda form: (-total.formats[form], _ORDER[form]))


class Assessment(msgspec.Struct, frozen=True):
    """One quota compared with what its objects use, at one moment."""

    quota: Quota
    plan: Plan
    calculation: Calculation
    decision: Decision
    #: Name -> nano units that `status.used` should have.
    numbers: Mapping[str, int]

    @property
    def is_dirty(self) -> bool:
        """
        Whether the status has to be written (RQ-46).

        Absent and empty are the same, because the server stores no empty map (D-2).
        """
        return not self.quota.is_current or self.numbers != self.quota.numbers

    @property
    def lowers(self) -> bool:
        """Whether some number goes down."""
        present = self.quota.numbers
        return any(each < present.get(name, each) for name, each in self.numbers.items())


def is_urgent(quota: Quota, plan: Plan) -> bool:
    """Say whether admission enforces old limits, or refuses for want of usage (RQ-24)."""
    if not quota.is_current:
        return True
    missing = quota.asked.hard.keys() - quota.used.keys()
    return bool(missing.difference(plan.unserved))


def assess(quota: Quota, plan: Plan, calculation: Calculation, decision: Decision) -> Assessment:
    """
    Put together what `status.used` should be.

    What was decided replaces what is there; of the rest, names that are still limited keep their
    old number, such as those whose evaluator failed (RQ-43, RQ-44).
    """
    kept = {name: nano for name, nano in quota.numbers.items() if name in quota.asked.hard}
    return Assessment(quota, plan, calculation, decision, {**kept, **decision.targets})


def status_of(
    whole: Mapping[str, Any], assessment: Assessment, total: Callable[[str], Total]
) -> dict[str, Any]:
    """
    Give the status to write, in the object that the server sent (RQ-45).

    `hard` repeats the texts of the spec; computed entries of `used` are canonical; one that is
    kept, or has to wait for its lowering, keeps its text (RQ-49, RQ-B35). `total` gives the total
    of a name that was computed.
    """
    present: Mapping[str, str] = (whole.get("status") or {}).get("used") or {}
    texts = {}
    for name, nano in assessment.numbers.items():
        known = assessment.quota.used.get(name)
        blocked = name in assessment.decision.blocked and known is not None and known.nano == nano
        if blocked or name not in assessment.calculation.numbers:
            texts[name] = present[name]
        else:
            texts[name] = canonical(nano, format_of(total(name), known))
    return {"hard": dict((whole.get("spec") or {}).get("hard") or {}), "used": texts}
