"""The quota monitor: watches what quotas limit, and computes what their objects use."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from kcm_host.api import (
    AnyWatch,
    Change,
    Discovery,
    Enqueue,
    Key,
    Kind,
    QuantityFormat,
    View,
    Watch,
)
from kcm_host_resourcequota import calculator
from kcm_host_resourcequota.calculator import Calculation, EvaluationPlan
from kcm_host_resourcequota.evaluators import resourceclaims
from kcm_host_resourcequota.evaluators.base import Evaluator
from kcm_host_resourcequota.evaluators.extended_resources import (
    DEVICE_CLASS,
    DeviceClass,
    DeviceClasses,
    is_extended_request,
)
from kcm_host_resourcequota.evaluators.persistentvolumeclaims import PersistentVolumeClaimEvaluator
from kcm_host_resourcequota.evaluators.pods import POD, PodEvaluator
from kcm_host_resourcequota.evaluators.registry import EvaluatorRegistry
from kcm_host_resourcequota.evaluators.resourceclaims import OldestClaims, ResourceClaimEvaluator
from kcm_host_resourcequota.evaluators.services import ServiceEvaluator
from kcm_host_resourcequota.models import Quota
from kcm_host_resourcequota.monitors import MonitorSet
from kcm_host_resourcequota.usage_tracker import UsageDelta, UsageTracker

DEVICE_CLASSES = str(DEVICE_CLASS)
#: Quotas may limit an unlimited number of different names, so at most this many plans are cached.
MAX_CACHED_PLANS = 10_000


class MonitorListener(Protocol):
    """The receiver of what the quota monitor finds; returns the enqueue requests for it."""

    def usage_changed(self, deltas: Sequence[UsageDelta], view: View) -> Iterable[Enqueue]:
        """Handle changes of what objects use."""

    def resource_synced(self, resource: str) -> Iterable[Enqueue]:
        """Handle the end of the first list of a resource: it can be counted from now on."""

    def evaluators_changed(self, affects: Callable[[str], bool]) -> Iterable[Enqueue]:
        """Handle that the names for which `affects` is true may have other evaluators."""


class QuotaMonitor:
    """
    The evaluators, the watches of their objects, and the usage index that these update.

    `clock` returns seconds on a monotonic clock, `wall` Unix seconds.
    """

    def __init__(
        self, *, clock: Callable[[], float], wall: Callable[[], float], listener: MonitorListener
    ) -> None:
        self.usage = UsageTracker(wall)
        self.monitors = MonitorSet(clock)
        self._listener = listener
        self._device_classes = DeviceClasses()
        self.pods = PodEvaluator()
        self._oldest_claims = OldestClaims()
        self.claims = ResourceClaimEvaluator(self._device_classes, self._oldest_claims)
        special = (self.pods, ServiceEvaluator(), PersistentVolumeClaimEvaluator(), self.claims)
        self.registry = EvaluatorRegistry(special)
        self._plans: dict[frozenset[str], EvaluationPlan] = {}
        self._plans_version = 0
        #: Evaluators and namespaces for which a calculation found an undecodable object.
        self._blocked: set[tuple[Evaluator, str]] = set()

    def refresh(self, discovery: Discovery) -> None:
        """Update the evaluators to the resources that the API server serves."""
        self.registry.refresh(discovery.resources())

    def pod_watch(self) -> AnyWatch:
        """
        Return the watch of pods, which exists from the start.

        It can then share the informer of other controllers that watch pods.
        """
        self.monitors.ensure({self.pods.resource: POD}, watch=self._watch)
        return self.monitors.watch_of(self.pods.resource)

    def watches_for(self, names: Iterable[str]) -> Sequence[AnyWatch]:
        """Return the watches beside that of pods that the names of quotas need (D-12)."""
        removed = self.monitors.sync(
            self._needed(names), is_current=self.registry.is_current, watch=self._watch
        )
        for resource in removed:
            self.usage.index.remove_resource(resource)
            if resource == DEVICE_CLASSES:
                self._device_classes.clear()
                self.registry.invalidate()
            if resource == self.claims.resource:
                self._oldest_claims.clear()
        return [watch for watch in self.monitors.watches() if watch.kind != POD]

    def ensure_watched(self, names: Iterable[str]) -> bool:
        """Add the watches that names need; return whether the host has to refresh the watches."""
        return self.monitors.ensure(self._needed(names), watch=self._watch)

    def _needed(self, names: Iterable[str]) -> Mapping[str, Kind]:
        needed: dict[str, Kind] = {self.pods.resource: POD}
        for name in names:
            for evaluator in self.registry.evaluators_for(name):
                needed[evaluator.resource] = evaluator.kind
            if is_extended_request(name):
                needed[DEVICE_CLASSES] = DEVICE_CLASS
        if self.claims.resource in needed:
            needed[DEVICE_CLASSES] = DEVICE_CLASS
        is_served = self.registry.is_served
        return {resource: kind for resource, kind in needed.items() if is_served(kind)}

    def _watch(self, kind: Kind) -> AnyWatch:
        synced = partial(self._resource_synced, kind)
        if kind == DEVICE_CLASS:
            changed = self._device_class_changed
            return Watch(kind=kind, model=DeviceClass, keys=changed, on_synced=synced)
        evaluator = self.registry.get(str(kind))
        assert evaluator is not None, kind
        return Watch(
            kind=kind,
            # Quotas are counted too, beside the watch that follows them as keys.
            name=f"usage of {kind}",
            model=evaluator.model,
            keys=partial(self._object_changed, evaluator),
            on_synced=synced,
            indexes=resourceclaims.INDEXES if evaluator is self.claims else {},
            required=False,
        )

    def update_expired(self, view: View) -> list[UsageDelta]:
        """Update the usage of the objects that have expired since the last call (RQ-B21)."""
        deltas: list[UsageDelta] = []
        for resource, key in self.usage.expired():
            # Nothing else expires, and pods are always watched.
            assert resource == self.pods.resource
            pod = self.usage.stored(self.pods, key, view)
            dependent = self.claims.claims_charged_to(key.namespace, [pod])
            deltas += self._update_usage(self.pods, key, dependent, view=view)
        return deltas

    def _update_usage(
        self, evaluator: Evaluator, key: Key, dependent_claims: Iterable[Key], view: View
    ) -> list[UsageDelta]:
        """Update the usage of an object and of the claims that depend on it (RQ-B20)."""
        claims = ((self.claims, claim) for claim in dependent_claims if claim != key)
        deltas = [self.usage.update(each, k, view) for each, k in ((evaluator, key), *claims)]
        is_synced = self.monitors.is_synced
        return [delta for delta in deltas if delta is not None and is_synced(delta.resource)]

    def _object_changed(
        self, evaluator: Evaluator, change: Change[Any], view: View
    ) -> Iterable[Enqueue]:
        # A watch that was just removed may still deliver events.
        if not self.monitors.has(evaluator.resource, evaluator.kind):
            return ()
        dependent: Iterable[Key] = ()
        if evaluator is self.claims:
            dependent = self._oldest_claims.put(change.key, change.new)
        elif evaluator is self.pods:
            namespace, versions = change.key.namespace, (change.old, change.new)
            dependent = self.claims.claims_charged_to(namespace, versions)
        deltas = self._update_usage(evaluator, change.key, dependent, view=view)
        return self._listener.usage_changed(deltas, view) if deltas else ()

    def _device_class_changed(self, change: Change[DeviceClass], view: View) -> Iterable[Enqueue]:
        """Update the usage of the claims of a class, and the evaluators of its names (D-9)."""
        name = change.key.name
        affected = self._device_classes.put(name, change.new)
        wanted: list[Enqueue] = []
        if self.monitors.is_synced(self.claims.resource):
            keys = resourceclaims.claims_of_class(view, name)
            deltas = [self.usage.update(self.claims, key, view) for key in keys]
            # Before the evaluators change: quotas whose names lose theirs must get the decrease.
            changed = [delta for delta in deltas if delta is not None]
            wanted.extend(self._listener.usage_changed(changed, view))
        if affected:
            self.registry.invalidate()
            wanted.extend(self._listener.evaluators_changed(affected.__contains__))
        return wanted

    def _resource_synced(self, kind: Kind, _view: View) -> Iterable[Enqueue]:
        resource = str(kind)
        if not self.monitors.has(resource, kind):
            return ()
        self.monitors.mark_synced(resource)
        if resource != DEVICE_CLASSES:
            return self._listener.resource_synced(resource)
        # Until now, names of extended resources waited for the device classes: `_evaluators_for`.
        self.registry.invalidate()
        wanted = [*self._listener.resource_synced(resource)]
        return [*wanted, *self._listener.evaluators_changed(is_extended_request)]

    def plan(self, names: frozenset[str]) -> EvaluationPlan:
        """Return the evaluators for the names of a quota; many quotas have equal names."""
        if self._plans_version != self.registry.version:
            self._plans.clear()
            self._plans_version = self.registry.version
        plan = self._plans.get(names)
        if plan is None:
            if len(self._plans) >= MAX_CACHED_PLANS:
                self._plans.clear()
            plan = calculator.plan_evaluation(names, self._evaluators_for)
            self._plans[names] = plan
        return plan

    def calculate(self, quota: Quota, plan: EvaluationPlan, view: View) -> Calculation:
        """Return the usage of a quota."""
        return calculator.calculate(
            plan,
            quota.spec,
            namespace=quota.key.namespace,
            usage_index=self.usage.index,
            problem=lambda evaluator, namespace: self.problem(evaluator, namespace, view),
        )

    def formats(
        self, quota: Quota, plan: EvaluationPlan, name: str
    ) -> Mapping[QuantityFormat, int]:
        """Return how many amounts of one name of a calculation have each format."""
        namespace, index = quota.key.namespace, self.usage.index
        return calculator.formats_of(name, plan, quota.spec, namespace=namespace, usage_index=index)

    def problem(self, evaluator: Evaluator, namespace: str, view: View) -> str:
        """Return why an evaluator fails for a namespace; empty if it does not (RQ-B28)."""
        if not self.registry.is_served(evaluator.kind):
            return f"{evaluator.resource} are not served by this API server"
        for resource in self.dependencies(evaluator):
            problem = self.monitors.problem(resource, view)
            if problem:
                return problem
        for key in self._undecodable_keys(evaluator, namespace, view):
            self._blocked.add((evaluator, namespace))
            return f"{evaluator.resource} '{key}' cannot be read; the host's log names the field"
        return ""

    def seconds_to_wait(self, failed: Iterable[str], view: View) -> float:
        """Return how many seconds it makes sense to wait for evaluators that failed (D-1)."""
        evaluators = (self.registry.get(resource) for resource in failed)
        resources = [
            resource
            for evaluator in evaluators
            if evaluator is not None
            for resource in self.dependencies(evaluator)
        ]
        return self.monitors.seconds_to_wait(resources, view)

    def synced_evaluators(self) -> Sequence[Evaluator]:
        """Return the evaluators whose objects have all been applied."""
        evaluators = (self.registry.get(each) for each in self.monitors.synced_resources())
        return [evaluator for evaluator in evaluators if evaluator is not None]

    def is_synced(self, evaluator: Evaluator) -> bool:
        """Return whether an evaluator is the present one and its objects have been applied."""
        is_current = self.registry.get(evaluator.resource) is evaluator
        return is_current and self.monitors.is_synced(evaluator.resource)

    def decodable_again(self, view: View) -> Sequence[tuple[str, str]]:
        """Return resource and namespace of what blocked a quota and can be decoded by now."""
        unblocked = {
            (evaluator, namespace)
            for evaluator, namespace in self._blocked
            if not self._undecodable_keys(evaluator, namespace, view)
        }
        self._blocked -= unblocked
        return [(evaluator.resource, namespace) for evaluator, namespace in unblocked]

    def _undecodable_keys(self, evaluator: Evaluator, namespace: str, view: View) -> frozenset[Key]:
        if not self.is_synced(evaluator):
            return frozenset()
        return view.of(evaluator.kind, evaluator.model).undecodable(namespace)

    def undecodable(self, view: View) -> frozenset[tuple[str, str]]:
        """Return resource and namespace of all undecodable objects (RQ-75)."""
        return frozenset(
            (evaluator.resource, key.namespace)
            for evaluator in self.synced_evaluators()
            for key in view.of(evaluator.kind, evaluator.model).undecodable()
        )

    def unsynced(self, view: View) -> Mapping[str, str]:
        """Return the problem of each resource that is watched and cannot be counted yet."""
        problems = {name: self.monitors.problem(name, view) for name in self.monitors.resources()}
        return {name: problem for name, problem in problems.items() if problem}

    def dependencies(self, evaluator: Evaluator) -> Sequence[str]:
        """Return the resources that an evaluator needs in order to count (RQ-B20)."""
        if evaluator is self.claims:
            return (DEVICE_CLASSES, self.pods.resource, self.claims.resource)
        return (evaluator.resource,)

    def _evaluators_for(self, name: str) -> Sequence[Evaluator]:
        """
        Return the evaluators of a name.

        Until the device classes are synced, resource claims may handle any extended resource, so
        such a name depends on them (D-9).
        """
        evaluators = self.registry.evaluators_for(name)
        is_unknown = is_extended_request(name) and not self.monitors.is_synced(DEVICE_CLASSES)
        if is_unknown and self.claims not in evaluators and self.registry.is_served(DEVICE_CLASS):
            return (*evaluators, self.claims)
        return evaluators
