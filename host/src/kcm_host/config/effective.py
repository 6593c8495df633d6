"""The effective settings as a table of path, value and origin."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from kcm_host.config.layers import leaves, origin_at
from kcm_host.config.load import Loaded, settings_node
from kcm_host.config.model_paths import masked
from kcm_host.config.models import HostSettings
from kcm_host.config.tree import Node, Origin, Path, dotted, merge, nested


@dataclass(frozen=True, slots=True)
class Row:
    """One leaf: its dotted path, its value as plain data (secrets masked), its origin."""

    path: str
    value: Any
    origin: Origin


def rows(
    loaded: Loaded,
    plugins: Mapping[str, BaseModel] | None = None,
    workers: Mapping[str, int] | None = None,
) -> list[Row]:
    """
    Return all leaves, defaults included, in the order of the schema; a list is one leaf.

    `plugins` has the validated settings by controller. Without them the rows of a controller's
    settings have the values of file and flags, not validated and without variables. `workers` has
    the number of workers by controller, for which the plugin may have a default.
    """
    models = {name: type(plugin) for name, plugin in (plugins or {}).items()}
    values = loaded.settings.model_dump(mode="json", by_alias=True)
    for name, plugin in (plugins or {}).items():
        values["controllers"][name]["settings"] = plugin.model_dump(mode="json", by_alias=True)
    for name, number in (workers or {}).items():
        values["controllers"][name]["workers"] = number
    tree = _with_plugins(loaded, models)
    return [
        Row(dotted(path), _visible(path, value, models), origin_at(tree, path))
        for path, value in leaves(values)
    ]


def _with_plugins(loaded: Loaded, models: Mapping[str, type[BaseModel]]) -> Node:
    tree = loaded.tree
    for name, model in models.items():
        node, _ = settings_node(loaded, name, model)
        tree = merge(tree, nested(("controllers", name, "settings"), node))
    return tree


def _visible(path: Path, value: Any, models: Mapping[str, type[BaseModel]]) -> Any:
    match path:
        case ("controllers", str() as name, "settings", *rest) if name in models:
            return masked(value, path=rest, annotation=models[name])
        case ("controllers", _, "settings", *rest):
            return masked(value, path=rest)
        case _:
            return masked(value, path=path, annotation=HostSettings)
