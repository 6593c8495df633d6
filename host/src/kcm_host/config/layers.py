"""Layers of settings: one name for each controller, and null where a key was left empty."""

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

    What stands below a controller's `settings` is the plugin's: null may mean something there.
    """
    entries = dict(_kept(root).entries)
    controllers = entries.get("controllers")
    if controllers is not None and controllers.entries:
        named = {name: _controller(node) for name, node in controllers.entries.items()}
        entries["controllers"] = Node(named, controllers.origin, controllers.key)
    for key, node in entries.items():
        if key != "controllers":
            entries[key] = _deep(node)
    return Node(entries, root.origin, root.key)


def _controller(node: Node) -> Node:
    return Node({}, node.origin, node.key) if node.value is None else _kept(node)


def _deep(node: Node) -> Node:
    if not isinstance(node.value, dict):
        return node
    entries = {key: _deep(inner) for key, inner in _kept(node).entries.items()}
    return Node(entries, node.origin, node.key)


def _kept(node: Node) -> Node:
    if not isinstance(node.value, dict):
        return node
    entries = {key: inner for key, inner in node.value.items() if inner.value is not None}
    return Node(entries, node.origin, node.key)
