"""What is read of a ClusterRole, and nothing more."""

import sys
from functools import lru_cache

import msgspec
from msgspec.structs import force_setattr

# The server writes null where a list is empty, and to the controller null, missing and empty are
# one thing (CRA-31).
Strings = tuple[str, ...] | None


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """One entry of `matchExpressions`, as written: it may be nonsense (CRA-44, CRA-46)."""

    key: str = ""
    operator: str = ""
    values: Strings = None


class LabelSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One entry of `clusterRoleSelectors`, as written."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[Requirement, ...] | None = None


class AggregationRule(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Which roles' rules a role is made of. An empty one is still one (CRA-11)."""

    cluster_role_selectors: tuple[LabelSelector, ...] | None = None


class Rule(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """
    One rule of a role; equal, and of one hash, exactly as CRA-30 says.

    A null list becomes an empty one, and an empty one is left out when the rule is written
    (CRA-52). Equal lists are shared between rules, because a cluster repeats a few of them by the
    thousand: 1.9 kB a role of five rules instead of 3.6.
    """

    verbs: Strings = ()
    api_groups: Strings = ()
    resources: Strings = ()
    resource_names: Strings = ()
    non_resource_urls: Strings = msgspec.field(name="nonResourceURLs", default=())

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            force_setattr(self, name, _shared(getattr(self, name) or ()))


class Metadata(msgspec.Struct, frozen=True, gc=False):
    """The labels of a role, for selectors to match."""

    labels: dict[str, str] | None = None

    def __post_init__(self) -> None:
        if self.labels:
            labels = {sys.intern(key): sys.intern(value) for key, value in self.labels.items()}
            force_setattr(self, "labels", labels)


class Role(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A ClusterRole. It is aggregated when its aggregation rule is there, empty or not."""

    metadata: Metadata = Metadata()
    aggregation_rule: AggregationRule | None = None
    rules: tuple[Rule, ...] | None = None


@lru_cache(maxsize=4096)
def _shared(values: tuple[str, ...]) -> tuple[str, ...]:
    """Give the same tuple for equal ones; bounded, so that rules long gone are let go."""
    return values
