"""The roles admin, edit and view that every server has, and what somebody adds to them."""

from plugins.clusterrole_aggregation.cluster_roles import Roles

AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
WIDGETS = {"verbs": ["get"], "apiGroups": ["widgets.example"], "resources": ["widgets"]}


def test_a_rule_for_view_reaches_edit_and_admin(roles: Roles, own: str) -> None:
    """It climbs by the controller's own writes, one each, then all is quiet (T24, CRA-16, 92)."""
    roles.settle()
    before = {name: roles.rules(name) for name in ("view", "edit", "admin")}
    assert all(before.values())
    done = len(roles.applies())
    roles.create(f"{own}-crd-view", WIDGETS, labels={f"{AGGREGATE}view": "true"})
    settled = roles.settle()
    for name, rules in before.items():
        now = roles.rules(name)
        assert WIDGETS in now
        assert [rule for rule in now if rule != WIDGETS] == rules
    applies = roles.applies()[done:]
    assert [apply.path.rpartition("/")[2] for apply in applies] == ["view", "edit", "admin"]
    assert roles.settle()["syncs"] == settled["syncs"]


def test_a_rule_that_goes_leaves_the_whole_chain(roles: Roles, own: str) -> None:
    """Taking the source away takes the rule from all three (CRA-16, CRA-T25)."""
    roles.settle()
    before = {name: roles.rules(name) for name in ("view", "edit", "admin")}
    roles.create(f"{own}-crd-view", WIDGETS, labels={f"{AGGREGATE}view": "true"})
    roles.settle()
    assert WIDGETS in roles.rules("admin")
    roles.delete(f"{own}-crd-view")
    roles.settle()
    assert {name: roles.rules(name) for name in before} == before


def test_a_role_that_concerns_nobody_is_synced_for_and_not_written(roles: Roles, own: str) -> None:
    """Any role that comes queues each aggregated one, once, and leads to no write (T17, CRA-11)."""
    before = roles.settle()
    done = len(roles.applies())
    roles.create(f"{own}-lonely", WIDGETS)
    after = roles.settle()
    assert after["syncs"] - before["syncs"] == after["status"]["aggregated"]
    assert len(roles.applies()) == done
