"""Label selectors: what they match, and which make no sense (CRA-40 to CRA-48)."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from plugins.tables import row

from kcm_host_clusterrole_aggregation.models import LabelSelector
from kcm_host_clusterrole_aggregation.selectors import InvalidSelector, Matcher, compile_selector

LONGEST_NAME = "n" * 63
LONGEST_PREFIX = ".".join(["p" * 62] * 4) + ".p"


def compiled(manifest: Mapping[str, Any]) -> Matcher:
    """Return the matcher of a selector written as a manifest has it."""
    return compile_selector(msgspec.convert(manifest, LabelSelector), place="here")


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    """Return a selector of one expression; no values are an absent list."""
    requirement: dict[str, Any] = {"key": key, "operator": operator}
    return {"matchExpressions": [requirement | ({"values": list(values)} if values else {})]}


@pytest.mark.parametrize(
    ("selector", "matching", "other"),
    [
        row("equal label", {"matchLabels": {"a": "x"}}, [{"a": "x"}], [{"a": "y"}, {}]),
        row("equal to empty value", {"matchLabels": {"a": ""}}, [{"a": ""}], [{}, {"a": "x"}]),
        row(
            "two labels are and-ed",
            {"matchLabels": {"a": "x", "b": "y"}},
            [{"a": "x", "b": "y"}, {"a": "x", "b": "y", "c": "z"}],
            [{"a": "x"}, {"b": "y"}, {"a": "x", "b": "z"}],
        ),
        row(
            "labels and expressions are and-ed",
            {"matchLabels": {"a": "x"}} | expression("b", "Exists"),
            [{"a": "x", "b": "y"}],
            [{"a": "x"}, {"b": "y"}],
        ),
        row("In", expression("a", "In", "x", "y"), [{"a": "x"}, {"a": "y"}], [{"a": "z"}, {}]),
        row("In empty value", expression("a", "In", ""), [{"a": ""}], [{}, {"a": "x"}]),
        row("NotIn", expression("a", "NotIn", "x"), [{}, {"a": "z"}, {"b": "x"}], [{"a": "x"}]),
        row("NotIn empty value", expression("a", "NotIn", ""), [{}, {"a": "x"}], [{"a": ""}]),
        row("Exists", expression("a", "Exists"), [{"a": ""}, {"a": "x"}], [{}, {"b": "x"}]),
        row("DoesNotExist", expression("a", "DoesNotExist"), [{}, {"b": ""}], [{"a": ""}]),
        row("CRA-40: empty", {}, [{}, {"a": "x"}], []),
        row("empty parts", {"matchLabels": {}, "matchExpressions": []}, [{}, {"a": "x"}], []),
        row("null parts", {"matchLabels": None, "matchExpressions": None}, [{}, {"a": "x"}], []),
        row("labels keep their case", {"matchLabels": {"a": "x"}}, [{"a": "x"}], [{"A": "x"}]),
    ],
)
def test_a_selector_matches(
    selector: Mapping[str, Any], matching: list[dict[str, str]], other: list[dict[str, str]]
) -> None:
    """All requirements must hold, each by the rule of its operator (CRA-40 to CRA-45, CRA-48)."""
    matches = compiled(selector)
    assert [labels for labels in matching + other if matches(labels)] == matching


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        row("unknown operator", expression("a", "Foo", "x"), "operator 'Foo'"),
        row("operator in lower case", expression("a", "in", "x"), "operator 'in'"),
        row("operator of the other selector", expression("a", "Equals", "x"), "operator 'Equals'"),
        row("empty operator", expression("a", ""), "operator ''"),
        row("absent operator", {"matchExpressions": [{"key": "a"}]}, "operator ''"),
        row("In without values", expression("a", "In"), "'In' for label 'a' has no values"),
        row("NotIn without values", expression("a", "NotIn"), "has no values"),
        row(
            "In with null values",
            {"matchExpressions": [{"key": "a", "operator": "In", "values": None}]},
            "has no values",
        ),
        row("Exists with values", expression("a", "Exists", "x"), "'Exists' for label 'a' has"),
        row("DoesNotExist with values", expression("a", "DoesNotExist", ""), "has values"),
        row("absent key", {"matchExpressions": [{"operator": "Exists"}]}, "'' cannot be the name"),
        row("second of two", {"matchLabels": {"a": "x"}} | expression("b", "Foo"), "label 'b'"),
        row("bad value in the set", expression("a", "In", "x", "-"), "'-' cannot be the value"),
        row("bad value outside the set", expression("a", "NotIn", "-"), "'-' cannot be the value"),
    ],
)
def test_an_invalid_selector_is_refused(selector: Mapping[str, Any], said: str) -> None:
    """Operators, keys and values are checked; the message says where (CRA-44, CRA-46)."""
    with pytest.raises(InvalidSelector) as refused:
        compiled(selector)
    assert str(refused.value).startswith("here: ")
    assert said in str(refused.value)


KEYS_RIGHT = {
    "one letter": "a",
    "one digit": "7",
    "upper case": "A.b-C_d",
    "longest": LONGEST_NAME,
    "with prefix": "rbac.authorization.k8s.io/aggregate-to-admin",
    "prefix with dash and digits": "0a-b.1/x",
    "longest prefix": f"{LONGEST_PREFIX}/x",
}
KEYS_WRONG = {
    "empty": "",
    "too long": LONGEST_NAME + "n",
    "begins with dash": "-a",
    "ends with dot": "a.",
    "space": "a b",
    "line end": "a\n",
    "not ascii": "ä",
    "other digits": "\N{ARABIC-INDIC DIGIT ONE}",
    "empty prefix": "/a",
    "empty name": "a/",
    "two slashes": "a/b/c",
    "prefix in upper case": "A/a",
    "prefix with underscore": "a_b/a",
    "prefix with empty part": "a..b/a",
    "prefix ends with dash": "a-/a",
    "prefix too long": f"{LONGEST_PREFIX}p/x",
}
VALUES_RIGHT = {"empty": "", "letter": "x", "mixed": "A_b.C-9", "longest": LONGEST_NAME}
VALUES_WRONG = {
    "too long": LONGEST_NAME + "n",
    "begins with dash": "-x",
    "ends with underscore": "x_",
    "slash": "a/b",
    "space": " ",
    "line end": "x\n",
    "not ascii": "ß",
}


@pytest.mark.parametrize("key", KEYS_RIGHT.values(), ids=KEYS_RIGHT)
def test_qualified_names_are_keys(key: str) -> None:
    """A name of 1 to 63 characters, with or without a DNS prefix up to 253 (CRA-47)."""
    assert compiled({"matchLabels": {key: "x"}})({key: "x"})
    assert compiled(expression(key, "Exists"))({key: ""})


@pytest.mark.parametrize("key", KEYS_WRONG.values(), ids=KEYS_WRONG)
def test_other_keys_are_refused(key: str) -> None:
    """A key that no label could have is an error in labels and in expressions (CRA-47)."""
    for selector in ({"matchLabels": {key: "x"}}, expression(key, "DoesNotExist")):
        with pytest.raises(InvalidSelector, match="cannot be the name of a label"):
            compiled(selector)


@pytest.mark.parametrize("value", VALUES_RIGHT.values(), ids=VALUES_RIGHT)
def test_label_values_are_values(value: str) -> None:
    """Nothing, or up to 63 characters of a name (CRA-47, CRA-48)."""
    assert compiled({"matchLabels": {"a": value}})({"a": value})
    assert compiled(expression("a", "In", "x", value))({"a": value})


@pytest.mark.parametrize("value", VALUES_WRONG.values(), ids=VALUES_WRONG)
def test_other_values_are_refused(value: str) -> None:
    """A value that no label could have is an error, also where it would not match (CRA-47)."""
    for selector in ({"matchLabels": {"a": value}}, expression("a", "NotIn", value)):
        with pytest.raises(InvalidSelector, match="cannot be the value of label 'a'"):
            compiled(selector)


NAME = 'at most 63 letters, digits, "-", "_" and ".", beginning and ending with a letter or digit'


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        row(
            "key",
            expression("-", "Exists"),
            f"'-' cannot be the name of a label; write {NAME}, where wanted after a lower-case "
            "DNS name and '/'",
        ),
        row(
            "value",
            expression("a", "In", "-"),
            f"'-' cannot be the value of label 'a'; write nothing, or {NAME}",
        ),
        row(
            "no values",
            expression("a", "In"),
            "'In' for label 'a' has no values; give at least one, or ask for 'Exists' or "
            "'DoesNotExist'",
        ),
        row(
            "values",
            expression("a", "Exists", "x"),
            "'Exists' for label 'a' has values; leave them out, or ask for 'In' or 'NotIn'",
        ),
        row(
            "operator",
            expression("a", "Foo"),
            "operator 'Foo' for label 'a' is not supported; write 'In', 'NotIn', 'Exists' or "
            "'DoesNotExist'",
        ),
    ],
)
def test_the_error_for_an_invalid_selector_has_a_remedy(
    selector: dict[str, Any], said: str
) -> None:
    """Place, fact and remedy, for the person who corrects the role (CRA-44 to CRA-47)."""
    with pytest.raises(InvalidSelector) as refusal:
        compiled(selector)
    assert str(refusal.value).partition(": ")[2] == said
