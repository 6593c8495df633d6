"""Where each effective value came from."""

from collections.abc import Iterator
from typing import Any

from kcm_host.config.models import HostSettings
from kcm_host.config.tree import DEFAULT, Node, Origin, Path, dotted


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value that is no mapping, and every empty mapping, with its path."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    else:
        yield path, value


def origin_at(tree: Node, path: Path) -> Origin:
    """Where the value at `path` came from; what nobody has set is a default."""
    node = tree.at(path)
    return node.origin if node else DEFAULT


def leaf_origins(settings: HostSettings, tree: Node) -> dict[str, Origin]:
    """The origin of each leaf of the host's settings, by dotted path."""
    values = settings.model_dump(mode="json", by_alias=True)
    return {dotted(path): origin_at(tree, path) for path, _ in leaves(values)}
