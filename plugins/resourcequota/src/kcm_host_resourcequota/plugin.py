"""The hooks of the resourcequota controller."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from kcm_host.api import (
    EVENTS,
    AnyWatch,
    ControllerInfo,
    Discovery,
    Enqueue,
    Key,
    Metric,
    Outcome,
    Permission,
    RefreshWatches,
    Timer,
    View,
    Watch,
    Writer,
    hookimpl,
)
from kcm_host_resourcequota.audit import Audit
from kcm_host_resourcequota.metrics import collect_metrics, status_page
from kcm_host_resourcequota.models import RESOURCE_QUOTA, QuotaObject
from kcm_host_resourcequota.reconciler import QuotaReconciler
from kcm_host_resourcequota.replenishment import Replenishment
from kcm_host_resourcequota.settings import QuotaSettings

#: The period of expirations and of audit slices: both follow the wall clock, which may be set.
TICK = timedelta(seconds=1)
#: The period in which watches that no quota needs any more are removed (D-12).
WATCH_CLEANUP = timedelta(minutes=1)


class ResourceQuota:
    """
    The controller that writes `status.hard` and `status.used` of every ResourceQuota.

    A key is a quota. Usage is stored as running totals, so the cost of an event does not depend on
    the number of objects. `clock` returns seconds on a monotonic clock, `wall` Unix seconds.
    """

    def __init__(
        self,
        settings: QuotaSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._resync_period = settings.resync_period
        replenishment = Replenishment(clock=clock, wall=wall, settle_time=settings.settle_time)
        monitor = replenishment.monitor
        self._replenishment = replenishment
        self._reconciler = QuotaReconciler(replenishment, clock)
        self._audit = Audit(
            monitor.usage,
            evaluators=monitor.synced_evaluators,
            namespaces=replenishment.quotas.namespaces,
            is_synced=monitor.is_synced,
        )
        # The audit goes through all records once in a resync period.
        period = settings.resync_period
        self._audit_share = TICK / period if period else 0.0

    @staticmethod
    @hookimpl
    def kcm_settings() -> type[QuotaSettings]:
        """Return the model of the settings."""
        return QuotaSettings

    @staticmethod
    @hookimpl
    def kcm_info() -> ControllerInfo:
        """Return the names that kube-controller-manager has for this controller."""
        return ControllerInfo(
            aliases=("resourcequota-controller",),
            service_account="resourcequota-controller",
            queue_name="resourcequota_primary",
        )

    @hookimpl
    def kcm_watches(self, discovery: Discovery) -> Sequence[AnyWatch]:
        """Watch quotas and pods; other resources are watched when quotas need them (D-12)."""
        monitor = self._replenishment.monitor
        monitor.refresh(discovery)
        return [
            Watch(
                kind=RESOURCE_QUOTA,
                model=QuotaObject,
                keys=self._replenishment.quota_changed,
                full_object=True,
                notify_unchanged=True,
                resync=lambda key: key,
            ),
            monitor.pod_watch(),
        ]

    @hookimpl
    def kcm_dynamic_watches(self, discovery: Discovery) -> Sequence[AnyWatch]:
        """Watch the other resources that quotas need."""
        return self._replenishment.dynamic_watches(discovery)

    @hookimpl
    def kcm_writes(self) -> Sequence[Permission]:
        """Update the status of quotas, and record Events."""
        return [
            Permission(kind=RESOURCE_QUOTA, verb="update", subresource="status"),
            *EVENTS,
        ]

    @hookimpl
    def kcm_timers(self) -> Sequence[Timer]:
        """Run the periodic tasks; the full resync unless it is switched off (RQ-4)."""
        timers = [
            Timer(every=TICK, keys=self._tick),
            Timer(every=WATCH_CLEANUP, keys=lambda _view: (RefreshWatches(),)),
        ]
        if self._resync_period:
            timers.append(Timer(every=self._resync_period, keys=self._resync, resync=True))
        return timers

    @hookimpl
    async def kcm_sync(self, key: Key, view: View, writer: Writer) -> Outcome:
        """See `QuotaReconciler.sync`."""
        return await self._reconciler.sync(key, view, writer)

    @hookimpl
    def kcm_status(self, view: View) -> Mapping[str, Any]:
        """Return the number of quotas, what is counted, and what cannot be."""
        return status_page(self._replenishment, self._audit, view)

    @hookimpl
    def kcm_metrics(self, view: View) -> Sequence[Metric]:
        """Return the metrics of RQ-B60."""
        metrics = self._reconciler.metrics
        return collect_metrics(
            self._replenishment, metrics, self._audit, view=view, now=self._clock()
        )

    def _tick(self, view: View) -> Iterable[Enqueue]:
        """Return the enqueue requests that no event causes: expirations, decoding, the audit."""
        replenishment = self._replenishment
        wanted = [*replenishment.objects_expired(view), *replenishment.decodable_again(view)]
        if self._audit_share:
            repairs = self._audit.run_slice(view, share=self._audit_share)
            wanted += replenishment.enqueue_users(repairs, view)
        return wanted

    def _resync(self, _view: View) -> Iterable[Enqueue]:
        return self._replenishment.resync()
