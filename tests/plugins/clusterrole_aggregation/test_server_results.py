"""The rules that an aggregated role has in the end, on a real server."""

from collections.abc import Mapping
from typing import Any

import pytest
from plugins.clusterrole_aggregation.server_roles import R1, R2, R3, R9, Roles

Manifest = Mapping[str, Any]
AX: Manifest = {"matchLabels": {"a": "x"}}
BY: Manifest = {"matchLabels": {"b": "y"}}


def needs(operator: str, *values: str) -> Manifest:
    """Return a selector with one requirement on label `a`."""
    given = {"values": list(values)} if values else {}
    return {"matchExpressions": [{"key": "a", "operator": operator, **given}]}


def owned(own: str, selector: Manifest) -> Manifest:
    """Return a selector that also asks for the label that all roles of one test have."""
    mine = {"key": own, "operator": "Exists"}
    return {**selector, "matchExpressions": [*selector.get("matchExpressions", []), mine]}


@pytest.mark.parametrize(
    ("selectors", "sources", "expected"),
    [
        pytest.param([AX], {"s1": ("a=x", R1, R2)}, [R1, R2], id="CRA-T1"),
        pytest.param([AX], {"zeta": ("a=x", R1), "alpha": ("a=x", R2)}, [R2, R1], id="CRA-T5"),
        pytest.param([AX, BY], {"s2": ("a=x", R1), "s1": ("b=y", R2)}, [R1, R2], id="CRA-T6"),
        pytest.param([AX], {"s1": ("a=x", R1, R1, R2)}, [R1, R2], id="CRA-T7"),
        pytest.param([AX], {"s1": ("a=x", R1), "s2": ("a=x", R1, R3)}, [R1, R3], id="CRA-T8"),
        pytest.param([{}], {"s1": ("", R1), "s2": ("c=z", R2)}, [R1, R2], id="CRA-T10"),
        pytest.param(
            [needs("NotIn", "x")],
            {"s1": ("", R1), "s2": ("a=x", R2), "s3": ("a=z", R3)},
            [R1, R3],
            id="CRA-T15",
        ),
        pytest.param([needs("Exists")], {"s1": ("a=", R1), "s2": ("", R2)}, [R1], id="CRA-T16"),
        pytest.param([needs("DoesNotExist")], {"s1": ("a=", R1), "s2": ("", R2)}, [R2], id="none"),
        pytest.param(
            [{"matchLabels": {"a": ""}}], {"s1": ("a=", R1), "s2": ("", R2)}, [R1], id="CRA-48"
        ),
        pytest.param(
            [AX],
            {name: ("a=x", rule) for name, rule in (("a.b", R1), ("a-b", R2), ("a1", R3))},
            [R2, R1, R3],
            id="CRA-24: order of bytes",
        ),
    ],
)
def test_the_rules_of_selected_roles_are_collected(
    roles: Roles, own: str, selectors: list[Manifest], sources: Any, expected: list[Manifest]
) -> None:
    """Selector after selector, by name, each rule once (CRA-23 to CRA-26, CRA-40 to CRA-48)."""
    for name, (label, *rules) in sources.items():
        key, _, value = label.partition("=")
        labels = {own: "", **({key: value} if key else {})}
        roles.create(f"{own}-{name}", *rules, labels=labels)
    roles.create(own, selectors=[owned(own, selector) for selector in selectors])
    roles.wait_until_idle()
    assert roles.rules(own) == expected
    assert roles.applied(own) == [expected]


def test_a_role_gives_nothing_to_itself(roles: Roles, own: str) -> None:
    """Its own label does not keep a rule that was written by hand (CRA-T9, CRA-25)."""
    roles.create(f"{own}-s1", R1, labels={own: "x"})
    roles.create(own, R9, labels={own: "x"}, selectors=[{"matchLabels": {own: "x"}}])
    roles.wait_until_idle()
    assert roles.rules(own) == [R1]


@pytest.mark.parametrize(("present", "applied"), [([R1, R2], 0), ([R2, R1], 1)])
def test_rules_that_are_there_are_not_written(
    roles: Roles, own: str, present: list[Manifest], applied: int
) -> None:
    """Equal rules need no request; another order is not equal (CRA-T2, CRA-T3, CRA-27)."""
    roles.create(f"{own}-s1", R1, R2, labels={own: "x"})
    roles.create(own, *present, selectors=[{"matchLabels": {own: "x"}}])
    roles.wait_until_idle()
    assert roles.rules(own) == [R1, R2]
    assert len(roles.applies(own)) == applied


def test_rules_follow_their_sources(roles: Roles, own: str) -> None:
    """A source that appears, changes, loses its label or is deleted (CRA-10, CRA-T17, T25)."""
    name = own
    roles.create(name, selectors=[{"matchLabels": {own: "x"}}])
    roles.create(f"{own}-s1", R1, labels={own: "x"})
    roles.create(f"{own}-s2", R2, labels={own: "x"})
    roles.wait_until_idle()
    assert roles.rules(name) == [R1, R2]
    roles.change(f"{own}-s1", rules=[R3])
    roles.wait_until_idle()
    assert roles.rules(name) == [R3, R2]
    roles.change(f"{own}-s1", metadata={"labels": {own: "y"}})
    roles.wait_until_idle()
    assert roles.rules(name) == [R2]
    roles.change(f"{own}-s1", metadata={"labels": {own: "x"}})
    roles.delete(f"{own}-s2")
    roles.wait_until_idle()
    assert roles.rules(name) == [R3]


def test_a_role_without_its_aggregation_rule_keeps_its_rules(roles: Roles, own: str) -> None:
    """What it has it keeps, whatever its sources do afterwards (CRA-12, CRA-22)."""
    roles.create(f"{own}-s1", R1, labels={own: "x"})
    roles.create(own, selectors=[{"matchLabels": {own: "x"}}])
    roles.wait_until_idle()
    roles.change(own, aggregationRule=None)
    roles.change(f"{own}-s1", rules=[R2])
    roles.wait_until_idle()
    assert roles.rules(own) == [R1]
    assert len(roles.applies(own)) == 1


def test_two_roles_that_select_each_other_keep_a_rule(roles: Roles, own: str) -> None:
    """What got into a circle stays there after its source has gone (CRA-94)."""
    roles.create(f"{own}-one", labels={own: "x"}, selectors=[{"matchLabels": {own: "y"}}])
    roles.create(f"{own}-two", labels={own: "y"}, selectors=[{"matchLabels": {own: "x"}}])
    roles.create(f"{own}-s1", R1, labels={own: "x"})
    roles.wait_until_idle()
    roles.delete(f"{own}-s1")
    roles.wait_until_idle()
    assert roles.rules(f"{own}-one") == roles.rules(f"{own}-two") == [R1]


AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
WIDGETS = {"verbs": ["get"], "apiGroups": ["widgets.example"], "resources": ["widgets"]}


def test_a_rule_for_view_reaches_edit_and_admin(roles: Roles, own: str) -> None:
    """It follows the controller's own writes, one each, then it is idle (T24, CRA-16, 92)."""
    roles.wait_until_idle()
    before = {name: roles.rules(name) for name in ("view", "edit", "admin")}
    assert all(before.values())
    done = len(roles.applies())
    roles.create(f"{own}-crd-view", WIDGETS, labels={f"{AGGREGATE}view": "true"})
    settled = roles.wait_until_idle()
    for name, rules in before.items():
        now = roles.rules(name)
        assert WIDGETS in now
        assert [rule for rule in now if rule != WIDGETS] == rules
    applies = roles.applies()[done:]
    assert [apply.path.rpartition("/")[2] for apply in applies] == ["view", "edit", "admin"]
    assert roles.wait_until_idle()["syncs"] == settled["syncs"]


def test_a_rule_that_goes_leaves_the_whole_chain(roles: Roles, own: str) -> None:
    """Taking the source away takes the rule from all three (CRA-16, CRA-T25)."""
    roles.wait_until_idle()
    before = {name: roles.rules(name) for name in ("view", "edit", "admin")}
    roles.create(f"{own}-crd-view", WIDGETS, labels={f"{AGGREGATE}view": "true"})
    roles.wait_until_idle()
    assert WIDGETS in roles.rules("admin")
    roles.delete(f"{own}-crd-view")
    roles.wait_until_idle()
    assert {name: roles.rules(name) for name in before} == before


def test_a_role_that_concerns_nobody_is_synced_for_and_not_written(roles: Roles, own: str) -> None:
    """A new role queues each aggregated one, once, and leads to no write (T17, CRA-11)."""
    before = roles.wait_until_idle()
    done = len(roles.applies())
    roles.create(f"{own}-other", WIDGETS)
    after = roles.wait_until_idle()
    assert after["syncs"] - before["syncs"] == after["status"]["aggregated"]
    assert len(roles.applies()) == done
