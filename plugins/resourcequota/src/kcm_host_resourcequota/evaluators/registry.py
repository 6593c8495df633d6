"""Which names of quotas somebody can count, and who."""

from collections.abc import Iterable, Mapping, Sequence

from kcm_host.api import Kind, Resource
from kcm_host_resourcequota.evaluators.base import Evaluator
from kcm_host_resourcequota.evaluators.object_count import CountEvaluator, count_name

#: What a resource must allow to be counted (RQ-210).
VERBS = frozenset({"create", "list", "watch", "delete"})
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


class Catalog:
    """
    All evaluators: those with rules of their own, and one for each other resource that is served.

    `version` grows whenever the same name may be served by others than before.
    """

    def __init__(self, special: Sequence[Evaluator]) -> None:
        self.version = 0
        self._special = {evaluator.resource: evaluator for evaluator in special}
        self._counters: dict[str, CountEvaluator] = {}
        self._by_name: dict[str, CountEvaluator] = {}
        self._served: frozenset[Kind] = frozenset()
        self._seen: Sequence[Resource] = ()

    def refresh(self, resources: Sequence[Resource]) -> None:
        """
        Take what the server serves now.

        A resource that has moved to another version gets a new evaluator, one that is gone loses
        its own (D-11).
        """
        if resources == self._seen:
            return
        self._seen = resources
        self._served = frozenset(resource.kind for resource in resources)
        kinds = countable(resources)
        kept = {
            name: counter
            for name, counter in self._counters.items()
            if kinds.get(name) == counter.kind
        }
        new = {
            name: CountEvaluator(kind)
            for name, kind in kinds.items()
            if name not in kept and name not in self._special
        }
        if new or len(kept) < len(self._counters):
            self._counters = {**kept, **new}
            self._by_name = {
                name: counter
                for counter in self._counters.values()
                for name in (count_name(counter.kind), counter.kind.resource)
                if counter.serves(name)
            }
            self.version += 1

    def changed(self) -> None:
        """Say that an evaluator with rules of its own may serve other names than before."""
        self.version += 1

    def serving(self, name: str) -> tuple[Evaluator, ...]:
        """Give all evaluators that serve a name of a quota (RQ-60)."""
        special = tuple(each for each in self._special.values() if each.serves(name))
        counter = self._by_name.get(name)
        return special if counter is None else (*special, counter)

    def get(self, resource: str) -> Evaluator | None:
        """Give the evaluator of a resource, None if there is none."""
        return self._special.get(resource) or self._counters.get(resource)

    def is_current(self, kind: Kind) -> bool:
        """Whether this is the kind that is followed for its resource, if any is (D-11)."""
        counter = self._counters.get(str(kind))
        return self.is_served(kind) if counter is None else counter.kind == kind

    def is_served(self, kind: Kind) -> bool:
        """Whether the server has this resource in this version."""
        return kind in self._served


def countable(resources: Iterable[Resource]) -> Mapping[str, Kind]:
    """Give the resources that can be counted, each in the version the server prefers (RQ-210)."""
    return {
        str(resource.kind): resource.kind
        for resource in resources
        if resource.preferred
        and resource.kind.namespaced
        and resource.verbs >= VERBS
        and str(resource.kind) not in IGNORED
    }
