"""The aggregation: which rules a role gets, in which order, and who owns them."""

from parity.scenario import stories
from parity.scenarios.roles import R1, R2, R3, R5, R9, edit, having, relabel, role, rule, where
from parity.steps import Look, Quiet, apply, delete

made_of = stories("clusterrole-aggregation")
#: Where the number of writes is chance: several roles feed each other.
uncounted = stories("clusterrole-aggregation", counted=False)
AX, BY = having(a="x"), having(b="y")
S1 = role("s1", R1, R2, labels={"a": "x"})
AGG = role("agg", selectors=[AX])
#: The role and its source, and a wait until it has its rules.
FILLED = (S1, AGG, Quiet())
LOGS_OF_ONE = {"apiGroups": ["", "apps"], "resources": ["pods/log"], "resourceNames": ["one"]}
#: A core rule, one with names, one without resources: each with only some of the five lists.
KINDS_OF_RULES = (
    R1,
    {"verbs": ["get", "list"], **LOGS_OF_ONE},
    {"verbs": ["get"], "nonResourceURLs": ["/metrics", "/healthz/*"]},
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["list", "get"], **LOGS_OF_ONE},
)

SCENARIOS = (
    made_of("two rules of one role", "CRA-T1, CRA-50, CRA-51", S1, AGG),
    made_of("all are there at the start", "CRA-T1, CRA-15", before=(S1, AGG)),
    made_of(
        "nothing to write",
        "CRA-T2, CRA-27",
        role("agg", R1, R2, selectors=[AX]),
        before=(S1, role("old", R1, R2, selectors=[AX])),
    ),
    made_of("another order is written", "CRA-T3, CRA-27", S1, role("agg", R2, R1, selectors=[AX])),
    made_of("rules of a hand are replaced", "CRA-T4, CRA-55", S1, role("agg", R9, selectors=[AX])),
    made_of(
        "in the order of names",
        "CRA-T5, CRA-24",
        *(
            role(name, rule(f"of-{number}"), labels={"a": "x"})
            for number, name in enumerate(
                ("zeta", "alpha", "b-2", "b.2", "b2", "b:2", "B2", "b10", "\u00e9")
            )
        ),
        AGG,
    ),
    uncounted(
        "selector after selector",
        "CRA-T6, CRA-23, CRA-42",
        role("agg", selectors=[BY, AX]),
        S1,
        role("s0", R3, labels={"b": "y"}),
        role("s9", R5, R3, labels={"a": "x", "b": "y"}),
    ),
    made_of(
        "each rule once, where it is first",
        "CRA-T7, CRA-T8, CRA-26",
        role("s1", R1, R1, R2, labels={"a": "x"}),
        role("s2", R3, R1, labels={"a": "x"}),
        role("agg", selectors=[AX, AX]),
    ),
    made_of(
        "rules that are almost equal are all taken",
        "CRA-30",
        role("s1", rule("pods", "get", "list"), R1, labels={"a": "x"}),
        role("s2", rule("pods", "list", "get"), rule("pods"), labels={"a": "x"}),
        AGG,
    ),
    made_of(
        "kinds of rules", "CRA-T28, CRA-52", role("s1", *KINDS_OF_RULES, labels={"a": "x"}), AGG
    ),
    made_of(
        "nothing from itself",
        "CRA-T9, CRA-25",
        S1,
        role("agg", R5, labels={"a": "x"}, selectors=[AX]),
    ),
    made_of(
        "operators",
        "CRA-T15, CRA-T16, CRA-45",
        role("none", R1, labels={"here": ""}),
        role("empty", R2, labels={"here": "", "a": ""}),
        role("ax", R3, labels={"here": "", "a": "x"}),
        role("az", R5, labels={"here": "", "a": "z"}),
        role("in", selectors=[where(("a", "In", ["x", "y"]))]),
        role("in-empty", selectors=[where(("a", "In", ["", "q"]))]),
        role("not-in", selectors=[where(("here", "Exists"), ("a", "NotIn", ["x"]))]),
        role("exists", selectors=[where(("a", "Exists"))]),
        role("absent", selectors=[where(("here", "Exists"), ("a", "DoesNotExist"))]),
    ),
    made_of(
        "an empty value is a value",
        "CRA-43, CRA-48",
        role("with", R1, labels={"a": ""}),
        role("without", R2, labels={"b": "y"}),
        role("agg", selectors=[having(a="")]),
    ),
    made_of(
        "labels and expressions must all hold",
        "CRA-42",
        role("both", R1, labels={"a": "x", "b": "y"}),
        role("one", R2, labels={"a": "x"}),
        role("agg", selectors=[AX | where(("b", "Exists"))]),
    ),
    made_of("a selector without a match", "CRA-31", role("agg", selectors=[AX])),
    uncounted(
        "rules nobody supplies stay when a hand wrote them",
        "CRA-56, CRA-T12",
        role("agg", R9, selectors=[AX]),
        Quiet(),
        role("other", R1),
    ),
    made_of(
        "the last source goes and the rules with it",
        "CRA-53, CRA-56",
        S1,
        AGG,
        Look("filled"),
        delete("clusterroles/$s1"),
    ),
    made_of(
        "a source loses its label",
        "CRA-T25",
        S1,
        role("s2", R3, labels={"a": "x"}),
        AGG,
        Quiet(),
        relabel("s1", a=None),
        Look("without s1"),
        relabel("s1", a="x"),
        Look("with s1"),
        relabel("s2", a="y"),
    ),
    made_of(
        "a source changes its rules",
        "CRA-10, CRA-27",
        *FILLED,
        edit("s1", rules=[R2, R1]),
        Look("turned round"),
        edit("s1", rules=[R9]),
        Look("replaced"),
        edit("s1", rules=None),
    ),
    made_of(
        "fields that do not matter",
        "CRA-10, CRA-27",
        *FILLED,
        edit("s1", metadata={"annotations": {"a": "b"}}),
        edit("agg", metadata={"labels": {"some": "label"}}),
        Quiet(),
        role("plain", R9),
        edit("plain", rules=[R1]),
        delete("clusterroles/$plain"),
    ),
    made_of(
        "a hand empties the rules",
        "CRA-93",
        *FILLED,
        edit("agg", rules=[]),
        Look("filled again"),
        edit("agg", rules=[R9]),
    ),
    uncounted(
        "another manager applies rules",
        "CRA-55, CRA-56, CRA-58",
        *FILLED,
        apply("clusterroles/$agg", {"rules": [R9]}, manager="deployer"),
        Look("taken back"),
        apply(
            "clusterroles/$agg", {"metadata": {"labels": {"owner": "deployer"}}}, manager="deployer"
        ),
        Look("labelled"),
        delete("clusterroles/$s1"),
    ),
    uncounted(
        "applied with rules and nothing to put there",
        "CRA-56",
        apply(
            "clusterroles/$agg",
            {"aggregationRule": {"clusterRoleSelectors": [AX]}, "rules": [R9]},
            manager="deployer",
        ),
        Look("as applied"),
        S1,
        Look("filled"),
        delete("clusterroles/$s1"),
    ),
)
