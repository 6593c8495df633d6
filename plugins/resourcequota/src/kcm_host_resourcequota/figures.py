"""What the controller has done so far, in numbers."""

from collections import Counter

from kcm_host.api import Metric
from kcm_host_resourcequota.status import Assessment

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
