"""Follows the objects that quotas count, and answers what the objects of a quota use."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from kcm_host.api import AnyWatch, Change, Discovery, Key, Kind, View, Wanted, Watch
from kcm_host_resourcequota.calculator import Calculation, Plan, calculate, plan_for, total_of
from kcm_host_resourcequota.evaluators import resourceclaims
from kcm_host_resourcequota.evaluators.base import Evaluator
from kcm_host_resourcequota.evaluators.extended_resources import (
    DEVICE_CLASS,
    DeviceClass,
    DeviceClasses,
    is_extended_request,
)
from kcm_host_resourcequota.evaluators.persistentvolumeclaims import VolumeClaimEvaluator
from kcm_host_resourcequota.evaluators.pods import POD, PodEvaluator
from kcm_host_resourcequota.evaluators.registry import Catalog
from kcm_host_resourcequota.evaluators.resourceclaims import ClaimEvaluator, OldestClaims
from kcm_host_resourcequota.evaluators.services import ServiceEvaluator
from kcm_host_resourcequota.models import Quota
from kcm_host_resourcequota.monitors import Following
from kcm_host_resourcequota.usage_index import Books, Move, Total

DEVICE_CLASSES = str(DEVICE_CLASS)
#: Quotas come and go with ever other names; so many plans are kept.
MOST_PLANS = 10_000


class Listener(Protocol):
    """Who is told what the counting has found out, and says what to queue for it."""

    def moved(self, moves: Sequence[Move], view: View) -> Iterable[Wanted]:
        """Take note that objects have changed what they use."""

    def listed(self, resource: str) -> Iterable[Wanted]:
        """Take note that a resource can be counted from now on."""

    def served_anew(self, changed: Callable[[str], bool]) -> Iterable[Wanted]:
        """Take note that other evaluators than before may serve names for which this holds."""


class Counting:
    """
    The evaluators, what they follow, and the ledger of what they have seen.

    `clock` gives seconds on a monotonic clock, `wall` Unix seconds.
    """

    def __init__(
        self, *, clock: Callable[[], float], wall: Callable[[], float], listener: Listener
    ) -> None:
        self.books = Books(wall)
        self.following = Following(clock)
        self._listener = listener
        self._class_names: set[str] = set()
        self._classes = DeviceClasses()
        self.pods = PodEvaluator()
        self._oldest_claims = OldestClaims()
        self.claims = ClaimEvaluator(self._classes, self._oldest_claims)
        special = (self.pods, ServiceEvaluator(), VolumeClaimEvaluator(), self.claims)
        self.catalog = Catalog(special)
        self._plans: dict[frozenset[str], Plan] = {}
        self._planned = 0
        #: Where objects that cannot be read have kept a quota waiting.
        self._unreadable: set[tuple[Evaluator, str]] = set()

    def refresh(self, discovery: Discovery) -> None:
        """Take what the server serves now."""
        self.catalog.refresh(discovery.resources())

    def fixed_watch(self) -> AnyWatch:
        """
        Give the watch of pods, which is there from the start.

        So it can share the stream of other controllers that follow pods; nobody waits for it.
        """
        self.following.want({self.pods.resource: POD}, watch=self._watch)
        return self.following.watch_of(self.pods.resource)

    def watches(self, names: Iterable[str]) -> Sequence[AnyWatch]:
        """Give the watches for quotas that mention these names, no others (D-12)."""
        ended = self.following.turn_to(
            self._needed(names), is_current=self.catalog.is_current, watch=self._watch
        )
        for resource in ended:
            self.books.forget(resource)
            if resource == DEVICE_CLASSES:
                self._forget_classes()
            if resource == self.claims.resource:
                self._oldest_claims.clear()
        return [watch for watch in self.following.watches() if watch.kind != POD]

    def want(self, names: Iterable[str]) -> bool:
        """Follow what these names need as well; True if the host has to be asked to."""
        return self.following.want(self._needed(names), watch=self._watch)

    def _needed(self, names: Iterable[str]) -> Mapping[str, Kind]:
        needed: dict[str, Kind] = {self.pods.resource: POD}
        for name in names:
            for evaluator in self.catalog.serving(name):
                needed[evaluator.resource] = evaluator.kind
            if is_extended_request(name):
                needed[DEVICE_CLASSES] = DEVICE_CLASS
        if self.claims.resource in needed:
            needed[DEVICE_CLASSES] = DEVICE_CLASS
        is_served = self.catalog.is_served
        return {resource: kind for resource, kind in needed.items() if is_served(kind)}

    def _watch(self, kind: Kind) -> AnyWatch:
        ready = partial(self._is_listed, kind)
        if kind == DEVICE_CLASS:
            return Watch(kind=kind, model=DeviceClass, keys=self._class_changed, synced=ready)
        evaluator = self.catalog.get(str(kind))
        assert evaluator is not None, kind
        changed = partial(self._object_changed, evaluator)
        indexes = resourceclaims.INDEXES if evaluator is self.claims else {}
        return Watch(
            kind=kind,
            model=evaluator.model,
            keys=changed,
            synced=ready,
            indexes=indexes,
            awaited=False,
        )

    def expired(self, resource: str, key: Key, view: View) -> list[Move]:
        """Bring the record of an object whose time is over up to date (RQ-B21)."""
        evaluator = self.catalog.get(resource)
        if evaluator is None:
            return []
        others: Iterable[Key] = ()
        if evaluator is self.pods:
            others = self.claims.charged_by(key, [self.books.stored(evaluator, key, view)])
        return self._apply(evaluator, key, others, view)

    def _apply(
        self, evaluator: Evaluator, key: Key, claims_too: Iterable[Key], view: View
    ) -> list[Move]:
        """Bring the record of an object, and of claims that depend on it, up to date (RQ-B20)."""
        places = [(evaluator, key), *((self.claims, other) for other in claims_too if other != key)]
        moves = [self.books.apply(each, its, view) for each, its in places]
        is_ready = self.following.is_ready
        return [move for move in moves if move is not None and is_ready(move.resource)]

    def _object_changed(
        self, evaluator: Evaluator, change: Change[Any], view: View
    ) -> Iterable[Wanted]:
        # A watch that has just been given up may still be told something.
        if not self.following.has(evaluator.resource, evaluator.kind):
            return ()
        others: Iterable[Key] = ()
        if evaluator is self.claims:
            others = self._oldest_claims.put(change.key, change.new)
        elif evaluator is self.pods:
            others = self.claims.charged_by(change.key, (change.old, change.new))
        moves = self._apply(evaluator, change.key, others, view)
        return self._listener.moved(moves, view) if moves else ()

    def _class_changed(self, change: Change[DeviceClass], view: View) -> Iterable[Wanted]:
        """Recount the claims of a class, and see who serves which names from now on (D-9)."""
        name = change.key.name
        (self._class_names.discard if change.new is None else self._class_names.add)(name)
        names = self._classes.put(name, change.new)
        wanted: list[Wanted] = []
        if self.following.is_ready(self.claims.resource):
            found = resourceclaims.claims_of_class(view, name)
            moves = [self.books.apply(self.claims, key, view) for key in found]
            # What is no longer served must be seen to go by those whom it was served.
            wanted += self._listener.moved([move for move in moves if move is not None], view)
        if names:
            self.catalog.changed()
            wanted += self._listener.served_anew(names.__contains__)
        return wanted

    def _forget_classes(self) -> None:
        for name in self._class_names:
            self._classes.put(name, None)
        self._class_names.clear()
        self.catalog.changed()

    def _is_listed(self, kind: Kind, _view: View) -> Iterable[Wanted]:
        resource = str(kind)
        if not self.following.has(resource, kind):
            return ()
        self.following.ready(resource)
        if resource != DEVICE_CLASSES:
            return self._listener.listed(resource)
        # Until now, names of extended resources waited for an answer; see `_serving`.
        self.catalog.changed()
        wanted = [*self._listener.listed(resource)]
        return [*wanted, *self._listener.served_anew(is_extended_request)]

    def plan(self, names: frozenset[str]) -> Plan:
        """Give who answers for which names of a quota; names repeat, so plans are kept."""
        if self._planned != self.catalog.version:
            self._plans.clear()
            self._planned = self.catalog.version
        plan = self._plans.get(names)
        if plan is None:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            plan = self._plans[names] = plan_for(names, self._serving)
        return plan

    def calculation(self, quota: Quota, plan: Plan, view: View) -> Calculation:
        """Give what the objects of a quota use, out of the ledger."""
        return calculate(
            plan,
            quota.asked,
            namespace=quota.key.namespace,
            ledger=self.books.ledger,
            problem=lambda evaluator, namespace: self.problem(evaluator, namespace, view),
        )

    def total(self, quota: Quota, plan: Plan, name: str) -> Total:
        """Give the total of one name that was computed."""
        namespace, ledger = quota.key.namespace, self.books.ledger
        return total_of(name, plan, quota.asked, namespace=namespace, ledger=ledger)

    def problem(self, evaluator: Evaluator, namespace: str, view: View) -> str:
        """Say why an evaluator cannot answer for a namespace; empty if it can (RQ-B28)."""
        if not self.catalog.is_served(evaluator.kind):
            return f"{evaluator.resource} are not served by this API server"
        for resource in self.sources(evaluator):
            problem = self.following.problem(resource, view)
            if problem:
                return problem
        for key in self._unread(evaluator, namespace, view):
            self._unreadable.add((evaluator, namespace))
            return f"{evaluator.resource} '{key}' cannot be read; the host's log names the field"
        return ""

    def patience(self, failed: Iterable[str], view: View) -> float:
        """Give the seconds worth waiting for evaluators that could not answer (D-1)."""
        evaluators = [self.catalog.get(resource) for resource in failed]
        sources = [each for one in evaluators if one is not None for each in self.sources(one)]
        return self.following.patience(sources, view)

    def ready(self) -> Sequence[Evaluator]:
        """Give the evaluators whose objects have all been applied."""
        found = (self.catalog.get(resource) for resource in self.following.all_ready())
        return [evaluator for evaluator in found if evaluator is not None]

    def is_ready(self, evaluator: Evaluator) -> bool:
        """Whether this very evaluator counts, and all its objects have been applied."""
        is_current = self.catalog.get(evaluator.resource) is evaluator
        return is_current and self.following.is_ready(evaluator.resource)

    def mended(self, view: View) -> Sequence[tuple[str, str]]:
        """Give resource and namespace of what has kept a quota waiting and can be read now."""
        places = [
            (evaluator.resource, namespace)
            for evaluator, namespace in self._unreadable
            if not self._unread(evaluator, namespace, view)
        ]
        self._unreadable = {
            (evaluator, namespace)
            for evaluator, namespace in self._unreadable
            if (evaluator.resource, namespace) not in places
        }
        return places

    def _unread(self, evaluator: Evaluator, namespace: str, view: View) -> frozenset[Key]:
        if not self.is_ready(evaluator):
            return frozenset()
        return view.of(evaluator.kind, evaluator.model).undecodable(namespace)

    def broken(self, view: View) -> frozenset[tuple[str, str]]:
        """Give resource and namespace of all objects that cannot be read (RQ-75)."""
        return frozenset(
            (evaluator.resource, key.namespace)
            for evaluator in self.ready()
            for key in view.of(evaluator.kind, evaluator.model).undecodable()
        )

    def unready(self, view: View) -> Mapping[str, str]:
        """Give why resources that are followed cannot be counted yet."""
        found = {name: self.following.problem(name, view) for name in self.following.all()}
        return {name: problem for name, problem in found.items() if problem}

    def sources(self, evaluator: Evaluator) -> Sequence[str]:
        """Give the resources that have to be known before an evaluator can answer (RQ-B20)."""
        if evaluator is self.claims:
            return (DEVICE_CLASSES, self.pods.resource, self.claims.resource)
        return (evaluator.resource,)

    def _serving(self, name: str) -> Sequence[Evaluator]:
        """
        Give who serves a name.

        Until the device classes are known, resource claims may serve any extended resource, so
        such a name waits for them (D-9).
        """
        serving = self.catalog.serving(name)
        open_question = is_extended_request(name) and not self.following.is_ready(DEVICE_CLASSES)
        if open_question and self.claims not in serving and self.catalog.is_served(DEVICE_CLASS):
            return (*serving, self.claims)
        return serving
