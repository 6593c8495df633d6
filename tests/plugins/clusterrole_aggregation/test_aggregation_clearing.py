"""What an apply without rules does on a real server (CRA-53, CRA-56)."""

from plugins.clusterrole_aggregation.cluster_roles import R1, R2, R9, Roles


def test_rules_that_were_applied_are_cleared(roles: Roles, own: str) -> None:
    """When the last source goes the key is left out, and the role is empty (CRA-53, CRA-T12)."""
    roles.create(f"{own}-s1", R1, labels={own: "x"})
    roles.create(own, selectors=[{"matchLabels": {own: "x"}}])
    roles.settle()
    roles.delete(f"{own}-s1")
    roles.settle()
    assert roles.applied(own) == [[R1], None]
    assert roles.read(own)["rules"] is None


def test_rules_of_somebody_else_stay(roles: Roles, own: str) -> None:
    """The server changes nothing then; each change of a role repeats one apply (CRA-56)."""
    roles.create(f"{own}-s1", R1)
    roles.create(own, R9, selectors=[{"matchLabels": {own: "x"}}])
    before = roles.read(own)["metadata"]
    roles.settle()
    assert roles.applied(own) == [None]
    roles.change(f"{own}-s1", rules=[R2])
    roles.settle()
    assert roles.applied(own) == [None, None]
    assert [apply.status for apply in roles.applies(own)] == [200, 200]
    assert roles.rules(own) == [R9]
    assert roles.read(own)["metadata"]["resourceVersion"] == before["resourceVersion"]


def test_an_empty_role_without_sources_is_not_written(roles: Roles, own: str) -> None:
    """Null is as good as empty: no request (CRA-31, CRA-T11)."""
    roles.create(own, selectors=[{"matchLabels": {own: "x"}}])
    roles.settle()
    assert roles.applies(own) == []
