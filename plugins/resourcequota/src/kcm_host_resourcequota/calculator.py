"""The usage and the desired status of a quota, computed from the usage index."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import msgspec

from kcm_host.api import Quantity, QuantityFormat
from kcm_host_resourcequota.deferred_release import ReleaseDecision
from kcm_host_resourcequota.evaluators.base import Evaluator
from kcm_host_resourcequota.models import ParsedSpec, Quota
from kcm_host_resourcequota.usage_index import UsageIndex

#: The order of preference among formats that are equally frequent (RQ-B26).
_FORMAT_ORDER = {
    QuantityFormat.DECIMAL_SI: 0,
    QuantityFormat.BINARY_SI: 1,
    QuantityFormat.DECIMAL_EXPONENT: 2,
}


class EvaluationPlan(msgspec.Struct, frozen=True):
    """The evaluators for the names of one `spec.hard` (RQ-60 to RQ-62)."""

    #: Each evaluator with the names it handles; one that handles none is left out.
    evaluators: tuple[tuple[Evaluator, frozenset[str]], ...]
    #: Names without an evaluator; they get no entry (RQ-61).
    unhandled: tuple[str, ...]


class Calculation(msgspec.Struct, frozen=True):
    """
    The usage of one quota, in nano units.

    `used_nano` has every name whose evaluators all succeeded. `failed` maps the resource of each
    evaluator that failed to the reason; the names it handles are left out (RQ-63, RQ-66).
    """

    used_nano: Mapping[str, int]
    failed: Mapping[str, str] = {}


def plan_evaluation(
    names: Iterable[str], evaluators_for: Callable[[str], Collection[Evaluator]]
) -> EvaluationPlan:
    """Return the plan that groups names by the evaluators that handle them."""
    handled: dict[str, tuple[Evaluator, set[str]]] = {}
    unhandled = []
    for name in sorted(names):
        evaluators = evaluators_for(name)
        for evaluator in evaluators:
            handled.setdefault(evaluator.resource, (evaluator, set()))[1].add(name)
        if not evaluators:
            unhandled.append(name)
    plan = tuple((evaluator, frozenset(own)) for evaluator, own in handled.values())
    return EvaluationPlan(plan, tuple(unhandled))


def calculate(
    plan: EvaluationPlan,
    spec: ParsedSpec,
    *,
    namespace: str,
    usage_index: UsageIndex,
    problem: Callable[[Evaluator, str], str],
) -> Calculation:
    """
    Return the usage of a quota from the usage index, without reading any object (RQ-B7).

    `problem` returns why an evaluator fails for a namespace, empty if it does not. Names that two
    evaluators handle are added up, and a planned evaluator also adds to names it does not handle
    itself (RQ-64). With a malformed selector everything is 0 (RQ-73).
    """
    failed: dict[str, str] = {}
    complete: set[str] = set()
    incomplete: set[str] = set()
    for evaluator, own in plan.evaluators:
        reason = problem(evaluator, namespace)
        (incomplete if reason else complete).update(own)
        if reason:
            failed[evaluator.resource] = reason
    complete -= incomplete
    used_nano = dict.fromkeys(complete, 0)
    for evaluator, _ in plan.evaluators:
        if evaluator.resource not in failed:
            selects = spec.selects(evaluator)
            usage_index.add_totals(evaluator.resource, namespace, selects=selects, into=used_nano)
    return Calculation(used_nano, failed)


def formats_of(
    name: str, plan: EvaluationPlan, spec: ParsedSpec, *, namespace: str, usage_index: UsageIndex
) -> Mapping[QuantityFormat, int]:
    """Return how many amounts of one name of a calculation have each format."""
    result = Counter[QuantityFormat]()
    for evaluator, _ in plan.evaluators:
        selects = spec.selects(evaluator)
        result.update(
            usage_index.formats(evaluator.resource, namespace, selects=selects, name=name)
        )
    return result


def format_of(formats: Mapping[QuantityFormat, int], present: Quantity | None) -> QuantityFormat:
    """
    Return the format to write a total in, from the number of amounts in each (RQ-B26).

    It is the format of the present entry if a part has it, else the most frequent one: always a
    format that the sum has for some order of the objects (RQ-304).
    """
    if present is not None and present.format in formats:
        return present.format
    if not formats:
        return QuantityFormat.DECIMAL_SI
    return min(formats, key=lambda form: (-formats[form], _FORMAT_ORDER[form]))


class DesiredStatus(msgspec.Struct, frozen=True):
    """The status that a quota should have, and what it was computed from."""

    quota: Quota
    plan: EvaluationPlan
    calculation: Calculation
    release: ReleaseDecision
    #: The numbers that `status.used` should have, in nano units.
    used_nano: Mapping[str, int]

    @property
    def is_dirty(self) -> bool:
        """
        Return whether the status has to be written (RQ-46).

        Absent and empty are the same, because the server stores no empty map (D-2).
        """
        return not self.quota.is_current or self.used_nano != self.quota.used_nano

    @property
    def lowers_usage(self) -> bool:
        """Return whether a number of `status.used` decreases."""
        present = self.quota.used_nano
        return any(nano < present.get(name, nano) for name, nano in self.used_nano.items())


def is_urgent(quota: Quota, plan: EvaluationPlan) -> bool:
    """Return whether admission enforces old limits, or rejects because of missing usage (RQ-24)."""
    if not quota.is_current:
        return True
    missing = quota.spec.hard.keys() - quota.used.keys()
    return bool(missing.difference(plan.unhandled))


def desired_status(
    quota: Quota, plan: EvaluationPlan, calculation: Calculation, release: ReleaseDecision
) -> DesiredStatus:
    """
    Return the status that a quota should have.

    The decision replaces the present numbers; other names that are still limited keep their
    number, such as those whose evaluator failed (RQ-43, RQ-44).
    """
    kept = {name: nano for name, nano in quota.used_nano.items() if name in quota.spec.hard}
    return DesiredStatus(
        quota=quota,
        plan=plan,
        calculation=calculation,
        release=release,
        used_nano={**kept, **release.targets},
    )


def render_status(
    full_object: Mapping[str, Any],
    desired: DesiredStatus,
    formats: Callable[[str], Mapping[QuantityFormat, int]],
) -> dict[str, Any]:
    """
    Return the status to write into the object that the server sent (RQ-45).

    `hard` repeats the texts of the spec. Computed entries of `used` are canonical; an entry that
    is kept or deferred keeps its text (RQ-49, RQ-B35). `formats` returns those of a name.
    """
    present: Mapping[str, str] = (full_object.get("status") or {}).get("used") or {}
    texts = {}
    for name, nano in desired.used_nano.items():
        quantity = desired.quota.used.get(name)
        is_same = quantity is not None and quantity.nano == nano
        is_deferred = is_same and name in desired.release.deferred
        if is_deferred or name not in desired.calculation.used_nano:
            texts[name] = present[name]
        else:
            texts[name] = str(Quantity(nano, format_of(formats(name), quantity)))
    return {"hard": dict((full_object.get("spec") or {}).get("hard") or {}), "used": texts}
