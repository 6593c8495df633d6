"""The resourcequota controller: what the objects of a namespace use, in its quotas' status."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from kcm_host.api import (
    EVENT,
    AnyWatch,
    Discovery,
    Key,
    Metric,
    Outcome,
    Permission,
    Rewatch,
    Timer,
    View,
    Wanted,
    Watch,
    Writer,
    hookimpl,
)
from kcm_host_resourcequota.metrics import metrics_of, status_of
from kcm_host_resourcequota.models import RESOURCE_QUOTA, QuotaObject
from kcm_host_resourcequota.reconciler import Syncing
from kcm_host_resourcequota.replenishment import Routing
from kcm_host_resourcequota.settings import Settings
from kcm_host_resourcequota.upkeep import TICK, Upkeep

#: How often kinds that nobody mentions any more are looked for (D-12).
TIDY = timedelta(minutes=1)


class ResourceQuota:
    """
    Keeps `status.hard` and `status.used` of every ResourceQuota right.

    A key is a quota. Usage is kept as running totals, so what an event costs does not depend on
    how many objects there are. `clock` gives seconds on a monotonic clock, `wall` Unix seconds.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._wall = wall

    @hookimpl
    def kcm_settings(self) -> type[Settings]:
        """See `Settings`."""
        return Settings

    @hookimpl
    def kcm_watches(self, settings: Settings, discovery: Discovery) -> Sequence[AnyWatch]:
        """Follow all quotas, and pods; other things as quotas mention them (D-12)."""
        self._routing = Routing(
            clock=self._clock, wall=self._wall, settle_time=settings.settle_time
        )
        self._syncing = Syncing(self._routing, self._clock)
        self._upkeep = Upkeep(self._routing, audit_period=settings.resync_period)
        self._routing.counting.refresh(discovery)
        return [
            Watch(
                kind=RESOURCE_QUOTA,
                model=QuotaObject,
                keys=self._routing.quota_changed,
                whole=True,
                every_event=True,
                resync=lambda key: key,
            ),
            self._routing.counting.fixed_watch(),
        ]

    @hookimpl
    def kcm_more_watches(self, discovery: Discovery) -> Sequence[AnyWatch]:
        """Follow the other resources that some quota mentions."""
        return self._routing.more_watches(discovery)

    @hookimpl
    def kcm_writes(self) -> Sequence[Permission]:
        """Update the status of quotas, and tell users by Events."""
        return [
            Permission(RESOURCE_QUOTA, "update", "status"),
            Permission(EVENT, "create"),
            Permission(EVENT, "patch"),
        ]

    @hookimpl
    def kcm_timers(self, settings: Settings) -> Sequence[Timer]:
        """Look at deadlines, audit, tidy up; resync unless that is switched off (RQ-4)."""
        timers = [
            Timer(every=TICK, keys=self._tick),
            Timer(every=TIDY, keys=lambda _view: (Rewatch(),)),
        ]
        if settings.resync_period:
            timers.append(Timer(every=settings.resync_period, keys=self._resync, resync=True))
        return timers

    @hookimpl
    async def kcm_sync(self, key: Key, view: View, writer: Writer) -> Outcome:
        """See `Syncing.sync`."""
        return await self._syncing.sync(key, view, writer)

    @hookimpl
    def kcm_status(self, view: View) -> Mapping[str, Any]:
        """Say how many quotas there are, what is counted, and what cannot be."""
        return status_of(self._routing, self._upkeep, view)

    @hookimpl
    def kcm_metrics(self, view: View) -> Sequence[Metric]:
        """Give the figures of RQ-B60."""
        figures = self._syncing.figures
        return metrics_of(self._routing, figures, self._upkeep, view, now=self._clock())

    def _tick(self, view: View) -> Iterable[Wanted]:
        return self._upkeep.tick(view)

    def _resync(self, _view: View) -> Iterable[Wanted]:
        return self._routing.resync()
