"""What the controller has done so far, in numbers."""

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from kcm_host.api import Metric, View
from kcm_host_resourcequota.calculator import Assessment
from kcm_host_resourcequota.replenishment import Routing
from kcm_host_resourcequota.upkeep import Upkeep

PREFIX = "kcm_host_resourcequota_"
CAUSES = ("new", "hard", "decrease", "drift", "raise", "resync")


class Figures:
    """Counts since the start; every cause is there from the beginning, with 0."""

    def __init__(self) -> None:
        self.writes: Counter[str] = Counter(dict.fromkeys(CAUSES, 0))
        self.conflicts = 0
        self.leaks_repaired = 0
        self.decreases = 0
        self.decrease_seconds = 0.0

    def wrote(self, found: Assessment, *, resync: bool, waited_seconds: float | None) -> None:
        """Count a write; `waited_seconds`: since something that it lowers went."""
        self.writes[cause_of(found, resync=resync)] += 1
        if any(found.decision.leaked.values()):
            self.leaks_repaired += 1
        if waited_seconds is not None and any(found.decision.owed.values()):
            self.decreases += 1
            self.decrease_seconds += waited_seconds


def cause_of(found: Assessment, *, resync: bool) -> str:
    """Say why a status is written (RQ-B60)."""
    if found.quota.status_hard is None:
        return "new"
    if not found.quota.is_current:
        return "hard"
    if any(found.decision.owed.values()):
        return "decrease"
    if any(found.decision.leaked.values()):
        return "resync" if resync else "drift"
    return "raise"


def counter(name: str, text: str, value: float) -> Metric:
    """Give a counter without labels; `_total` is added here."""
    return Metric(f"{PREFIX}{name}_total", text, "counter", (({}, value),))


def gauge(name: str, text: str, value: float) -> Metric:
    """Give a gauge without labels."""
    return Metric(f"{PREFIX}{name}", text, "gauge", (({}, value),))


SHOWN = 10


def status_of(routing: Routing, upkeep: Upkeep, view: View) -> Mapping[str, Any]:
    """Give the part of the status page; lists hold at most ten entries."""
    counting = routing.counting
    unserved = (
        f"{key}: {', '.join(plan.unserved)}"
        for names, keys in routing.quotas.by_names().items()
        if (plan := counting.plan(names)).unserved
        for key in keys
    )
    broken = (f"{resource} in {namespace}" for resource, namespace in counting.broken(view))
    return {
        "quotas": len(routing.quotas),
        "objects": {
            each.resource: counting.books.ledger.objects(each.resource) for each in counting.ready()
        },
        "notReady": dict(counting.unready(view)),
        "notServed": list(islice(unserved, SHOWN)),
        "undecodable": heapq.nsmallest(SHOWN, broken),
        "audit": {"rounds": upkeep.audit.rounds, "mismatches": upkeep.audit.mismatches},
    }


def metrics_of(
    routing: Routing, figures: Figures, upkeep: Upkeep, view: View, *, now: float
) -> Sequence[Metric]:
    """Give all metrics; `now` is seconds on the controller's monotonic clock."""
    counting = routing.counting
    oldest = min(routing.drifting.values(), default=now)
    unserved = (
        len(keys)
        for names, keys in routing.quotas.by_names().items()
        if counting.plan(names).unserved
    )
    return [
        Metric(
            f"{PREFIX}writes_total",
            "Status writes by cause.",
            "counter",
            tuple(({"cause": cause}, count) for cause, count in sorted(figures.writes.items())),
        ),
        counter("conflicts", "Status writes that came too late.", figures.conflicts),
        counter("decreases", "Status writes that followed objects going.", figures.decreases),
        counter(
            "decrease_seconds",
            "Time from the first object going to the status written, summed up.",
            figures.decrease_seconds,
        ),
        counter("leaks_repaired", "Amounts without objects, taken off.", figures.leaks_repaired),
        counter("audit_mismatches", "Records repaired by the audit.", upkeep.audit.mismatches),
        counter("evaluations", "Times an object was looked at.", counting.books.evaluations),
        gauge("oldest_drift_seconds", "Age of the oldest amount without objects.", now - oldest),
        gauge(
            "quotas_not_served",
            "Quotas with a name that nothing counts under.",
            sum(unserved),
        ),
        Metric(
            f"{PREFIX}quotas_not_ready",
            "Quotas that wait for a resource.",
            "gauge",
            _waiting(routing, view),
        ),
    ]


def _waiting(routing: Routing, view: View) -> tuple[tuple[Mapping[str, str], float], ...]:
    """Give how many quotas each resource holds up; those that hold up none have 0."""
    counting = routing.counting
    unready = counting.unready(view)
    waiting = Counter(dict.fromkeys(counting.following.all(), 0))
    for names, keys in routing.quotas.by_names().items() if unready else ():
        runs = counting.plan(names).runs
        sources = {name for evaluator, _ in runs for name in counting.sources(evaluator)}
        waiting.update({name: len(keys) for name in sources if name in unready})
    return tuple(({"resource": name}, float(count)) for name, count in sorted(waiting.items()))
