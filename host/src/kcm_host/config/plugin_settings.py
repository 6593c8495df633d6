"""The settings of one plugin, validated with the plugin's own model."""

from typing import TypeVar, overload

from pydantic import BaseModel, ValidationError

from kcm_host.config.environment import match_settings
from kcm_host.config.errors import ConfigError, Problem, did_you_mean
from kcm_host.config.load import Loaded
from kcm_host.config.tree import Node, Origin, Path, mapping, merge
from kcm_host.config.validation_errors import problems_of

M = TypeVar("M", bound=BaseModel)


@overload
def validate_plugin_settings(loaded: Loaded, name: str, model: type[M]) -> M: ...
@overload
def validate_plugin_settings(loaded: Loaded, name: str, model: None) -> None: ...
def validate_plugin_settings(loaded: Loaded, name: str, model: type[M] | None) -> M | None:
    """
    Return `controllers.<name>.settings` as the plugin's model, with variables and flags.

    `model` is None for a plugin without settings. Raises ConfigError with all errors; other
    exceptions of the plugin's validators pass.
    """
    name = _named(loaded, name)
    path: Path = ("controllers", name, "settings")
    node, _ = settings_node(loaded, name, model)
    if model is None:
        if node.value:
            raise ConfigError([_takes_none(name, node)])
        return None
    try:
        return model.model_validate(node.plain())
    except ValidationError as error:
        raise ConfigError(problems_of(error, root=node, model=model, above=path)) from None


def plugin_warnings(loaded: Loaded, name: str, model: type[BaseModel] | None) -> tuple[str, ...]:
    """Return a warning for each variable of the controller's settings that matches no key."""
    _, warnings = settings_node(loaded, _named(loaded, name), model)
    return warnings


def settings_node(
    loaded: Loaded, name: str, model: type[BaseModel] | None
) -> tuple[Node, tuple[str, ...]]:
    """Return the merged settings of a controller with origins, and warnings about variables."""
    path: Path = ("controllers", name, "settings")
    there = loaded.tree.at(path) or mapping(_origin_of(loaded, name))
    matched = match_settings(
        loaded.pending.get(name, ()), settings=there, model=model, controller=name
    )
    from_flags = loaded.flags.at(path)
    node = merge(there, matched.root)
    return merge(node, from_flags) if from_flags else node, tuple(matched.warnings)


def _named(loaded: Loaded, name: str) -> str:
    short = loaded.names.name_of(name)
    if short in loaded.settings.controllers:
        return short
    fact = f"controller '{name}' is not named in the configuration"
    remedy = did_you_mean(name, list(loaded.settings.controllers))
    raise ConfigError([Problem(fact, path="controllers", remedy=remedy)])


def _origin_of(loaded: Loaded, name: str) -> Origin:
    node = loaded.tree.at(("controllers", name)) or loaded.tree
    return node.key or node.origin


def _takes_none(name: str, node: Node) -> Problem:
    return Problem(
        f"controller '{name}' has no settings of its own",
        path=f"controllers.{name}.settings",
        origin=node.key or node.origin,
        remedy="remove 'settings'",
    )
