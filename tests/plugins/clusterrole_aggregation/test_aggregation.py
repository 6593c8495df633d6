"""Which rules an aggregated role gets, in which order, and how they are written."""

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from plugins.tables import row

from kcm_host.api import Key
from kcm_host_clusterrole_aggregation.aggregation import apply_body, collect_rules
from kcm_host_clusterrole_aggregation.models import AggregationRule, Role, Rule
from kcm_host_clusterrole_aggregation.selectors import InvalidSelector

Manifest = Mapping[str, Any]

R1 = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
R2 = {"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]}
R3 = {"verbs": ["list"], "nonResourceURLs": ["/healthz"]}
R5 = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
AX: Manifest = {"matchLabels": {"a": "x"}}
BY: Manifest = {"matchLabels": {"b": "y"}}
ANY: Manifest = {}
FOO: Manifest = {"matchExpressions": [{"key": "a", "operator": "Foo"}]}


def source(name: str, labels: Mapping[str, str] | None, *rules: Manifest) -> dict[str, Any]:
    """Return the manifest of a role with these labels and rules."""
    return {"metadata": {"name": name, "labels": labels}, "rules": list(rules)}


def decoded(manifest: Manifest) -> Role:
    """Return a role as the host decodes it from the wire."""
    return msgspec.json.decode(json.dumps(manifest), type=Role)


def collected(name: str, selectors: Sequence[Manifest] | None, roles: Sequence[Manifest]) -> Any:
    """Return the rules collected for role `name`, as manifests have them."""
    aggregation = msgspec.convert({"clusterRoleSelectors": selectors}, AggregationRule)
    stored = [(Key(role["metadata"]["name"]), decoded(role)) for role in roles]
    rules = collect_rules(name, aggregation, stored)
    return json.loads(json.dumps(apply_body(rules))).get("rules", [])


@pytest.mark.parametrize(
    ("selectors", "roles", "expected"),
    [
        row("CRA-T1: the rules of a match", [AX], [source("s1", {"a": "x"}, R1, R2)], [R1, R2]),
        row(
            "CRA-T5: by name",
            [AX],
            [source("zeta", {"a": "x"}, R1), source("alpha", {"a": "x"}, R2)],
            [R2, R1],
        ),
        row(
            "CRA-T6: selector after selector",
            [BY, AX],
            [source("s1", {"a": "x"}, R1), source("s2", {"b": "y"}, R2)],
            [R2, R1],
        ),
        row("CRA-T7: doubles in a role", [AX], [source("s1", {"a": "x"}, R1, R1, R2)], [R1, R2]),
        row(
            "CRA-T8: doubles in two roles",
            [AX],
            [source("s1", {"a": "x"}, R1), source("s2", {"a": "x"}, R1, R3)],
            [R1, R3],
        ),
        row(
            "doubles over selectors keep the first place",
            [BY, AX],
            [source("s1", {"a": "x"}, R1, R2), source("s2", {"b": "y"}, R2)],
            [R2, R1],
        ),
        row(
            "CRA-T9: nothing from itself",
            [AX],
            [source("agg", {"a": "x"}, R5), source("s1", {"a": "x"}, R1)],
            [R1],
        ),
        row(
            "CRA-T10: everything",
            [ANY],
            [source("s2", {"b": ""}, R2), source("s1", None, R1)],
            [R1, R2],
        ),
        row("CRA-T11: an empty list of selectors", [], [source("s1", {"a": "x"}, R1)], []),
        row("no list of selectors", None, [source("s1", {"a": "x"}, R1)], []),
        row("CRA-30: a wildcard is plain text", [ANY], [source("s1", None, R5, R1)], [R5, R1]),
        row("a match without rules", [AX], [source("s1", {"a": "x"})], []),
        row(
            "CRA-T15: NotIn takes roles without the label",
            [{"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x"]}]}],
            [
                source("s3", {"a": "z"}, R3),
                source("s2", {"a": "x"}, R2),
                source("s1", {}, R1),
            ],
            [R1, R3],
        ),
        row(
            "CRA-T16: Exists takes the empty value",
            [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}],
            [source("s1", {"a": ""}, R1)],
            [R1],
        ),
        row(
            "aggregated roles are sources too",
            [AX],
            [source("s1", {"a": "x"}, R1) | {"aggregationRule": {"clusterRoleSelectors": [BY]}}],
            [R1],
        ),
        row(
            "roles that are being deleted are sources too",
            [AX],
            [
                {
                    "metadata": {
                        "name": "s1",
                        "labels": {"a": "x"},
                        "deletionTimestamp": "2026-01-01T00:00:00Z",
                    },
                    "rules": [R1],
                }
            ],
            [R1],
        ),
    ],
)
def test_rules_are_collected(
    selectors: Sequence[Manifest] | None, roles: Sequence[Manifest], expected: Any
) -> None:
    """Selectors in order, roles by name, each rule once, where it is first (CRA-23 to CRA-26)."""
    assert collected("agg", selectors, roles) == expected
    assert collected("agg", selectors, roles[::-1]) == expected


def test_names_are_ordered_by_their_bytes() -> None:
    """Sources come in the order of their names' UTF-8 bytes (CRA-24)."""
    names = ["a-b", "a.b", "a0", "a:b", "aB", "a_b", "ab", "aé", "a中", "a\uff5e", "a\U0001f600"]
    rules = [R1 | {"resources": [name]} for name in names]
    roles = [source(name, None, rule) for name, rule in zip(names, rules, strict=True)]
    random.Random(1).shuffle(roles)
    assert collected("agg", [ANY], roles) == rules
    assert names == sorted(names, key=str.encode)


def test_an_invalid_selector_stops_the_collection() -> None:
    """One senseless selector fails all, with role, position, fact and remedy (CRA-23)."""
    with pytest.raises(InvalidSelector) as refused:
        collected("agg", [AX, FOO, AX], [source("s1", {"a": "x"}, R1)])
    assert str(refused.value) == (
        "clusterrole 'agg', aggregationRule.clusterRoleSelectors[1]: operator 'Foo' for label 'a' "
        "is not supported; write 'In', 'NotIn', 'Exists' or 'DoesNotExist'"
    )


FULL = {
    "verbs": ["get", "list"],
    "apiGroups": ["", "apps"],
    "resources": ["pods", "deployments"],
    "resourceNames": ["a", "b"],
    "nonResourceURLs": ["/x", "/y"],
}


def rule(manifest: Manifest) -> Rule:
    """Return a rule as the host decodes it from the wire."""
    return msgspec.json.decode(json.dumps(manifest), type=Rule)


@pytest.mark.parametrize("name", FULL)
def test_order_and_content_of_each_list_count(name: str) -> None:
    """Rules differ when one list differs, be it in order alone or in case (CRA-30)."""
    one, two = FULL[name]
    for other in ([two, one], [one], [one, two, two], [one, two.upper()], []):
        assert rule(FULL) != rule(FULL | {name: other})


@pytest.mark.parametrize("name", FULL)
def test_null_missing_and_empty_lists_are_equal(name: str) -> None:
    """A list that is null, missing or empty makes no difference (CRA-30)."""
    missing = {key: value for key, value in FULL.items() if key != name}
    forms = [rule(missing), rule(missing | {name: None}), rule(missing | {name: []})]
    assert len(set(forms)) == 1
    assert [json.loads(json.dumps(apply_body([form]))) for form in forms] == [
        {"rules": [missing]}
    ] * 3


@pytest.mark.parametrize(
    ("rules", "body"),
    [
        row("CRA-T28: only lists that hold something", [R1], {"rules": [R1]}),
        row("every list", [FULL], {"rules": [FULL]}),
        row("a rule without anything", [{}], {"rules": [{}]}),
        row("CRA-53: no rules, no key", [], {}),
    ],
)
def test_the_body_of_the_apply(rules: Sequence[Manifest], body: Manifest) -> None:
    """The body has the rules alone, each with its non-empty lists (CRA-51 to CRA-53)."""
    written = apply_body([rule(each) for each in rules])
    assert json.loads(json.dumps(written)) == body


@pytest.mark.parametrize(
    ("manifest", "aggregated"),
    [
        row("missing", {}, False),
        row("null", {"aggregationRule": None}, False),
        row("empty", {"aggregationRule": {}}, True),
        row("null selectors", {"aggregationRule": {"clusterRoleSelectors": None}}, True),
        row("empty selectors", {"aggregationRule": {"clusterRoleSelectors": []}}, True),
    ],
)
def test_an_empty_aggregation_rule_is_one(manifest: Manifest, *, aggregated: bool) -> None:
    """A role is aggregated when the rule is there, whatever is in it (CRA-11)."""
    assert (decoded(manifest).aggregation_rule is not None) is aggregated


def test_fields_that_are_not_read_make_no_difference() -> None:
    """Annotations, versions and managers do not change what the host compares (Difference b)."""
    role = source("s1", {"a": "x"}, R1)
    touched = {
        "metadata": role["metadata"]
        | {"resourceVersion": "2", "annotations": {"a": "b"}, "managedFields": []},
        "rules": role["rules"],
    }
    assert decoded(touched) == decoded(role)
    assert decoded(source("s1", {"a": "y"}, R1)) != decoded(role)
