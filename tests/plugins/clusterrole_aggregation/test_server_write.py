"""The requests of the controller on a real server, and their effect."""

import json

from plugins.clusterrole_aggregation.server_roles import PATH, R1, R2, Roles

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


def test_nothing_but_cluster_roles_is_written(roles: Roles, own: str) -> None:
    """No Event, no status, no other object (CRA-6)."""
    two_of(roles, own)
    roles.wait_until_idle()
    calls = roles.proxy.requests(when=lambda request: request.method != "GET")
    assert {(call.method, call.path.rpartition("/")[0]) for call in calls} == {("PATCH", PATH)}
