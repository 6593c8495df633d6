"""Which quotas are synced, and how soon, for whatever happens to quotas and objects."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta

from kcm_host.api import AnyWatch, Change, Discovery, Key, Lane, Rewatch, View, Wake, Wanted
from kcm_host_resourcequota.calculator import Assessment, assess, is_urgent
from kcm_host_resourcequota.deferred_release import Settling
from kcm_host_resourcequota.evaluators.base import Evaluator
from kcm_host_resourcequota.models import Quota, QuotaObject, Quotas
from kcm_host_resourcequota.quota_monitor import Counting
from kcm_host_resourcequota.usage_index import Move

#: Whatever happens to a quota within so long after a sync makes one further sync (RQ-B12).
COALESCE_SECONDS = 0.05
#: An object that goes is told of twice, when it begins to go and when it is gone.
GATHER_SECONDS = 0.01
#: A total above `used` is nearly always a raise by admission whose event is on its way: written at
#: once it would only be a conflict.
RAISE_SECONDS = 0.1


class Routing:
    """
    Turns what happens to quotas and objects into keys, and keeps what a sync has to know.

    Asking whether a quota is right costs little, so one that is gets no key at all. `clock` gives
    seconds on a monotonic clock, `wall` Unix seconds.
    """

    def __init__(
        self, *, clock: Callable[[], float], wall: Callable[[], float], settle_time: timedelta
    ) -> None:
        self.quotas = Quotas()
        self.counting = Counting(clock=clock, wall=wall, listener=self)
        self.settling: dict[Key, Settling] = {}
        self._clock = clock
        self._settle_seconds = settle_time.total_seconds()
        self._synced_at: dict[Key, float] = {}
        self._resyncing: set[Key] = set()
        #: Quotas with a number above its total, and since when.
        self.drifting: dict[Key, float] = {}

    def more_watches(self, discovery: Discovery) -> Sequence[AnyWatch]:
        """Give the watches of everything that some quota mentions (D-12)."""
        self.counting.refresh(discovery)
        return self.counting.watches({name for quota in self.quotas for name in quota.names})

    def quota_changed(self, change: Change[QuotaObject], view: View) -> Iterable[Wanted]:
        """Queue a quota that is new, asks for something else, or is not right (RQ-20 to RQ-23)."""
        before = self.quotas.get(change.key)
        if change.new is None:
            self.quotas.remove(change.key)
            self._forget(change.key)
            return (change.key,)
        quota = self.quotas.put(change.key, change.new)
        is_new = before is None or before.uid != quota.uid
        if is_new:
            self._forget(change.key)
            settling = Settling(now=self._clock(), settle_seconds=self._settle_seconds)
            self.settling[change.key] = settling
        elif change.relisted:
            self.settling[change.key].unsure(now=self._clock())
        elif before is not None:
            self._note_changes(before, quota)
        if is_new or before is None or before.asked is not quota.asked:
            return self._again(quota)
        return self._wakes(quota, view)

    def moved(self, moves: Sequence[Move], view: View) -> Iterable[Wanted]:
        """See `Listener.moved`: queue the quotas whose totals these objects change (RQ-B10)."""
        by_namespace: dict[str, list[Move]] = {}
        for move in moves:
            by_namespace.setdefault(move.key.namespace, []).append(move)
        wanted: list[Wanted] = []
        for namespace, there in by_namespace.items():
            for quota in self.quotas.of(namespace):
                steps = self._steps(quota, there)
                if not steps:
                    continue
                self.settling[quota.key].moved(steps, now=self._clock())
                if min(steps.values()) < 0:
                    wanted.append(self._lowering(quota.key))
                else:
                    wanted += self._wakes(quota, view)
        return wanted

    def listed(self, resource: str) -> Iterable[Wanted]:
        """See `Listener.listed`: queue the quotas that waited for this resource (D-15, D-18)."""
        wanted: list[Wanted] = []
        for quota in self.quotas:
            waiting = [
                name
                for evaluator, names in self.counting.plan(quota.asked.names).runs
                if resource in self.counting.sources(evaluator)
                for name in names
            ]
            for name in waiting:
                # What is above its first total may be on its way: settle from now on.
                self.settling[quota.key].changed(name, now=self._clock())
            wanted += self._again(quota) if waiting else ()
        return wanted

    def served_anew(self, changed: Callable[[str], bool]) -> Iterable[Wanted]:
        """See `Listener.served_anew` (D-9)."""
        wanted: list[Wanted] = []
        for quota in self.quotas:
            if any(changed(name) for name in quota.asked.hard):
                wanted += self._again(quota)
        return wanted

    def places(self, places: Iterable[tuple[str, str]], view: View) -> Iterable[Wanted]:
        """Queue the quotas of namespaces that ask for certain resources: (resource, namespace)."""
        wanted: list[Wanted] = []
        for resource, namespace in places:
            for quota in self.quotas.of(namespace):
                if any(each.resource == resource for each in self._evaluators(quota)):
                    wanted += self._wakes(quota, view)
        return wanted

    def resync(self) -> Iterable[Wanted]:
        """Queue every quota, behind everything else (RQ-28, RQ-B52)."""
        for quota in self.quotas:
            self._resyncing.add(quota.key)
            yield Wake(quota.key, Lane.IDLE)

    def assess(self, quota: Quota, view: View) -> Assessment:
        """Compare a quota with what its objects use now."""
        plan = self.counting.plan(quota.asked.names)
        calculation = self.counting.calculation(quota, plan, view)
        decision = self.settling[quota.key].decide(
            calculation.numbers,
            quota.numbers,
            now=self._clock(),
            resync=quota.key in self._resyncing,
        )
        since = self.settling[quota.key].drifting_since()
        if since is None:
            self.drifting.pop(quota.key, None)
        else:
            self.drifting[quota.key] = since
        return assess(quota, plan, calculation, decision)

    def is_resyncing(self, key: Key) -> bool:
        """Whether the next sync of a quota belongs to a full resync."""
        return key in self._resyncing

    def begun(self, key: Key) -> None:
        """Take note that a quota is being synced."""
        self._synced_at[key] = self._clock()

    def ended(self, found: Assessment) -> None:
        """Take note that a quota is as it should be, for now."""
        key = found.quota.key
        self.settling[key].ended()
        if key in self._resyncing:
            self._resyncing.discard(key)
            self.settling[key].resynced(found.decision)

    def _wakes(self, quota: Quota, view: View) -> Sequence[Wanted]:
        """Give how a quota is to be queued: not at all while it is right."""
        found = self.assess(quota, view)
        if found.is_dirty and is_urgent(quota, found.plan):
            return (Wake(quota.key, Lane.URGENT, self._coalesced(quota.key)),)
        if found.lowers:
            return (self._lowering(quota.key),)
        if found.is_dirty:
            return (Wake(quota.key, after=timedelta(seconds=RAISE_SECONDS)),)
        if found.decision.blocked:
            after = timedelta(seconds=found.decision.wait_seconds)
            return (Wake(quota.key, Lane.IDLE, after),)
        return ()

    def _lowering(self, key: Key) -> Wake:
        gather = timedelta(seconds=GATHER_SECONDS)
        return Wake(key, after=max(gather, self._coalesced(key)))

    def _coalesced(self, key: Key) -> timedelta:
        due = self._synced_at.get(key, -COALESCE_SECONDS) + COALESCE_SECONDS
        return timedelta(seconds=max(due - self._clock(), 0.0))

    def _again(self, quota: Quota) -> Sequence[Wanted]:
        """Queue a quota that asks for something else, or that others may answer for than before."""
        urgent = is_urgent(quota, self.counting.plan(quota.asked.names))
        lane = Lane.URGENT if urgent else Lane.NORMAL
        return (*self._watch_more(quota), Wake(quota.key, lane, self._coalesced(quota.key)))

    def _watch_more(self, quota: Quota) -> Sequence[Wanted]:
        return (Rewatch(),) if self.counting.want(quota.names) else ()

    def _evaluators(self, quota: Quota) -> Iterator[Evaluator]:
        return (evaluator for evaluator, _ in self.counting.plan(quota.asked.names).runs)

    def _steps(self, quota: Quota, moves: Iterable[Move]) -> Mapping[str, int]:
        """
        Give by how much the totals of a quota change, all moves taken together.

        A claim that its pod takes over changes nothing: nothing has gone (RQ-B20).
        """
        steps: dict[str, int] = {}
        evaluators = {each.resource: each for each in self._evaluators(quota)}
        for move in moves:
            evaluator = evaluators.get(move.resource)
            if evaluator is None:
                continue
            for name, step in move.difference.seen(quota.asked.counts(evaluator)).items():
                if name in quota.asked.hard:
                    steps[name] = steps.get(name, 0) + step
        return {name: step for name, step in steps.items() if step}

    def _note_changes(self, before: Quota, after: Quota) -> None:
        settling = self.settling[after.key]
        for name in before.numbers.keys() | after.numbers.keys():
            old, new = before.numbers.get(name, 0), after.numbers.get(name, 0)
            if old != new or (name in before.numbers) != (name in after.numbers):
                settling.changed(name, now=self._clock(), lowered=old - new)

    def _forget(self, key: Key) -> None:
        self.settling.pop(key, None)
        self._synced_at.pop(key, None)
        self.drifting.pop(key, None)
        self._resyncing.discard(key)
