"""The metrics of the controller, and its part of the status page."""

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from kcm_host.api import Metric, View
from kcm_host_resourcequota.audit import Audit
from kcm_host_resourcequota.calculator import DesiredStatus
from kcm_host_resourcequota.replenishment import Replenishment

PREFIX = "kcm_host_resourcequota_"
CAUSES = ("new", "hard", "decrease", "drift", "raise", "resync")
#: The length of lists on the status page.
MAX_LISTED = 10


class ReconcilerMetrics:
    """The counters of the reconciler since the start; every cause starts with 0."""

    def __init__(self) -> None:
        self.writes: Counter[str] = Counter(dict.fromkeys(CAUSES, 0))
        self.conflicts = 0
        self.leaks_repaired = 0
        self.decreases = 0
        self.decrease_seconds = 0.0

    def record_write(
        self, desired: DesiredStatus, *, resync: bool, waited_seconds: float | None
    ) -> None:
        """Count a write; `waited_seconds` is the time since the first deletion that it contains."""
        self.writes[write_cause(desired, resync=resync)] += 1
        if any(desired.release.stale_usage.values()):
            self.leaks_repaired += 1
        if waited_seconds is not None and any(desired.release.observed_deletions.values()):
            self.decreases += 1
            self.decrease_seconds += waited_seconds


def write_cause(desired: DesiredStatus, *, resync: bool) -> str:
    """Return why a status is written (RQ-B60)."""
    if desired.quota.status_hard is None:
        return "new"
    if not desired.quota.is_current:
        return "hard"
    if any(desired.release.observed_deletions.values()):
        return "decrease"
    if any(desired.release.stale_usage.values()):
        return "resync" if resync else "drift"
    return "raise"


def status_page(replenishment: Replenishment, audit: Audit, view: View) -> Mapping[str, Any]:
    """Return the controller's part of the status page; lists have at most ten entries."""
    monitor = replenishment.monitor
    unhandled = (
        f"{key}: {', '.join(plan.unhandled)}"
        for names, keys in replenishment.quotas.by_names().items()
        if (plan := monitor.plan(names)).unhandled
        for key in keys
    )
    undecodable = (
        f"{resource} in {namespace}" for resource, namespace in monitor.undecodable(view)
    )
    return {
        "quotas": len(replenishment.quotas),
        "objects": {
            each.resource: monitor.usage.index.object_count(each.resource)
            for each in monitor.synced_evaluators()
        },
        "notReady": dict(monitor.unsynced(view)),
        "notServed": list(islice(unhandled, MAX_LISTED)),
        "undecodable": heapq.nsmallest(MAX_LISTED, undecodable),
        "audit": {"rounds": audit.rounds, "mismatches": audit.mismatches},
    }


def collect_metrics(
    replenishment: Replenishment,
    metrics: ReconcilerMetrics,
    audit: Audit,
    view: View,
    *,
    now: float,
) -> Sequence[Metric]:
    """Return all metrics; `now` is seconds on the controller's monotonic clock."""
    monitor = replenishment.monitor
    oldest = min(replenishment.excess_since.values(), default=now)
    unhandled = sum(
        len(keys)
        for names, keys in replenishment.quotas.by_names().items()
        if monitor.plan(names).unhandled
    )
    return [
        Metric(
            name=f"{PREFIX}writes_total",
            help="Status writes by cause.",
            type="counter",
            series=tuple(
                ({"cause": cause}, count) for cause, count in sorted(metrics.writes.items())
            ),
        ),
        _counter("conflicts", "Status writes that ended with a conflict.", metrics.conflicts),
        _counter("decreases", "Status writes that followed deletions.", metrics.decreases),
        _counter(
            "decrease_seconds",
            "Sum of the times from the first deletion to the written status.",
            metrics.decrease_seconds,
        ),
        _counter(
            "leaks_repaired", "Status writes that removed stale usage.", metrics.leaks_repaired
        ),
        _counter("audit_mismatches", "Records repaired by the audit.", audit.mismatches),
        _counter("evaluations", "Evaluations of an object.", monitor.usage.evaluations),
        _gauge("oldest_drift_seconds", "Age of the oldest usage without objects.", now - oldest),
        _gauge("quotas_not_served", "Quotas with a name that nothing counts under.", unhandled),
        Metric(
            name=f"{PREFIX}quotas_not_ready",
            help="Quotas that wait for a resource.",
            type="gauge",
            series=_waiting_quotas(replenishment, view),
        ),
    ]


def _counter(name: str, text: str, value: float) -> Metric:
    return Metric(name=f"{PREFIX}{name}_total", help=text, type="counter", series=(({}, value),))


def _gauge(name: str, text: str, value: float) -> Metric:
    return Metric(name=f"{PREFIX}{name}", help=text, type="gauge", series=(({}, value),))


def _waiting_quotas(
    replenishment: Replenishment, view: View
) -> tuple[tuple[Mapping[str, str], float], ...]:
    """Return the number of quotas that wait for each resource, also where it is 0."""
    monitor = replenishment.monitor
    unsynced = monitor.unsynced(view)
    waiting = Counter(dict.fromkeys(monitor.monitors.resources(), 0))
    for names, keys in replenishment.quotas.by_names().items():
        evaluators = monitor.plan(names).evaluators
        needed = {name for evaluator, _ in evaluators for name in monitor.dependencies(evaluator)}
        waiting.update({name: len(keys) for name in needed if name in unsynced})
    return tuple(({"resource": name}, float(count)) for name, count in sorted(waiting.items()))
