"""The aggregation: chains, roles that come and go, faults, and what concerns all roles."""

from functools import partial

from parity.scenario import Cluster, Scenario
from parity.scenarios.clusterrole_aggregation import AGG, AX, FILLED, S1, made_of, uncounted
from parity.scenarios.roles import R1, R2, R3, R5, R9, edit, having, relabel, role, rule, where
from parity.steps import RESTART, Look, Machine, Quiet, Refuse, delete

alone = partial(uncounted, alone=True)
PROXIED = Cluster(proxied=True)
TO_VIEW = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
DEFAULT_ROLES = ("clusterroles/admin", "clusterroles/edit", "clusterroles/view")
CHAIN = (
    role("admin", selectors=[having(c="edit")]),
    role("edit", labels={"c": "edit"}, selectors=[having(c="view"), having(c="more")]),
    role("view", labels={"c": "view"}, selectors=[having(c="source")]),
    role("more", R9, labels={"c": "more"}),
)
MUTUAL = (
    role("m1", labels={"m": "1"}, selectors=[having(m="2")]),
    role("m2", labels={"m": "2"}, selectors=[having(m="1")]),
)


def refused(code: int) -> Scenario:
    """Return a scenario in which the apply is refused three times."""
    return made_of(
        f"an answer {code} is retried",
        "CRA-63, CRA-70, CRA-T22",
        S1,
        Refuse("clusterroles/$agg", code, 3),
        AGG,
        cluster=PROXIED,
    )


SCENARIOS = (
    uncounted(
        "a chain settles",
        "CRA-16, CRA-T24",
        *CHAIN,
        Look("first"),
        role("s1", R1, labels={"c": "source"}),
        Look("with a source"),
        role("s2", R2, labels={"c": "source"}),
        Look("with two"),
        delete("clusterroles/$s1"),
    ),
    uncounted(
        "a chain at the start",
        "CRA-15, CRA-16, CRA-T24",
        before=(*CHAIN, role("s1", R1, labels={"c": "source"})),
    ),
    uncounted(
        "two that select each other keep what they have",
        "CRA-94",
        *MUTUAL,
        role("source", R1, labels={"m": "1"}),
        Look("with the source"),
        delete("clusterroles/$source"),
    ),
    made_of(
        "no more an aggregated role",
        "CRA-12, CRA-22",
        *FILLED,
        edit("agg", aggregationRule=None),
        edit("s1", rules=[R9]),
        Look("as it was"),
        edit("agg", aggregationRule={"clusterRoleSelectors": [AX]}),
    ),
    made_of(
        "another selector",
        "CRA-11, CRA-23",
        S1,
        role("s2", R3, labels={"b": "y"}),
        AGG,
        Quiet(),
        edit("agg", aggregationRule={"clusterRoleSelectors": [having(b="y")]}),
        Look("of b"),
        edit("agg", aggregationRule={"clusterRoleSelectors": [where(("c", "Exists"))]}),
    ),
    made_of(
        "the aggregated role goes and comes",
        "CRA-13, CRA-21, CRA-T23",
        *FILLED,
        delete("clusterroles/$agg"),
        Look("gone"),
        role("agg", R9, selectors=[AX]),
    ),
    uncounted(
        "deleted in the midst of changes",
        "CRA-13, CRA-57",
        *FILLED,
        edit("s1", rules=[R3]),
        delete("clusterroles/$agg"),
        edit("s1", rules=[R5]),
    ),
    made_of(
        "a role that is being deleted still supplies",
        "CRA-25",
        S1,
        edit("s1", metadata={"finalizers": ["example.com/wait"]}),
        AGG,
        Quiet(),
        delete("clusterroles/$s1"),
        Look("being deleted"),
        edit("s1", metadata={"finalizers": None}),
    ),
    made_of(
        "a role that is being deleted is still filled",
        "CRA-21",
        AGG,
        edit("agg", metadata={"finalizers": ["example.com/wait"]}),
        delete("clusterroles/$agg"),
        Quiet(),
        S1,
        Look("being deleted"),
        edit("agg", metadata={"finalizers": None}),
    ),
    made_of(
        "a burst of edits",
        "CRA-15, CRA-T19",
        AGG,
        Quiet(),
        *(role(f"s{number:02}", rule(f"of-{number}"), labels={"a": "x"}) for number in range(20)),
        *(edit(f"s{number:02}", rules=[rule(f"now-{number}")]) for number in range(0, 20, 2)),
    ),
    uncounted(
        "what changed while the controllers were down",
        "CRA-7, CRA-15",
        Machine.STOP,
        edit("s1", rules=[R3]),
        edit("was", aggregationRule=None),
        delete("clusterroles/$s2"),
        role("late", selectors=[AX]),
        Machine.START,
        before=(S1, role("s2", R5, labels={"a": "x"}), AGG, role("was", selectors=[AX])),
    ),
    made_of("a restart writes nothing", "CRA-15, CRA-27", Quiet(), *RESTART, before=(S1, AGG)),
    uncounted(
        "killed in the midst of work",
        "CRA-7, CRA-16",
        *CHAIN,
        role("s1", R1, labels={"c": "source"}),
        Machine.KILL,
        role("s2", R2, labels={"c": "source"}),
        Machine.START,
    ),
    uncounted(
        "the API server restarts",
        "CRA-5, CRA-10",
        *FILLED,
        Machine.RESTART_SERVER,
        edit("s1", rules=[R9]),
    ),
    uncounted(
        "the watches expire",
        "CRA-10, CRA-18, CRA-T18",
        S1,
        role("s2", R3, labels={"a": "x"}),
        AGG,
        Quiet(),
        Machine.EXPIRE,
        delete("clusterroles/$s2"),
        relabel("s1", a="x", b="y"),
    ),
    *map(refused, (403, 404, 409, 415, 422, 500)),
    uncounted(
        "a failing one holds up no other",
        "CRA-72",
        S1,
        Refuse("clusterroles/$agg", 500, 100_000),
        AGG,
        role("other", selectors=[AX]),
        Look("one filled, one not"),
        delete("clusterroles/$agg"),
        cluster=PROXIED,
    ),
    alone(
        "a selector of everything",
        "CRA-40, CRA-T10",
        role("everything", selectors=[{}]),
        Look("all that the server makes"),
        role("s1", rule("widgets")),
        Look("with one more"),
        delete("clusterroles/$s1"),
    ),
    alone(
        "selectors that hold for roles without labels",
        "CRA-45, CRA-T15",
        role("lacking", selectors=[where(("a", "DoesNotExist"))]),
        role("not-in", R5, labels={"a": "z"}, selectors=[where(("a", "NotIn", ["z"]))]),
        Quiet(),
        role("s1", rule("widgets"), labels={"a": "x"}),
    ),
    alone(
        "the default roles grow",
        "CRA-92, CRA-T24",
        role("widgets-view", rule("widgets"), labels=TO_VIEW),
        Look("with widgets"),
        edit("widgets-view", rules=[rule("widgets", "get", "list")]),
        Look("with more verbs"),
        delete("clusterroles/$widgets-view"),
        also=DEFAULT_ROLES,
    ),
)
