"""ResourceQuotas as they are decoded, and the index of all of them."""

from collections.abc import Callable, Collection, Iterator, Mapping

import msgspec

from kcm_host.api import Key, Kind
from kcm_host_resourcequota.evaluators.base import Evaluator
from kcm_host_resourcequota.quantity import Quantity, parse
from kcm_host_resourcequota.scopes import Requirement, Selection, Vector, selection_of

RESOURCE_QUOTA = Kind("", "v1", "ResourceQuota", "resourcequotas")

# The server leaves empty maps and lists out, and null, missing and empty are one thing (RQ-50).
Texts = dict[str, str] | None


class Metadata(msgspec.Struct, frozen=True, gc=False):
    """Which quota it is: one made anew under its name has another `uid`."""

    uid: str = ""


class ScopeSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The expressions of `spec.scopeSelector`, as written."""

    match_expressions: tuple[Requirement, ...] | None = None


class Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What the user asked for."""

    hard: Texts = None
    scopes: tuple[str, ...] | None = None
    scope_selector: ScopeSelector | None = None


class Status(msgspec.Struct, frozen=True, gc=False):
    """What the controller and admission have written."""

    hard: Texts = None
    used: Texts = None


class QuotaObject(msgspec.Struct, frozen=True, gc=False):
    """
    One ResourceQuota.

    A quantity that cannot be read makes the object undecodable for the host, so the last good
    state stays in force (RQ-75).
    """

    metadata: Metadata = Metadata()
    spec: Spec = Spec()
    status: Status = Status()

    def __post_init__(self) -> None:
        for texts in (self.spec.hard, self.status.hard, self.status.used):
            amounts(texts)


def amounts(texts: Texts) -> Mapping[str, int]:
    """Give a resource list in nano units; raises `QuantityError` (RQ-270)."""
    return {name: parse(text).nano for name, text in (texts or {}).items()}


#: Objects name ever other classes; so many answers about them are kept for each quota.
MOST_SEEN = 1000


class Asked:
    """What `spec` asks for; shared by all versions of a quota that ask the same."""

    __slots__ = ("_seen", "hard", "names", "selection", "spec")

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.hard: Mapping[str, int] = amounts(spec.hard)
        self.names = frozenset(self.hard)
        expressions = spec.scope_selector.match_expressions if spec.scope_selector else ()
        self.selection: Selection = selection_of(spec.scopes or (), expressions or ())
        self._seen: dict[tuple[str, Vector], bool] = {}

    def counts(self, evaluator: Evaluator) -> Callable[[Vector], bool]:
        """
        Give the test whether objects with some vector are in scope (RQ-72).

        Without scopes all are; with a malformed selection none is (RQ-B29).
        """
        if not self.selection.requirements:
            return _all
        if self.selection.malformed:
            return _none
        return lambda vector: self._matches(evaluator, vector)

    def _matches(self, evaluator: Evaluator, vector: Vector) -> bool:
        place = (evaluator.resource, vector)
        known = self._seen.get(place)
        if known is None:
            requirements = self.selection.requirements
            if len(self._seen) >= MOST_SEEN:
                self._seen.clear()
            known = all(evaluator.matches(vector, requirement) for requirement in requirements)
            self._seen[place] = known
        return known


def _all(_vector: Vector) -> bool:
    return True


def _none(_vector: Vector) -> bool:
    return False


class Quota(msgspec.Struct, frozen=True, eq=False):
    """One version of one quota: what it asks for, and what its status says now."""

    key: Key
    uid: str
    asked: Asked
    #: `status.hard` in nano units; None when the status has none.
    status_hard: Mapping[str, int] | None
    used: Mapping[str, Quantity]
    #: `used` in nano units.
    numbers: Mapping[str, int]

    @property
    def is_current(self) -> bool:
        """Whether `status.hard` says what `spec.hard` does, in numbers (RQ-25)."""
        return (self.status_hard or {}) == self.asked.hard

    @property
    def names(self) -> Collection[str]:
        """All names that it limits now or that admission still enforces."""
        return self.asked.hard.keys() | (self.status_hard or {}).keys()


class Quotas:
    """All quotas by namespace, as the watch told them."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[Key, Quota]] = {}
        self._by_names: dict[frozenset[str], dict[Key, None]] = {}
        self._count = 0

    def put(self, key: Key, seen: QuotaObject) -> Quota:
        """Take the present state of a quota."""
        there = self._by_namespace.setdefault(key.namespace, {})
        known = there.get(key)
        self._leave(known)
        kept = known is not None and known.asked.spec == seen.spec
        used = {name: parse(text) for name, text in (seen.status.used or {}).items()}
        there[key] = quota = Quota(
            key,
            seen.metadata.uid,
            known.asked if known is not None and kept else Asked(seen.spec),
            amounts(seen.status.hard) if seen.status.hard else None,
            used,
            {name: each.nano for name, each in used.items()},
        )
        self._by_names.setdefault(quota.asked.names, {})[key] = None
        self._count += 1
        return quota

    def remove(self, key: Key) -> None:
        """Forget a quota that is gone."""
        there = self._by_namespace.get(key.namespace, {})
        self._leave(there.pop(key, None))
        if not there:
            self._by_namespace.pop(key.namespace, None)

    def get(self, key: Key) -> Quota | None:
        """Give a quota, None if there is none."""
        return self._by_namespace.get(key.namespace, {}).get(key)

    def of(self, namespace: str) -> Collection[Quota]:
        """Give the quotas of a namespace."""
        return self._by_namespace.get(namespace, {}).values()

    def namespaces(self) -> Collection[str]:
        """Give the namespaces that have quotas."""
        return self._by_namespace.keys()

    def by_names(self) -> Mapping[frozenset[str], Collection[Key]]:
        """Give the quotas that limit the same names, for each set of names that some limit."""
        return self._by_names

    def __iter__(self) -> Iterator[Quota]:
        for there in self._by_namespace.values():
            yield from there.values()

    def __len__(self) -> int:
        return self._count

    def _leave(self, quota: Quota | None) -> None:
        if quota is None:
            return
        self._count -= 1
        alike = self._by_names[quota.asked.names]
        del alike[quota.key]
        if not alike:
            del self._by_names[quota.asked.names]
