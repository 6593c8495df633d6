"""Requirements of scopes and scope selectors, and which are malformed (RQ-72 to RQ-92)."""

import pytest
from plugins.tables import row

from kcm_host_resourcequota.scopes import Requirement, Selector, label_matches, selector_for

LONGEST = "n" * 63
LABEL = (
    "write a class name of at most 63 letters, digits, '-', '_' and '.', "
    "beginning and ending with a letter or digit"
)
OTHER_SCOPES = [
    *("Terminating", "NotTerminating", "BestEffort", "NotBestEffort"),
    *("CrossNamespacePodAffinity", "NoSuchScope", ""),
]
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def requirement(scope: str, operator: str, *values: str) -> Requirement:
    """Return one expression of a scope selector."""
    return Requirement(scope=scope, operator=operator, values=values)


def test_scopes_and_expressions_are_one_conjunction() -> None:
    """Each plain scope is one that exists; the expressions follow it (RQ-72)."""
    high = requirement("PriorityClass", "In", "high")
    assert selector_for(["Terminating", "PriorityClass"], [high]) == Selector(
        (requirement("Terminating", "Exists"), requirement("PriorityClass", "Exists"), high)
    )


@pytest.mark.parametrize(
    ("operator", "values", "met_by"),
    [
        row("In", "In", ["x", "y"], ["x", "y"]),
        row("In, the empty name", "In", [""], [""]),
        row("NotIn", "NotIn", ["x", "y"], [None, "", "z"]),
        row("NotIn, the empty name", "NotIn", [""], [None, "x", "y", "z"]),
        row("Exists", "Exists", [], ["", "x", "y", "z"]),
        row("RQ-84: Exists ignores values", "Exists", ["x"], ["", "x", "y", "z"]),
        row("DoesNotExist", "DoesNotExist", [], [None]),
        row("unknown", "Foo", ["x"], []),
        row("operators have one spelling", "in", ["x"], []),
    ],
)
def test_operators(operator: str, values: list[str], met_by: list[str | None]) -> None:
    """An absent label is in no set, so it is outside every one (RQ-84, RQ-90)."""
    spec = requirement("PriorityClass", operator, *values)
    every = [None, "", "x", "y", "z"]
    assert [value for value in every if label_matches(spec, value)] == met_by


@pytest.mark.parametrize("scope", ["PriorityClass", "VolumeAttributesClass"])
@pytest.mark.parametrize(
    ("operator", "values", "said"),
    [
        row("unknown", "Foo", ["x"], "unknown operator 'Foo'; write 'In'"),
        row("no operator", "", [], "unknown operator ''; write"),
        row("lower case", "exists", [], "unknown operator 'exists'; write"),
        row("In nothing", "In", [], "no values beside 'In'; give at least one"),
        row("NotIn nothing", "NotIn", [], "no values beside 'NotIn'; give"),
        row("too many", "DoesNotExist", ["x"], "values beside 'DoesNotExist'; leave"),
        row("too long", "In", [LONGEST + "n"], f"asks for '{LONGEST}n', which"),
        row("second of two", "NotIn", ["x", "-y"], "asks for '-y', which"),
        row("space", "In", ["a b"], "asks for 'a b', which no selector"),
        row("slash", "In", ["a/b"], LABEL),
        row("line end", "In", ["a\n"], r"asks for 'a\n', which"),
        row("not ASCII", "In", ["ä"], "asks for 'ä', which"),
        row("ends with a point", "In", ["a."], "asks for 'a.', which"),
    ],
)
def test_malformed_requirements_are_explained(
    scope: str, operator: str, values: list[str], said: str
) -> None:
    """The quota counts nothing, and the text has the reason (RQ-73, RQ-92, RQ-B29, D-3)."""
    selector = selector_for([], [requirement(scope, operator, *values)])
    assert selector.malformed.startswith(f"the scope selector's requirement on '{scope}' ")
    assert said in selector.malformed


@pytest.mark.parametrize("scope", ["PriorityClass", "VolumeAttributesClass"])
@pytest.mark.parametrize(
    ("operator", "values"),
    [
        row("longest", "In", [LONGEST]),
        row("all kinds of label value", "In", ["", "x", "A_b.C-9"]),
        row("NotIn", "NotIn", ["system-node-critical"]),
        row("DoesNotExist", "DoesNotExist", []),
        row("Exists", "Exists", []),
        row("RQ-84, RQ-88: Exists ignores values", "Exists", ["x", "no label!"]),
    ],
)
def test_valid_requirements(scope: str, operator: str, values: list[str]) -> None:
    """Label values are valid, and values of `Exists` are ignored (RQ-92)."""
    assert selector_for([], [requirement(scope, operator, *values)]).malformed == ""


@pytest.mark.parametrize("scope", OTHER_SCOPES)
def test_other_scopes_have_no_operator(scope: str) -> None:
    """Invalid operators and values have no effect there (RQ-86, RQ-87)."""
    spec = [requirement(scope, operator, "no label!") for operator in (*OPERATORS, "Foo")]
    assert selector_for([scope], [*spec, requirement(scope, "In")]).malformed == ""


def test_the_first_malformed_requirement_is_described() -> None:
    """One sentence for a reader; after its correction the next one (RQ-B29)."""
    right = requirement("PriorityClass", "In", "high")
    wrong = [requirement("VolumeAttributesClass", "In"), requirement("PriorityClass", "Foo")]
    selector = selector_for(["Terminating"], [right, *wrong])
    assert "'VolumeAttributesClass' has no values" in selector.malformed
    assert selector.requirements == (requirement("Terminating", "Exists"), right, *wrong)
