"""The fields read of ClusterRoles."""

import sys
from functools import lru_cache

import msgspec
from msgspec.structs import force_setattr

# The server writes null for an empty list. Null, missing and empty mean the same (CRA-31).
Strings = tuple[str, ...] | None


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """One entry of `matchExpressions` as written, valid or not (CRA-44, CRA-46)."""

    key: str = ""
    operator: str = ""
    values: Strings = None


class LabelSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One entry of `clusterRoleSelectors`, as written."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[Requirement, ...] | None = None


class AggregationRule(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The selectors of the roles whose rules are collected; it may be empty (CRA-11)."""

    cluster_role_selectors: tuple[LabelSelector, ...] | None = None


class Rule(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """
    One rule of a role; equality and hash follow CRA-30.

    A null list becomes an empty one, and an empty one is left out when the rule is written
    (CRA-52). Equal lists are shared between rules, because a cluster has the same few lists in
    thousands of rules: 1.9 kB for a role of five rules instead of 3.6.
    """

    verbs: Strings = ()
    api_groups: Strings = ()
    resources: Strings = ()
    resource_names: Strings = ()
    non_resource_urls: Strings = msgspec.field(name="nonResourceURLs", default=())

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            force_setattr(self, name, _interned(getattr(self, name) or ()))


class Metadata(msgspec.Struct, frozen=True, gc=False):
    """The labels of a role, which selectors match."""

    labels: dict[str, str] | None = None

    def __post_init__(self) -> None:
        if self.labels:
            labels = {sys.intern(key): sys.intern(value) for key, value in self.labels.items()}
            force_setattr(self, "labels", labels)


class Role(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A ClusterRole; with an aggregation rule, empty or not, it is aggregated."""

    metadata: Metadata = Metadata()
    aggregation_rule: AggregationRule | None = None
    rules: tuple[Rule, ...] | None = None


@lru_cache(maxsize=4096)
def _interned(values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the same tuple for equal ones; the cache is bounded, so that unused ones are freed."""
    return values
