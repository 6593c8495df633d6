"""Layers of settings before they are merged: names of controllers, nulls, origins."""

from collections.abc import Iterator
from typing import Any, Final, Protocol

from kcm_host.config import model_paths
from kcm_host.config.errors import Problem
from kcm_host.config.models import HostSettings
from kcm_host.config.tree import DEFAULT, Node, Origin, Path, dotted, mapping


class ControllerNames(Protocol):
    """The names of installed controllers, with their aliases."""

    def name_of(self, spelling: str) -> str:
        """Return the name for which this is an alias; a name or an unknown one is unchanged."""

    def spellings(self, name: str) -> tuple[str, ...]:
        """Return all names of a controller, its own name first."""


class NoAliases:
    """Names without aliases."""

    def name_of(self, spelling: str) -> str:
        """Return the name unchanged."""
        return spelling

    def spellings(self, name: str) -> tuple[str, ...]:
        """Return the name alone."""
        return (name,)


NO_ALIASES: Final = NoAliases()


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every value that is no mapping, and every empty mapping, with its path."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    else:
        yield path, value


def origin_at(tree: Node, path: Path) -> Origin:
    """Return the origin of the value at `path`; a value that was not set is a default."""
    node = tree.at(path)
    return node.origin if node else DEFAULT


def leaf_origins(settings: HostSettings, tree: Node) -> dict[str, Origin]:
    """Return the origin of each leaf of the host's settings, by dotted path."""
    values = settings.model_dump(mode="json", by_alias=True)
    return {dotted(path): origin_at(tree, path) for path, _ in leaves(values)}


def named_controllers(root: Node) -> tuple[str, ...]:
    """Return the names of the controllers in a layer without aliases."""
    controllers = root.child("controllers")
    return tuple(controllers.entries) if controllers else ()


def without_aliases(controllers: Node, names: ControllerNames) -> Node:
    """Return the controllers under their names; of two spellings the first one counts."""
    entries: dict[str, Node] = {}
    for name, node in controllers.entries.items():
        # The second one is an error that `doubly_named` reports; until then the rest is to be
        # validated too.
        entries.setdefault(names.name_of(name), node)
    return mapping(controllers.origin, entries) if entries else controllers


def resolved(root: Node, names: ControllerNames) -> Node:
    """Return the layer with its controllers under their names."""
    controllers = root.child("controllers")
    if controllers is None or not controllers.entries:
        return root
    renamed = Node(without_aliases(controllers, names).value, controllers.origin, controllers.key)
    return Node({**root.entries, "controllers": renamed}, root.origin, root.key)


def doubly_named(root: Node, names: ControllerNames) -> list[Problem]:
    """Return a problem for each controller that a layer has in two spellings."""
    controllers = root.child("controllers")
    first: dict[str, tuple[str, Node]] = {}
    problems: list[Problem] = []
    for name, node in controllers.entries.items() if controllers else ():
        earlier, there = first.setdefault(names.name_of(name), (name, node))
        if earlier != name:
            place = there.key or there.origin
            problems.append(
                Problem(
                    f"'{name}' is the controller '{earlier}' of {place} by another name",
                    path="controllers",
                    origin=node.key or node.origin,
                    remedy=f"keep one of them, best '{names.name_of(name)}'",
                )
            )
    return problems


def without_nulls(root: Node) -> Node:
    """
    Return the settings without null values, which become defaults; `ttl:` becomes `ttl: {}`.

    An empty `controllers:` becomes `{}` at the place of its key, and an unknown key is kept: both
    are errors. Values below a controller's `settings` are kept: null may be valid there.
    """
    controllers = root.child("controllers")
    if controllers is not None:
        # At the key's place: an error about the empty section needs a line (F-88).
        filled = _or_empty(controllers)
        named = {name: _or_empty(node) for name, node in filled.entries.items()}
        root = _with_entries(root, {**root.entries, "controllers": _with_entries(filled, named)})
    return _without_nulls(root, HostSettings)


def _without_nulls(node: Node, annotation: Any) -> Node:
    known = model_paths.keys(annotation)
    entries = {
        key: _without_nulls(inner, model_paths.step(annotation, key))
        for key, inner in node.entries.items()
        # An unknown key stays, so that it is reported also where its value is empty.
        if inner.value is not None or key not in known
    }
    return _with_entries(node, entries) if node.entries else node


def _or_empty(node: Node) -> Node:
    """Return an empty mapping at the place of its key in place of null."""
    place = node.key or node.origin
    return Node({}, place, node.key) if node.value is None else node


def _with_entries(node: Node, entries: dict[str, Node]) -> Node:
    return Node(entries, node.origin, node.key) if isinstance(node.value, dict) else node
