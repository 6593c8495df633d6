"""ResourceQuota objects as they are decoded, and the index of all quotas."""

from collections.abc import Collection, Iterator, Mapping

import msgspec

from kcm_host.api import Key, Kind, Quantity
from kcm_host_resourcequota.evaluators.base import Evaluator
from kcm_host_resourcequota.scopes import (
    Requirement,
    ScopeAttributes,
    ScopeFilter,
    Selector,
    selector_for,
)

RESOURCE_QUOTA = Kind(group="", version="v1", name="ResourceQuota", resource="resourcequotas")

# The server omits empty maps and lists; null, missing and empty have one meaning (RQ-50).
ResourceTexts = dict[str, str] | None


class Metadata(msgspec.Struct, frozen=True, gc=False):
    """The identity of a quota; one that is recreated under the same name has another `uid`."""

    uid: str = ""


class ScopeSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The expressions of `spec.scopeSelector`, as the user wrote them."""

    match_expressions: tuple[Requirement, ...] | None = None


class Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The limits that the user sets."""

    hard: ResourceTexts = None
    scopes: tuple[str, ...] | None = None
    scope_selector: ScopeSelector | None = None


class Status(msgspec.Struct, frozen=True, gc=False):
    """The status that the controller and admission write."""

    hard: ResourceTexts = None
    used: ResourceTexts = None


class QuotaObject(msgspec.Struct, frozen=True, gc=False):
    """
    One ResourceQuota.

    An invalid quantity makes the object undecodable for the host, so the last decodable version
    stays in the store (RQ-75).
    """

    metadata: Metadata = Metadata()
    spec: Spec = Spec()
    status: Status = Status()

    def __post_init__(self) -> None:
        for texts in (self.spec.hard, self.status.hard, self.status.used):
            nano_amounts(texts)


def nano_amounts(texts: ResourceTexts) -> Mapping[str, int]:
    """Return the amounts of a resource list in nano units; raise `QuantityError` (RQ-270)."""
    return {name: Quantity.parse(text).nano for name, text in (texts or {}).items()}


#: Objects may name an unlimited number of classes, so each spec caches at most this many results.
MAX_CACHED_MATCHES = 1000


class ParsedSpec:
    """The parsed `spec`; versions of a quota with equal specs share one."""

    __slots__ = ("_matches_cache", "hard", "names", "raw", "selector")

    def __init__(self, spec: Spec) -> None:
        self.raw = spec
        self.hard: Mapping[str, int] = nano_amounts(spec.hard)
        self.names = frozenset(self.hard)
        expressions = spec.scope_selector.match_expressions if spec.scope_selector else ()
        self.selector: Selector = selector_for(spec.scopes or (), expressions or ())
        self._matches_cache: dict[tuple[str, ScopeAttributes], bool] = {}

    def selects(self, evaluator: Evaluator) -> ScopeFilter:
        """
        Return the function that tells whether objects with some scope attributes are in scope.

        Without scopes all objects are (RQ-72); with a malformed selector none is (RQ-B29).
        """
        if not self.selector.requirements:
            return _select_all
        if self.selector.malformed:
            return _select_none
        return lambda attributes: self._matches(evaluator, attributes)

    def _matches(self, evaluator: Evaluator, attributes: ScopeAttributes) -> bool:
        cache_key = (evaluator.resource, attributes)
        result = self._matches_cache.get(cache_key)
        if result is None:
            requirements = self.selector.requirements
            if len(self._matches_cache) >= MAX_CACHED_MATCHES:
                self._matches_cache.clear()
            result = all(evaluator.matches(attributes, each) for each in requirements)
            self._matches_cache[cache_key] = result
        return result


def _select_all(_attributes: ScopeAttributes) -> bool:
    return True


def _select_none(_attributes: ScopeAttributes) -> bool:
    return False


class Quota(msgspec.Struct, frozen=True, eq=False):
    """One version of one quota: its parsed spec and its present status."""

    key: Key
    uid: str
    spec: ParsedSpec
    #: `status.hard` in nano units; None when the status has none.
    status_hard: Mapping[str, int] | None
    used: Mapping[str, Quantity]
    #: `used` in nano units.
    used_nano: Mapping[str, int]

    @property
    def is_current(self) -> bool:
        """Return whether `status.hard` has the numbers of `spec.hard` (RQ-25)."""
        return (self.status_hard or {}) == self.spec.hard

    @property
    def names(self) -> Collection[str]:
        """Return all names that the spec limits or that admission still enforces."""
        return self.spec.hard.keys() | (self.status_hard or {}).keys()


class QuotaIndex:
    """All quotas, by namespace and by the names they limit; updated by the watch of quotas."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[Key, Quota]] = {}
        self._by_names: dict[frozenset[str], dict[Key, None]] = {}
        self._count = 0

    def put(self, key: Key, obj: QuotaObject) -> Quota:
        """Store the present version of a quota, and return it parsed."""
        namespace = self._by_namespace.setdefault(key.namespace, {})
        old = namespace.get(key)
        self._unindex(old)
        is_same_spec = old is not None and old.spec.raw == obj.spec
        used = {name: Quantity.parse(text) for name, text in (obj.status.used or {}).items()}
        namespace[key] = quota = Quota(
            key=key,
            uid=obj.metadata.uid,
            spec=old.spec if old is not None and is_same_spec else ParsedSpec(obj.spec),
            status_hard=nano_amounts(obj.status.hard) if obj.status.hard else None,
            used=used,
            used_nano={name: each.nano for name, each in used.items()},
        )
        self._by_names.setdefault(quota.spec.names, {})[key] = None
        self._count += 1
        return quota

    def remove(self, key: Key) -> None:
        """Remove a quota that was deleted."""
        namespace = self._by_namespace.get(key.namespace, {})
        self._unindex(namespace.pop(key, None))
        if not namespace:
            self._by_namespace.pop(key.namespace, None)

    def get(self, key: Key) -> Quota | None:
        """Return a quota, None if there is none."""
        return self._by_namespace.get(key.namespace, {}).get(key)

    def in_namespace(self, namespace: str) -> Collection[Quota]:
        """Return the quotas of a namespace."""
        return self._by_namespace.get(namespace, {}).values()

    def namespaces(self) -> Collection[str]:
        """Return the namespaces that have quotas."""
        return self._by_namespace.keys()

    def by_names(self) -> Mapping[frozenset[str], Collection[Key]]:
        """Return the keys of quotas, grouped by the set of names that they limit."""
        return self._by_names

    def __iter__(self) -> Iterator[Quota]:
        for namespace in self._by_namespace.values():
            yield from namespace.values()

    def __len__(self) -> int:
        return self._count

    def _unindex(self, quota: Quota | None) -> None:
        if quota is None:
            return
        self._count -= 1
        same_names = self._by_names[quota.spec.names]
        del same_names[quota.key]
        if not same_names:
            del self._by_names[quota.spec.names]
