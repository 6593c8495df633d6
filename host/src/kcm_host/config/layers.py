"""Layers of settings: one name for each controller, and null where a key was left empty."""

from typing import Any

from kcm_host.config import shape
from kcm_host.config.models import HostSettings
from kcm_host.config.names import short_name
from kcm_host.config.problems import Problem
from kcm_host.config.tree import Node, mapping


def named_controllers(root: Node) -> tuple[str, ...]:
    """The short names of the controllers in a layer."""
    controllers = root.child("controllers")
    return tuple(with_short_names(controllers).entries) if controllers else ()


def with_short_names(controllers: Node) -> Node:
    """The mapping of controllers under their short names; of two spellings the first one counts."""
    entries: dict[str, Node] = {}
    for name, node in controllers.entries.items():
        entries.setdefault(short_name(name), node)
    return mapping(controllers.origin, entries) if entries else controllers


def shortened(root: Node) -> Node:
    """The layer with its controllers under their short names."""
    controllers = root.child("controllers")
    if controllers is None or not controllers.entries:
        return root
    renamed = Node(with_short_names(controllers).value, controllers.origin, controllers.key)
    return Node({**root.entries, "controllers": renamed}, root.origin, root.key)


def doubly_named(root: Node) -> list[Problem]:
    """One problem for each controller that a layer names in two spellings."""
    controllers = root.child("controllers")
    first: dict[str, tuple[str, Node]] = {}
    problems: list[Problem] = []
    for name, node in controllers.entries.items() if controllers else ():
        earlier, there = first.setdefault(short_name(name), (name, node))
        if earlier != name:
            place = there.key or there.origin
            problems.append(
                Problem(
                    f"'{name}' is the controller '{earlier}' of {place} by another name",
                    path="controllers",
                    origin=node.key or node.origin,
                    remedy=f"keep one of them, best '{short_name(name)}'",
                )
            )
    return problems


def without_nulls(root: Node) -> Node:
    """
    The settings without empty keys, which so take their defaults; `ttl:` becomes `ttl: {}`.

    An empty `controllers:` becomes `{}` at the place of its key, where it is an error, and an
    unknown key stays, because it is one too. What stands below a controller's `settings` is the
    plugin's: null may mean something there.
    """
    controllers = root.child("controllers")
    if controllers is not None:
        filled = _or_empty(controllers)
        named = {name: _or_empty(node) for name, node in filled.entries.items()}
        root = _with_entries(root, {**root.entries, "controllers": _with_entries(filled, named)})
    return _without_nulls(root, HostSettings)


def _without_nulls(node: Node, annotation: Any) -> Node:
    known = shape.keys(annotation)
    entries = {
        key: _without_nulls(inner, shape.step(annotation, key))
        for key, inner in node.entries.items()
        if inner.value is not None or key not in known
    }
    return _with_entries(node, entries) if node.entries else node


def _or_empty(node: Node) -> Node:
    """An empty mapping at the place of the key in front of it, where a value was left out."""
    place = node.key or node.origin
    return Node({}, place, node.key) if node.value is None else node


def _with_entries(node: Node, entries: dict[str, Node]) -> Node:
    return Node(entries, node.origin, node.key) if isinstance(node.value, dict) else node
