"""The requests of the controller on a real server, and their effect."""

import json
from typing import Any

from plugins.clusterrole_aggregation.server_roles import PATH, R1, R2, R9, Roles

MANAGER = "clusterrole-aggregation-controller"


def two_of(roles: Roles, own: str) -> str:
    """Make a role that selects another one with R1 and R2, and return its name."""
    roles.create(f"{own}-s1", R1, R2, labels={own: "x"})
    roles.create(own, selectors=[{"matchLabels": {own: "x"}}])
    return own


def test_rules_are_written_by_one_forced_apply(roles: Roles, own: str) -> None:
    """All is the reference's (T1, T28, CRA-50 to 54), and the uid beside it (F-7, Difference g)."""
    name = two_of(roles, own)
    roles.wait_until_idle()
    (apply,) = roles.applies(name)
    assert (apply.method, apply.path) == ("PATCH", f"{PATH}/{name}")
    assert apply.query == {"fieldManager": MANAGER, "force": "true"}
    assert apply.headers["content-type"] == "application/apply-patch+yaml"
    assert json.loads(apply.body) == {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "uid": roles.read(name)["metadata"]["uid"]},
        "rules": [
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
            {"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]},
        ],
    }
    assert apply.status == 200
    assert roles.rules(name) == [R1, R2]


def test_the_rules_belong_to_the_controller(roles: Roles, own: str) -> None:
    """They are one field of its own apply, and nothing else is (CRA-50, CRA-55)."""
    name = two_of(roles, own)
    roles.wait_until_idle()
    assert roles.owners(name)[MANAGER, "Apply"] == {"f:rules": {}}


def test_rules_are_taken_from_whoever_edited_them(roles: Roles, own: str) -> None:
    """An edit is undone and the editor owns the rules no longer (CRA-T4, CRA-55, CRA-58, 93)."""
    name = two_of(roles, own)
    roles.wait_until_idle()
    for edited in ([R9], [], [R2, R1]):
        roles.change(name, rules=edited)
        roles.wait_until_idle()
        assert roles.rules(name) == [R1, R2]
    assert roles.applied(name) == [[R1, R2]] * 4
    others = {who: fields for who, fields in roles.owners(name).items() if who[0] != MANAGER}
    assert others
    assert all("f:rules" not in fields for fields in others.values())


def test_only_the_lists_of_a_rule_that_hold_something_are_sent(roles: Roles, own: str) -> None:
    """Empty lists are left out, every other one is there, in words unchanged (CRA-T28, CRA-52)."""
    every = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    paths = {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/version/*"]}
    given: list[dict[str, Any]] = [
        {**paths, "apiGroups": None},
        {**every, "resourceNames": []},
        {"verbs": ["use"], "apiGroups": ["x"], "resources": ["y/z"], "resourceNames": ["b", "a"]},
    ]
    roles.create(f"{own}-s1", *given, labels={own: "x"})
    roles.create(own, selectors=[{"matchLabels": {own: "x"}}])
    roles.wait_until_idle()
    assert roles.applied(own) == [[paths, every, given[2]]]


def test_nothing_but_cluster_roles_is_written(roles: Roles, own: str) -> None:
    """No Event, no status, no other object (CRA-6)."""
    two_of(roles, own)
    roles.wait_until_idle()
    calls = roles.proxy.requests(when=lambda request: request.method != "GET")
    assert {(call.method, call.path.rpartition("/")[0]) for call in calls} == {("PATCH", PATH)}


def test_rules_that_were_applied_are_cleared(roles: Roles, own: str) -> None:
    """Without sources the key is left out, and the role is empty (CRA-53, CRA-T12)."""
    roles.create(f"{own}-s1", R1, labels={own: "x"})
    roles.create(own, selectors=[{"matchLabels": {own: "x"}}])
    roles.wait_until_idle()
    roles.delete(f"{own}-s1")
    roles.wait_until_idle()
    assert roles.applied(own) == [[R1], None]
    assert roles.read(own)["rules"] is None


def test_rules_of_somebody_else_stay(roles: Roles, own: str) -> None:
    """The server changes nothing then; each change of a role repeats one apply (CRA-56)."""
    roles.create(f"{own}-s1", R1)
    roles.create(own, R9, selectors=[{"matchLabels": {own: "x"}}])
    before = roles.read(own)["metadata"]
    roles.wait_until_idle()
    assert roles.applied(own) == [None]
    roles.change(f"{own}-s1", rules=[R2])
    roles.wait_until_idle()
    assert roles.applied(own) == [None, None]
    assert [apply.status for apply in roles.applies(own)] == [200, 200]
    assert roles.rules(own) == [R9]
    assert roles.read(own)["metadata"]["resourceVersion"] == before["resourceVersion"]


def test_an_empty_role_without_sources_is_not_written(roles: Roles, own: str) -> None:
    """Null is as good as empty: no request (CRA-31, CRA-T11)."""
    roles.create(own, selectors=[{"matchLabels": {own: "x"}}])
    roles.wait_until_idle()
    assert roles.applies(own) == []
