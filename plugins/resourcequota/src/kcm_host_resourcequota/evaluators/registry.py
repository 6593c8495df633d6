"""The evaluator registry, and the evaluators of the resources that are only counted."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kcm_host.api import Key, Kind, Resource, View
from kcm_host_resourcequota.evaluators.base import (
    Contribution,
    Evaluator,
    contribution_of,
    count_usage,
)

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
#: Resources of the core group with a second name, older than `count/...` (RQ-201).
_WITH_ALIAS = frozenset({"configmaps", "secrets", "replicationcontrollers", "resourcequotas"})


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

    def refresh(self, resources: Sequence[Resource]) -> None:
        """
        Update the object counters to the resources that the API server serves.

        A resource in another version gets a new evaluator, and one that is no longer served loses
        its evaluator (D-11).
        """
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


class CountedObject(msgspec.Struct, frozen=True, gc=False):
    """An object without fields, so that the host requests metadata only (RQ-204)."""


def object_count_name(kind: Kind) -> str:
    """Return the name under which objects of a kind are counted: `count/deployments.apps`."""
    return f"count/{kind}"


class ObjectCountEvaluator(Evaluator):
    """Counts the objects of one kind, under its count name and, if it has one, its alias."""

    model = CountedObject

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._resource = str(kind)
        has_alias = not kind.group and kind.resource in _WITH_ALIAS
        names = [object_count_name(kind), *([kind.resource] if has_alias else [])]
        self._names = frozenset(names)
        self._contribution = contribution_of(count_usage(dict.fromkeys(names, 1)))

    @property
    def resource(self) -> str:
        """See `Evaluator.resource`."""
        return self._resource

    @property
    def kind(self) -> Kind:
        """See `Evaluator.kind`."""
        return self._kind

    def handles(self, name: str) -> bool:
        """See `Evaluator.handles` (RQ-200)."""
        return name in self._names

    def contribution(self, key: Key, obj: CountedObject, view: View, now: float) -> Contribution:
        """See `Evaluator.contribution`; an object that is being deleted counts (RQ-200)."""
        return self._contribution
