"""After random changes of roles every aggregated one has the rules that it selects."""

import asyncio
import random
from typing import Any

from worlds.completeness import check_completeness, end_watch
from worlds.running import World

from kcm_host_clusterrole_aggregation.plugin import CLUSTER_ROLE, ClusterRoleAggregation

LABELS = ("a", "b", "c")
NAMES = tuple(f"role-{number}" for number in range(9))


def make_world(chance: random.Random) -> World:
    """Return a world with some roles, on a clock that is virtual."""
    world = World("clusterrole-aggregation", chance, keys={CLUSTER_ROLE: ""}, make=_controller)
    for name in NAMES[:4]:
        world[CLUSTER_ROLE].create(role(chance, name))
    return world


def _controller() -> ClusterRoleAggregation:
    return ClusterRoleAggregation(clock=asyncio.get_running_loop().time)


def rules(chance: random.Random) -> list[dict[str, Any]]:
    """Return up to three rules."""
    resources = chance.sample(("pods", "nodes", "secrets", "leases"), chance.randrange(4))
    return [{"verbs": ["get"], "apiGroups": [""], "resources": [each]} for each in resources]


def labels(chance: random.Random) -> dict[str, str]:
    """Return some labels."""
    return dict.fromkeys(chance.sample(LABELS, chance.randrange(3)), "x")


def selector(chance: random.Random) -> dict[str, Any]:
    """Return a selector of roles, sometimes an invalid one."""
    if chance.random() < 0.05:
        return {"matchExpressions": [{"key": "a", "operator": "Foo"}]}
    return {"matchLabels": {chance.choice(LABELS): "x"}}


def role(chance: random.Random, name: str) -> dict[str, Any]:
    """Return a role, aggregated or not."""
    made: dict[str, Any] = {"metadata": {"name": name, "labels": labels(chance)}}
    if chance.random() < 0.5:
        selectors = [selector(chance) for _ in range(chance.randrange(3))]
        made["aggregationRule"] = {"clusterRoleSelectors": selectors}
    made["rules"] = rules(chance)
    return made


def known(world: World, chance: random.Random) -> dict[str, Any]:
    """Return a role that is there."""
    return chance.choice(list(world[CLUSTER_ROLE].all()))


def come(world: World, chance: random.Random) -> str:
    """Create a role."""
    body = role(chance, chance.choice(NAMES))
    world[CLUSTER_ROLE].create(body)
    return f"create {body}"


def go(world: World, chance: random.Random) -> str:
    """Delete a role, or put another one in its place."""
    name = known(world, chance)["metadata"]["name"]
    world[CLUSTER_ROLE].delete(name)
    if chance.random() < 0.5:
        return f"delete {name}"
    body = role(chance, name)
    world[CLUSTER_ROLE].create(body)
    return f"replace {body}"


def edit(world: World, chance: random.Random) -> str:
    """Change labels, rules or the aggregation rule."""
    now = known(world, chance)
    other = role(chance, now["metadata"]["name"])
    field = chance.choice(("rules", "metadata", "aggregationRule"))
    if field == "metadata":
        now["metadata"]["labels"] = other["metadata"]["labels"]
    elif field in other:
        now[field] = other[field]
    else:
        now.pop(field, None)
    world[CLUSTER_ROLE].update(now)
    return f"change {field} of {other}"


def cut(world: World, chance: random.Random) -> str:
    """End the watch."""
    return end_watch(world, chance, CLUSTER_ROLE, go)


def test_no_wakeup_is_missed() -> None:
    """When the queue is idle, a sync of every role changes nothing (F-52, CRA-10 to CRA-16)."""
    check_completeness(make_world, {come: 4, go: 2, edit: 8, cut: 1})
