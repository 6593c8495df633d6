"""Replenishment: which quotas are enqueued, and how soon, when quotas or objects change."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta

from kcm_host.api import (
    AnyWatch,
    Change,
    Discovery,
    Enqueue,
    EnqueueRequest,
    Key,
    Priority,
    RefreshWatches,
    View,
)
from kcm_host_resourcequota.calculator import DesiredStatus, desired_status, is_urgent
from kcm_host_resourcequota.deferred_release import DeferredRelease
from kcm_host_resourcequota.evaluators.base import Evaluator
from kcm_host_resourcequota.models import Quota, QuotaIndex, QuotaObject
from kcm_host_resourcequota.quota_monitor import QuotaMonitor
from kcm_host_resourcequota.usage_tracker import UsageDelta

#: All changes of a quota within this time after a sync lead to one further sync (RQ-B12).
COALESCE_SECONDS = 0.05
#: A deletion is two events: the object gets a deletion timestamp, and it is removed.
DELETION_DEBOUNCE_SECONDS = 0.01
#: A total above `used` is nearly always an increase by admission whose event has not arrived yet:
#: an immediate write would only be a conflict.
INCREASE_DELAY_SECONDS = 0.1


class Replenishment:
    """
    The enqueue requests for changes of quotas and objects, and the state that a sync needs.

    It costs little to compute whether a status is right, so a quota with a right status is not
    enqueued. `clock` returns seconds on a monotonic clock, `wall` Unix seconds.
    """

    def __init__(
        self, *, clock: Callable[[], float], wall: Callable[[], float], settle_time: timedelta
    ) -> None:
        self.quotas = QuotaIndex()
        self.monitor = QuotaMonitor(clock=clock, wall=wall, listener=self)
        self.releases: dict[Key, DeferredRelease] = {}
        #: The quotas with a number above its total, and since when.
        self.excess_since: dict[Key, float] = {}
        self._clock = clock
        self._settle_seconds = settle_time.total_seconds()
        self._synced_at: dict[Key, float] = {}
        #: The numbers of the last write of a quota that is to wait for nothing, and the version of
        #: the usage index that they were computed from.
        self._written: dict[Key, tuple[Mapping[str, int], int]] = {}
        self._resyncing: set[Key] = set()

    def dynamic_watches(self, discovery: Discovery) -> Sequence[AnyWatch]:
        """Return the watches that the names of all quotas need (D-12)."""
        self.monitor.refresh(discovery)
        return self.monitor.watches_for({name for quota in self.quotas for name in quota.names})

    def quota_changed(self, change: Change[QuotaObject], view: View) -> Iterable[Enqueue]:
        """Enqueue a quota that is new, has another spec or a wrong status (RQ-20 to RQ-23)."""
        before = self.quotas.get(change.key)
        if change.new is None:
            self.quotas.remove(change.key)
            self._forget(change.key)
            return (change.key,)
        quota = self.quotas.put(change.key, change.new)
        if before is None or before.uid != quota.uid:
            self._forget(change.key)
            release = DeferredRelease(now=self._clock(), settle_seconds=self._settle_seconds)
            self.releases[change.key] = release
            return self._enqueue_changed(quota)
        if change.relisted:
            self.releases[change.key].relisted(now=self._clock())
        else:
            self._record_used_changes(before, quota)
        if before.spec is not quota.spec:
            return self._enqueue_changed(quota)
        # Every write of a quota comes back as an event.
        return () if self._has_written(quota) else self._enqueue_if_dirty(quota, view)

    def usage_changed(self, deltas: Sequence[UsageDelta], view: View) -> Iterable[Enqueue]:
        """Enqueue the quotas whose totals change (RQ-B10)."""
        by_namespace: dict[str, list[UsageDelta]] = {}
        for delta in deltas:
            by_namespace.setdefault(delta.key.namespace, []).append(delta)
        wanted: list[Enqueue] = []
        for namespace, own_deltas in by_namespace.items():
            for quota in self.quotas.in_namespace(namespace):
                by_name = self._deltas_by_name(quota, own_deltas)
                if not by_name:
                    continue
                self.releases[quota.key].usage_changed(by_name, now=self._clock())
                if min(by_name.values()) < 0:
                    wanted.append(self._enqueue_decrease(quota.key))
                else:
                    wanted += self._enqueue_if_dirty(quota, view)
        return wanted

    def resource_synced(self, resource: str) -> Iterable[Enqueue]:
        """Enqueue the quotas that wait for this resource (D-15, D-18)."""
        wanted: list[Enqueue] = []
        for quota in self.quotas:
            waiting = [
                name
                for evaluator, names in self.monitor.plan(quota.spec.names).evaluators
                if resource in self.monitor.dependencies(evaluator)
                for name in names
            ]
            for name in waiting:
                # What is above the first total may be requests in progress: settle from now on.
                self.releases[quota.key].used_changed(name, now=self._clock())
            wanted += self._enqueue_changed(quota) if waiting else ()
        return wanted

    def evaluators_changed(self, affects: Callable[[str], bool]) -> Iterable[Enqueue]:
        """Enqueue the quotas whose names may have other evaluators (D-9)."""
        wanted: list[Enqueue] = []
        for quota in self.quotas:
            if any(affects(name) for name in quota.spec.hard):
                wanted += self._enqueue_changed(quota)
        return wanted

    def objects_expired(self, view: View) -> Iterable[Enqueue]:
        """Enqueue the quotas of objects that expired, or whose clock was set back (RQ-B21)."""
        return self.usage_changed(self.monitor.update_expired(view), view)

    def decodable_again(self, view: View) -> Iterable[Enqueue]:
        """Enqueue the quotas that waited for objects which can be decoded again (RQ-B28)."""
        return self.enqueue_users(self.monitor.decodable_again(view), view)

    def enqueue_users(self, places: Iterable[tuple[str, str]], view: View) -> Iterable[Enqueue]:
        """Enqueue the quotas with a wrong status that limit a resource in a namespace."""
        wanted: list[Enqueue] = []
        for resource, namespace in places:
            for quota in self.quotas.in_namespace(namespace):
                if any(each.resource == resource for each in self._evaluators(quota)):
                    wanted += self._enqueue_if_dirty(quota, view)
        return wanted

    def resync(self) -> Iterable[Enqueue]:
        """Enqueue every quota with the lowest priority (RQ-28, RQ-B52)."""
        for quota in self.quotas:
            self._resyncing.add(quota.key)
            yield EnqueueRequest(quota.key, Priority.IDLE)

    def desired_status(self, quota: Quota, view: View) -> DesiredStatus:
        """Return the status that a quota should have now."""
        plan = self.monitor.plan(quota.spec.names)
        calculation = self.monitor.calculate(quota, plan, view)
        release = self.releases[quota.key]
        decision = release.decide(
            calculation.used_nano,
            quota.used_nano,
            now=self._clock(),
            resync=quota.key in self._resyncing,
        )
        since = release.excess_since()
        if since is None:
            self.excess_since.pop(quota.key, None)
        else:
            self.excess_since[quota.key] = since
        return desired_status(quota, plan, calculation, release=decision)

    def is_resyncing(self, key: Key) -> bool:
        """Return whether the next sync of a quota belongs to a full resync."""
        return key in self._resyncing

    def sync_started(self, key: Key) -> None:
        """Record that a sync of a quota starts."""
        self._synced_at[key] = self._clock()

    def write_started(self, desired: DesiredStatus) -> None:
        """Record that a status is about to be written: its event may arrive before the response."""
        key, index = desired.quota.key, self.monitor.usage.index
        if desired.release.deferred or desired.calculation.failed:
            self._written.pop(key, None)
        else:
            self._written[key] = (desired.used_nano, index.version)

    def sync_finished(self, desired: DesiredStatus) -> None:
        """Record that a quota has its desired status."""
        key = desired.quota.key
        self.releases[key].sync_finished()
        if key in self._resyncing:
            self._resyncing.discard(key)
            self.releases[key].resync_finished(desired.release)

    def _enqueue_if_dirty(self, quota: Quota, view: View) -> Sequence[Enqueue]:
        """Return the enqueue requests for a quota; none if its status is right."""
        desired = self.desired_status(quota, view)
        if desired.is_dirty and is_urgent(quota, desired.plan):
            return (EnqueueRequest(quota.key, Priority.URGENT, self._coalescing_delay(quota.key)),)
        if desired.lowers_usage:
            return (self._enqueue_decrease(quota.key),)
        if desired.is_dirty:
            return (EnqueueRequest(quota.key, after=timedelta(seconds=INCREASE_DELAY_SECONDS)),)
        if desired.release.deferred:
            after = timedelta(seconds=desired.release.wait_seconds)
            return (EnqueueRequest(quota.key, Priority.IDLE, after),)
        return ()

    def _has_written(self, quota: Quota) -> bool:
        """Return whether a quota has the numbers of the last write, and no total has changed."""
        written = (quota.used_nano, self.monitor.usage.index.version)
        return quota.is_current and self._written.get(quota.key) == written

    def _enqueue_decrease(self, key: Key) -> EnqueueRequest:
        debounce = timedelta(seconds=DELETION_DEBOUNCE_SECONDS)
        return EnqueueRequest(key, after=max(debounce, self._coalescing_delay(key)))

    def _coalescing_delay(self, key: Key) -> timedelta:
        due = self._synced_at.get(key, -COALESCE_SECONDS) + COALESCE_SECONDS
        return timedelta(seconds=max(due - self._clock(), 0.0))

    def _enqueue_changed(self, quota: Quota) -> Sequence[Enqueue]:
        """Return the enqueue requests for a quota with another spec or other evaluators."""
        self._written.pop(quota.key, None)
        urgent = is_urgent(quota, self.monitor.plan(quota.spec.names))
        wake = EnqueueRequest(
            quota.key,
            Priority.URGENT if urgent else Priority.NORMAL,
            self._coalescing_delay(quota.key),
        )
        return (RefreshWatches(), wake) if self.monitor.ensure_watched(quota.names) else (wake,)

    def _evaluators(self, quota: Quota) -> Iterator[Evaluator]:
        return (evaluator for evaluator, _ in self.monitor.plan(quota.spec.names).evaluators)

    def _deltas_by_name(self, quota: Quota, deltas: Iterable[UsageDelta]) -> Mapping[str, int]:
        """
        Return by how much the totals of a quota change, all deltas added up.

        A claim that its pod takes over changes nothing: no usage was released (RQ-B20).
        """
        sums: dict[str, int] = {}
        evaluators = {each.resource: each for each in self._evaluators(quota)}
        for delta in deltas:
            evaluator = evaluators.get(delta.resource)
            if evaluator is None:
                continue
            for name, nano in delta.change.by_name(quota.spec.selects(evaluator)).items():
                if name in quota.spec.hard:
                    sums[name] = sums.get(name, 0) + nano
        return {name: nano for name, nano in sums.items() if nano}

    def _record_used_changes(self, before: Quota, after: Quota) -> None:
        release = self.releases[after.key]
        for name in before.used_nano.keys() | after.used_nano.keys():
            old, new = before.used_nano.get(name, 0), after.used_nano.get(name, 0)
            if old != new or (name in before.used_nano) != (name in after.used_nano):
                release.used_changed(name, now=self._clock(), lowered=old - new)

    def _forget(self, key: Key) -> None:
        self.releases.pop(key, None)
        self._synced_at.pop(key, None)
        self._written.pop(key, None)
        self.excess_since.pop(key, None)
        self._resyncing.discard(key)
