"""The evaluator registry: which evaluators handle a name of a quota."""

from collections.abc import Iterable, Mapping, Sequence

from kcm_host.api import Kind, Resource
from kcm_host_resourcequota.evaluators.base import Evaluator
from kcm_host_resourcequota.evaluators.object_count import ObjectCountEvaluator, object_count_name

#: The verbs that a resource needs to be counted (RQ-210).
REQUIRED_VERBS = frozenset({"create", "list", "watch", "delete"})
#: Resources that are never counted, in any version (RQ-213).
IGNORED = frozenset(
    {
        "bindings",
        "componentstatuses",
        "events",
        "events.events.k8s.io",
        "tokenreviews.authentication.k8s.io",
        "selfsubjectreviews.authentication.k8s.io",
        "subjectaccessreviews.authorization.k8s.io",
        "selfsubjectaccessreviews.authorization.k8s.io",
        "localsubjectaccessreviews.authorization.k8s.io",
        "selfsubjectrulesreviews.authorization.k8s.io",
    }
)


class EvaluatorRegistry:
    """
    All evaluators: the special ones, and an object counter for each other served resource.

    `version` grows whenever a name may have other evaluators than before.
    """

    def __init__(self, special: Sequence[Evaluator]) -> None:
        self.version = 0
        self._special = {evaluator.resource: evaluator for evaluator in special}
        self._object_counters: dict[str, ObjectCountEvaluator] = {}
        self._by_name: dict[str, ObjectCountEvaluator] = {}
        self._served: frozenset[Kind] = frozenset()
        self._resources: Sequence[Resource] = ()

    def refresh(self, resources: Sequence[Resource]) -> None:
        """
        Update the object counters to the resources that the API server serves.

        A resource in another version gets a new evaluator, and one that is no longer served loses
        its evaluator (D-11).
        """
        if resources == self._resources:
            return
        self._resources = resources
        self._served = frozenset(resource.kind for resource in resources)
        kinds = countable(resources)
        kept = {
            name: counter
            for name, counter in self._object_counters.items()
            if kinds.get(name) == counter.kind
        }
        new = {
            name: ObjectCountEvaluator(kind)
            for name, kind in kinds.items()
            if name not in kept and name not in self._special
        }
        if new or len(kept) < len(self._object_counters):
            self._object_counters = {**kept, **new}
            self._by_name = {
                name: counter
                for counter in self._object_counters.values()
                for name in (object_count_name(counter.kind), counter.kind.resource)
                if counter.handles(name)
            }
            self.version += 1

    def invalidate(self) -> None:
        """Record that a special evaluator may handle other names than before."""
        self.version += 1

    def evaluators_for(self, name: str) -> tuple[Evaluator, ...]:
        """Return all evaluators that handle a name of a quota (RQ-60)."""
        special = tuple(each for each in self._special.values() if each.handles(name))
        counter = self._by_name.get(name)
        return special if counter is None else (*special, counter)

    def get(self, resource: str) -> Evaluator | None:
        """Return the evaluator of a resource, None if there is none."""
        return self._special.get(resource) or self._object_counters.get(resource)

    def is_current(self, kind: Kind) -> bool:
        """Return whether this kind is the one to watch for its resource (D-11)."""
        counter = self._object_counters.get(str(kind))
        return self.is_served(kind) if counter is None else counter.kind == kind

    def is_served(self, kind: Kind) -> bool:
        """Return whether the API server serves this resource in this version."""
        return kind in self._served


def countable(resources: Iterable[Resource]) -> Mapping[str, Kind]:
    """Return the resources that can be counted, each in its preferred version (RQ-210)."""
    return {
        str(resource.kind): resource.kind
        for resource in resources
        if resource.preferred
        and resource.kind.namespaced
        and resource.verbs >= REQUIRED_VERBS
        and str(resource.kind) not in IGNORED
    }
