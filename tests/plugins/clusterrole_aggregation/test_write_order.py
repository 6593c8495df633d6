"""Roles that collect from other aggregated roles are written once, after those."""

import random

import pytest
from worlds.running import World, running

from kcm_host.api import Key
from kcm_host_clusterrole_aggregation.aggregation import WriteOrder, compile_selectors
from kcm_host_clusterrole_aggregation.models import (
    AggregationRule,
    LabelSelector,
    Metadata,
    Role,
    Rule,
)
from kcm_host_clusterrole_aggregation.plugin import CLUSTER_ROLE

CHAIN = 12


def rule(name: str) -> dict[str, list[str]]:
    """Return a rule that no other role has."""
    return {"verbs": ["get"], "apiGroups": [""], "resources": [name]}


def make_chain(world: World) -> None:
    """Create roles of which each collects from the one before and from a source of its own."""
    for number in range(CHAIN):
        selectors = [{"matchLabels": {f"to-{number}": "x"}}]
        meta = {"name": f"link-{number}", "labels": {f"to-{number + 1}": "x"}}
        body = {"metadata": meta, "aggregationRule": {"clusterRoleSelectors": selectors}}
        world[CLUSTER_ROLE].create(body)
        source = {"name": f"source-{number}", "labels": {f"to-{number}": "x"}}
        world[CLUSTER_ROLE].create({"metadata": source, "rules": [rule(f"old-{number}")]})


@pytest.mark.virtual_time
@pytest.mark.parametrize("seed", range(10))
async def test_a_chain_of_roles_is_written_once_a_role(seed: int) -> None:
    """With any delay of the watch: twelve roles, all sources changed, twelve writes (F-54)."""
    chance = random.Random(seed)
    world = World("clusterrole-aggregation", chance, keys={CLUSTER_ROLE: ""})
    make_chain(world)
    async with running(world):
        assert len(world.server.writes) == CHAIN
        for number in chance.sample(range(CHAIN), CHAIN):
            source = world[CLUSTER_ROLE].get(f"source-{number}")
            assert source is not None
            world[CLUSTER_ROLE].update({**source, "rules": [rule(f"new-{number}")]})
        await world.quiet()
        last = world[CLUSTER_ROLE].get(f"link-{CHAIN - 1}")
        assert last is not None
        assert {each["resources"][0] for each in last["rules"]} == {
            f"new-{number}" for number in range(CHAIN)
        }
        assert len(world.server.writes) == 2 * CHAIN


SELECTS_A = AggregationRule((LabelSelector(match_labels={"a": "x"}),))
SELECTS_B = AggregationRule((LabelSelector(match_labels={"b": "x"}),))
NEW = (Rule(verbs=("get",), resources=("pods",)),)
ONE, TWO = Key("one"), Key("two")


def order_at(seconds: list[float]) -> WriteOrder:
    """Return an order whose clock shows the last of these."""
    return WriteOrder(lambda: seconds[-1])


def test_nobody_waits_for_a_source_whose_write_changes_nothing() -> None:
    """A source written or refused a second ago blocks no other role, retried or not (F-54)."""
    seconds = [100.0]
    order = order_at(seconds)
    roles = {
        ONE: Role(aggregation_rule=SELECTS_A),
        TWO: Role(Metadata({"a": "x"}), aggregation_rule=SELECTS_B),
    }
    assert order.outdated_source(ONE, roles, lambda _: NEW) == TWO
    order.record_write(TWO, NEW)
    seconds.append(100.9)
    order.record_write(TWO, NEW)
    assert order.outdated_source(ONE, roles, lambda _: NEW) == TWO
    seconds.append(101.0)
    assert order.outdated_source(ONE, roles, lambda _: NEW) is None
    assert order.outdated_source(ONE, roles, lambda _: ()) is None, "the source is right"
    other = (*NEW, Rule(verbs=("list",)))
    assert order.outdated_source(ONE, roles, lambda _: other) == TWO, "it has to be written anew"


def test_of_roles_in_a_circle_the_lesser_name_goes_first() -> None:
    """Two roles that collect from each other: one waits, the other does not (F-54, CRA-94)."""
    roles = {
        ONE: Role(Metadata({"b": "x"}), aggregation_rule=SELECTS_A),
        TWO: Role(Metadata({"a": "x"}), aggregation_rule=SELECTS_B),
    }
    order = order_at([100.0])
    assert order.outdated_source(ONE, roles, lambda _: NEW) is None
    assert order.outdated_source(TWO, roles, lambda _: NEW) == ONE


def test_nobody_waits_for_a_role_that_cannot_be_synced() -> None:
    """A source with a bad selector is never written, so its present rules count (F-54, CRA-23)."""
    bad = AggregationRule((LabelSelector(match_labels={"": "x"}),))
    roles = {
        ONE: Role(aggregation_rule=SELECTS_A),
        TWO: Role(Metadata({"a": "x"}), aggregation_rule=bad),
    }

    def collect(key: Key) -> tuple[Rule, ...]:
        rule = roles[key].aggregation_rule
        assert rule is not None
        tuple(compile_selectors(key.name, rule))
        return NEW

    assert order_at([100.0]).outdated_source(ONE, roles, collect) is None
