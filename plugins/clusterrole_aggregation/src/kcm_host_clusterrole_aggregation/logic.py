"""Which rules an aggregated role should have, and how they are written: values in, values out."""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from kcm_host.api import Key
from kcm_host_clusterrole_aggregation.model import AggregationRule, Role, Rule
from kcm_host_clusterrole_aggregation.selectors import Matcher, compile_selector

#: Of a role without labels.
NO_LABELS: Mapping[str, str] = {}


def matchers_of(name: str, aggregation: AggregationRule) -> Iterator[Matcher]:
    """
    Give the selectors of the role called `name` one after the other, in the order written.

    Raises `BadSelector` at the first that makes no sense, naming role and position.
    """
    for position, selector in enumerate(aggregation.cluster_role_selectors or ()):
        place = f"clusterrole {name!r}, aggregationRule.clusterRoleSelectors[{position}]"
        yield compile_selector(selector, place=place)


def collect_rules(
    name: str, aggregation: AggregationRule, roles: Sequence[tuple[Key, Role]]
) -> tuple[Rule, ...]:
    """
    Give the rules that the role called `name` should have, out of all `roles` (CRA-23 to CRA-26).

    Selector after selector, and within one by name, each rule where it occurs first; the role
    gives nothing to itself. Raises `BadSelector`.
    """
    collected: dict[Rule, None] = {}
    for matches in matchers_of(name, aggregation):
        sources = [
            (key.name, role.rules or ())
            for key, role in roles
            if matches(role.metadata.labels or NO_LABELS) and key.name != name
        ]
        # Strings are ordered by code point, which is the order of their UTF-8 bytes (CRA-24).
        for _, rules in sorted(sources, key=itemgetter(0)):
            collected.update(dict.fromkeys(rules))
    return tuple(collected)


def apply_body(rules: Sequence[Rule]) -> dict[str, Any]:
    """
    Give the body of the apply, but for what the writer adds (CRA-51 to CRA-53).

    No rules are no key at all: the server then clears what this controller applied before, and
    leaves what somebody else wrote (CRA-56).
    """
    return {"rules": msgspec.to_builtins(rules)} if rules else {}
