"""The audit: compares the usage index with all objects, and repairs what differs."""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence

from kcm_host.api import Key, View
from kcm_host_resourcequota.evaluators.base import Evaluator
from kcm_host_resourcequota.usage_tracker import UsageTracker

log = logging.getLogger(__name__)

#: Resource and namespace of a repair.
Repair = tuple[str, str]


class Audit:
    """
    Compares records with objects, and totals with records, one slice at a time (RQ-B40).

    `evaluators` returns those to audit, `namespaces` the namespaces with quotas, `is_synced`
    whether an evaluator still counts. A mismatch is repaired, logged and counted; in normal
    operation there is none (RQ-B41).
    """

    def __init__(
        self,
        tracker: UsageTracker,
        *,
        evaluators: Callable[[], Sequence[Evaluator]],
        namespaces: Callable[[], Collection[str]],
        is_synced: Callable[[Evaluator], bool],
    ) -> None:
        self.mismatches = 0
        self.rounds = 0
        self._tracker = tracker
        self._evaluators = evaluators
        self._namespaces = namespaces
        self._is_synced = is_synced
        self._round: Iterator[tuple[Repair | None, int]] | None = None
        self._round_steps = 0
        #: Steps to do; below 0 after one that counts as many.
        self._due = 0.0

    def run_slice(self, view: View, *, share: float) -> Sequence[Repair]:
        """
        Audit the next `share` of a round, and return the repairs.

        Everything that one step compares is read at one moment, so no event can come in between.
        """
        repairs: list[Repair] = []
        if self._round is None:
            self._round = self._steps(view)
            self._round_steps = self._count_steps(view)
            self._due = 0.0
        self._due += share * self._round_steps
        while self._due > 0:
            try:
                repair, steps = next(self._round)
            except StopIteration:
                self._round = None
                self.rounds += 1
                break
            self._due -= steps
            if repair is not None:
                repairs.append(repair)
        return repairs

    def _count_steps(self, view: View) -> int:
        """Return the number of steps of a round, without an iteration over records."""
        index = self._tracker.index
        steps = 1
        for evaluator in self._evaluators():
            records = index.object_count(evaluator.resource)
            steps += records + index.namespace_count(evaluator.resource)
            if self._may_have_unmatched_keys(evaluator, view):
                steps += records + len(view.of(evaluator.kind, evaluator.model))
        return steps

    def _steps(self, view: View) -> Iterator[tuple[Repair | None, int]]:
        """Yield the repair of each step, None for none, and the number of steps it counts as."""
        index = self._tracker.index
        for evaluator in list(self._evaluators()):
            for namespace in index.namespaces(evaluator.resource):
                usage = index.namespace_usage(evaluator.resource, namespace)
                if usage is None:
                    continue
                if namespace not in self._namespaces():
                    yield None, len(usage.records) + 1
                    continue
                for name in list(usage.records):
                    yield self._check_record(evaluator, Key(name, namespace), view), 1
                yield self._check_totals(evaluator, namespace), 1
            if self._may_have_unmatched_keys(evaluator, view):
                for key in self._tracker.unmatched_keys(evaluator, view):
                    yield self._check_record(evaluator, key, view) if key is not None else None, 1

    def _check_record(self, evaluator: Evaluator, key: Key, view: View) -> Repair | None:
        """Compare one record with its object."""
        if not self._is_synced(evaluator):
            return None
        old = self._tracker.index.record(evaluator.resource, key)
        new = self._tracker.contribution(evaluator, key, view)
        if old == new:
            return None
        self._report(evaluator, key, old=old, new=new)
        self._tracker.index.replace(evaluator.resource, key, new)
        return (evaluator.resource, key.namespace)

    def _check_totals(self, evaluator: Evaluator, namespace: str) -> Repair | None:
        """Compare the totals of a namespace with the sums of its records."""
        usage = self._tracker.index.namespace_usage(evaluator.resource, namespace)
        if usage is None:
            return None
        groups = usage.recompute()
        if usage.groups == groups:
            return None
        self._report(evaluator, Key("", namespace), old="totals", new="sum of the records")
        self._tracker.index.replace_totals(evaluator.resource, namespace, groups)
        return (evaluator.resource, namespace)

    def _may_have_unmatched_keys(self, evaluator: Evaluator, view: View) -> bool:
        """Return whether index and store have different numbers of objects."""
        if not self._is_synced(evaluator):
            return False
        objects = view.of(evaluator.kind, evaluator.model)
        return len(objects) != self._tracker.index.object_count(evaluator.resource)

    def _report(self, evaluator: Evaluator, key: Key, *, old: object, new: object) -> None:
        self.mismatches += 1
        pairs = {
            "resource": evaluator.resource,
            "key": str(key),
            "recorded": str(old),
            "recounted": str(new),
        }
        log.error("usage index repaired after a mismatch", extra={"kv": pairs})
