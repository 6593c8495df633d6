"""Objects that are only counted."""

import msgspec

from kcm_host.api import Key, Kind, View
from kcm_host_resourcequota.evaluators.base import Contribution, Evaluator, contribution_of, counts

#: Kinds of the core group that have a second name, older than `count/...` (RQ-201).
_WITH_ALIAS = frozenset({"configmaps", "secrets", "replicationcontrollers", "resourcequotas"})


class Counted(msgspec.Struct, frozen=True, gc=False):
    """An object of which nothing is read, so that metadata alone is fetched (RQ-204)."""


def count_name(kind: Kind) -> str:
    """Give the name under which objects of a kind are counted: `count/deployments.apps`."""
    return f"count/{kind}"


class CountEvaluator(Evaluator):
    """Counts the objects of one kind, under its count name and, if it has one, its alias."""

    model = Counted

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._resource = str(kind)
        has_alias = not kind.group and kind.resource in _WITH_ALIAS
        names = [count_name(kind), *([kind.resource] if has_alias else [])]
        self._names = frozenset(names)
        self._one = contribution_of(counts(dict.fromkeys(names, 1)))

    @property
    def resource(self) -> str:
        """See `Evaluator.resource`."""
        return self._resource

    @property
    def kind(self) -> Kind:
        """See `Evaluator.kind`."""
        return self._kind

    def serves(self, name: str) -> bool:
        """See `Evaluator.serves` (RQ-200)."""
        return name in self._names

    def contribution(self, key: Key, obj: Counted, view: View, now: float) -> Contribution:
        """See `Evaluator.contribution`; an object that is being deleted counts (RQ-200)."""
        return self._one
