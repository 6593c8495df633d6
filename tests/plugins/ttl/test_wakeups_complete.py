"""After random changes of nodes, every node with a wrong annotation is queued."""

import random
from collections.abc import Mapping
from typing import Any

from worlds.completeness import Change, check_completeness, end_watch
from worlds.running import World

from kcm_host_ttl.plugin import ANNOTATION, NODE

VALUES = ("0", "15", "30", "00", "no number", "")


def make_world(chance: random.Random) -> World:
    """Return a world with nodes on both sides of the first step."""
    world = World("ttl", chance, keys={NODE: ""})
    add(world, chance, chance.choice((0, 5, 95, 105)))
    return world


def names(world: World) -> list[str]:
    """Return the names of all nodes."""
    return [each["metadata"]["name"] for each in world[NODE].all()]


def add(world: World, chance: random.Random, count: int) -> None:
    """Create nodes, some with an annotation."""
    for _ in range(count):
        meta: Any = {"generateName": "node-"}
        if chance.random() < 0.3:
            meta["annotations"] = {ANNOTATION: chance.choice(VALUES)}
        world[NODE].create({"metadata": meta})


def come(world: World, chance: random.Random) -> str:
    """Add one node or many."""
    count = chance.choice((1, 1, 3, 20))
    add(world, chance, count)
    return f"{count} nodes come"


def go(world: World, chance: random.Random) -> str:
    """Delete one node or many."""
    known = names(world)
    gone = chance.sample(known, min(len(known), chance.choice((1, 1, 3, 20))))
    for name in gone:
        world[NODE].delete(name)
    return f"{len(gone)} nodes go"


def replace(world: World, chance: random.Random) -> str:
    """Recreate a node under its name."""
    name = chance.choice(names(world))
    world[NODE].delete(name)
    world[NODE].create({"metadata": {"name": name}})
    return f"{name} is replaced"


def annotate(world: World, chance: random.Random) -> str:
    """Change the annotation, remove it, or write another one."""
    name = chance.choice(names(world))
    key = chance.choice((ANNOTATION, ANNOTATION, "other"))
    value = chance.choice((*VALUES, None))
    world[NODE].patch(name, "", {"metadata": {"annotations": {key: value}}})
    return f"{name}: {key}={value!r}"


def cut(world: World, chance: random.Random) -> str:
    """End the watch."""
    return end_watch(world, chance, NODE, go, replace)


CHANGES: Mapping[Change, int] = {come: 4, go: 4, replace: 2, annotate: 6, cut: 1}


def test_no_wakeup_is_missed() -> None:
    """When the queue is idle, a sync of every node writes nothing (F-52, TTL-11)."""
    check_completeness(make_world, CHANGES)
