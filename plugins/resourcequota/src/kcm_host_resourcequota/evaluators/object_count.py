"""The evaluator of objects that are only counted."""

import msgspec

from kcm_host.api import Key, Kind, View
from kcm_host_resourcequota.evaluators.base import (
    Contribution,
    Evaluator,
    contribution_of,
    count_usage,
)

#: Resources of the core group with a second name, older than `count/...` (RQ-201).
_WITH_ALIAS = frozenset({"configmaps", "secrets", "replicationcontrollers", "resourcequotas"})


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
