"""What users are told about their quotas, as Events: each fact once an hour."""

from collections.abc import Callable, Iterator

from kcm_host.api import Key, Writer
from kcm_host_resourcequota.model import RESOURCE_QUOTA
from kcm_host_resourcequota.status import Assessment

COMPONENT = "resourcequota-controller"
HOUR_SECONDS = 3600.0

NOT_SERVED = "NotServed"
NOT_COUNTED = "NotCounted"
BAD_SELECTOR = "InvalidScopeSelector"


class Notices:
    """
    Warnings about quotas, at most one for each quota, reason and hour (RQ-B60).

    `clock` gives seconds on a monotonic clock.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._told: dict[Key, dict[str, float]] = {}

    def tell(self, found: Assessment, writer: Writer) -> None:
        """Warn about everything that is wrong with a quota."""
        key = found.quota.key
        for reason, message in warnings_of(found):
            told = self._told.setdefault(key, {})
            if self._clock() - told.get(reason, -HOUR_SECONDS) >= HOUR_SECONDS:
                told[reason] = self._clock()
                writer.event(
                    RESOURCE_QUOTA, key, reason=reason, message=message, component=COMPONENT
                )

    def forget(self, key: Key) -> None:
        """Drop what was told about a quota that is gone."""
        self._told.pop(key, None)


def warnings_of(found: Assessment) -> Iterator[tuple[str, str]]:
    """Give reason and message of everything that is wrong with a quota."""
    names = ", ".join(found.plan.unserved)
    if names:
        yield (
            NOT_SERVED,
            f"nothing counts under {names}; check the spelling, and that the resource is installed",
        )
    problems = "; ".join(found.calculation.failed.values())
    if problems:
        yield NOT_COUNTED, f"names of resources that cannot be counted keep their usage: {problems}"
    malformed = found.quota.asked.selection.malformed
    if malformed:
        yield BAD_SELECTOR, f"the quota counts nothing: {malformed}"
