"""Cluster roles: sources with rules, and aggregated roles that collect them."""

import random
from collections.abc import Sequence
from typing import Any

import orjson

from bench.calls import MERGE, Call
from bench.outcome import require
from bench.stage import Stage

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
AGGREGATED = 30
FEEDS = 3
RULES = 3
# As real roles have them. The reference compares verbs first: were they all equal, each of its
# many comparisons would take nearly twice as long.
VERBS = (["get", "list", "watch"], ["create", "update", "patch", "delete"], ["get"])
# A few rules that many sources have, so that there is something to drop.
SHARED_RULES = 8
SHARED_CHANCE = 0.03
LABEL = "bench.kcm-host.example/feeds-"
PREFIX = "bench-"


def create_roles(stage: Stage, count: int) -> None:
    """Create the aggregated roles and `count` sources, the same ones every time."""
    chance = random.Random(count)
    targets = [aggregated(number) for number in range(AGGREGATED)]
    sources = [source(number, chance) for number in range(count)]
    stage.calls.all([Call("POST", ROLES, role) for role in (*targets, *sources)])


def edits(count: int, of: int) -> Sequence[Call]:
    """Return `count` changes, each of another one of the sources, each with a rule more."""
    chance = random.Random(of)
    numbers = random.Random(count).sample(range(of), count)
    bodies = {number: source(number, chance) for number in range(of)}
    return [
        Call(
            "PATCH",
            f"{ROLES}/{bodies[number]['metadata']['name']}",
            {"rules": [*bodies[number]["rules"], _rule(f"edited-{number}", number)]},
            kind=MERGE,
        )
        for number in numbers
    ]


def require_aggregated(stage: Stage, *, count: int, who: str) -> None:
    """Raise `WrongOutcome` unless so many aggregated roles have their sources' rules."""
    listed = stage.calls.one(Call("GET", ROLES))["items"]
    ours = [role for role in listed if role["metadata"]["name"].startswith(PREFIX)]
    targets = [role for role in ours if "aggregationRule" in role]
    require(len(targets) == count, f"{who}: {len(targets)} aggregated roles, not {count}")
    wrong = [
        target["metadata"]["name"]
        for target in targets
        if target.get("rules", []) != _collected(target, ours)
    ]
    require(not wrong, f"{who}: the rules of {wrong} are not those of their sources")


def aggregated(number: int) -> dict[str, Any]:
    """Return an aggregated role that is still empty."""
    selector = {"matchLabels": {f"{LABEL}{number}": "true"}}
    return {
        "metadata": {"name": f"{PREFIX}all-{number:03}"},
        "aggregationRule": {"clusterRoleSelectors": [selector]},
        "rules": [],
    }


def source(number: int, chance: random.Random) -> dict[str, Any]:
    """Return a role that feeds some aggregated ones."""
    fed = chance.sample(range(AGGREGATED), FEEDS)
    rules = [_own_or_shared(number, position, chance) for position in range(RULES)]
    labels = {f"{LABEL}{target}": "true" for target in fed}
    return {"metadata": {"name": f"{PREFIX}{number:05}", "labels": labels}, "rules": rules}


def _own_or_shared(number: int, position: int, chance: random.Random) -> dict[str, Any]:
    if chance.random() < SHARED_CHANCE:
        shared = chance.randrange(SHARED_RULES)
        return _rule(f"shared-{shared}", shared)
    return _rule(f"kind-{number}-{position}", position)


def _rule(resource: str, verbs: int) -> dict[str, Any]:
    return {
        "verbs": VERBS[verbs % len(VERBS)],
        "apiGroups": ["bench.kcm-host.example"],
        "resources": [resource],
    }


def _collected(target: dict[str, Any], roles: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """By name of the source, each rule where it occurs first."""
    (label,) = target["aggregationRule"]["clusterRoleSelectors"][0]["matchLabels"]
    rules: dict[bytes, dict[str, Any]] = {}
    for role in sorted(roles, key=lambda each: str(each["metadata"]["name"])):
        if label in role["metadata"].get("labels", {}):
            for rule in role["rules"]:
                rules.setdefault(orjson.dumps(rule, option=orjson.OPT_SORT_KEYS), rule)
    return list(rules.values())
