"""The status that a quota should have, as numbers and as texts."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kcm_host_resourcequota.calculation import Calculation, Plan, format_of
from kcm_host_resourcequota.ledger import Total
from kcm_host_resourcequota.quantity import canonical
from kcm_host_resourcequota.quotas import Quota
from kcm_host_resourcequota.settling import Decision


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
