"""Loads the settings of the host and of plugins, and lists those in force with their origins."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from pydantic import BaseModel, ValidationError

from kcm_host.config.errors import ConfigError, Problem, did_you_mean
from kcm_host.config.layers import (
    NO_ALIASES,
    ControllerNames,
    doubly_named,
    leaf_origins,
    leaves,
    origin_at,
    resolved,
    without_nulls,
)
from kcm_host.config.model_paths import masked
from kcm_host.config.models import HostSettings
from kcm_host.config.overrides import (
    Variable,
    match_settings,
    match_variables,
    read_flags,
    read_variables,
)
from kcm_host.config.tree import Node, Origin, Path, dotted, mapping, merge, nested
from kcm_host.config.validation_errors import NOTHING_RUNS, problems_of
from kcm_host.config.yaml import Source, read_file


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """
    Valid settings of the host; those of plugins are validated by `validate_plugin_settings`.

    `origins` has every leaf path in dotted form. `tree` is the file merged with variables and
    flags, `flags` the last layer alone, `pending` the variables below each `settings`.
    """

    settings: HostSettings
    origins: Mapping[str, Origin]
    warnings: tuple[str, ...]
    tree: Node = field(repr=False)
    flags: Node = field(repr=False)
    pending: Mapping[str, tuple[Variable, ...]] = field(repr=False)
    names: ControllerNames = field(repr=False)


_NO_LEADER_ELECTION = (
    "'leaderElection' is left out, so it is off: run one replica only, "
    "and write 'leaderElection: {enabled: false}' to say that you know"
)


def load_settings(
    *,
    file: Source | None,
    environ: Mapping[str, str],
    overrides: Sequence[str] = (),
    flags: Mapping[str, str] | None = None,
    reserved: Collection[str] = (),
    names: ControllerNames = NO_ALIASES,
) -> Loaded:
    """
    Return the settings of `file`, overlaid with variables, `--set` items and flags, in this order.

    `file` may be None or STDIN. `overrides` are the `path=value` of `--set`; `flags` has the values
    of flags by dotted path (`log.level` for `--log-level`); `reserved` are variables with our
    prefix that the caller reads; `names` resolves aliases of controllers. Raises ConfigError with
    all errors, not only the first one.
    """
    root, problems = _file_layer(file, names)
    from_flags, wrong_flags = read_flags(overrides, flags or {}, names=names)
    variables, wrong_variables = read_variables(environ, reserved=reserved)
    problems += wrong_variables + wrong_flags
    # Also without a usable file, so that the mistakes in variables and flags are reported in the
    # same run.
    base = root or mapping(Origin("default"))
    matched = match_variables(variables, known=merge(base, from_flags), names=names)
    problems += matched.problems
    # The flags last: they are nearest to whoever starts the host. Nulls go after the merge, because
    # a null may be overlaid.
    tree = without_nulls(merge(merge(base, matched.root), from_flags))
    settings, invalid = _validated(tree) if root is not None else (None, [])
    if settings is None or problems:
        # Otherwise a typing error in the variable of the controllers would also be reported as 'no
        # controller is named' (F-85).
        if any(map(_may_set_controllers, problems)):
            invalid = [problem for problem in invalid if problem.fact not in NOTHING_RUNS]
        # By place, as a reader goes through the file; what is in no file comes last.
        raise ConfigError(sorted(problems + invalid, key=_place), log_form=_log_form(tree))
    return Loaded(
        settings=settings,
        origins=leaf_origins(settings, tree),
        warnings=(*matched.warnings, *_left_out(tree)),
        tree=tree,
        flags=from_flags,
        pending=matched.pending,
        names=names,
    )


def _file_layer(file: Source | None, names: ControllerNames) -> tuple[Node | None, list[Problem]]:
    if file is None:
        return mapping(Origin("default")), []
    root, problems = read_file(file)
    if root is None:
        return None, problems
    return resolved(root, names), problems + doubly_named(root, names)


def _validated(tree: Node) -> tuple[HostSettings | None, list[Problem]]:
    try:
        return HostSettings.from_merged(tree.plain()), []
    except ValidationError as error:
        return None, problems_of(error, root=tree, model=HostSettings)


def _may_set_controllers(problem: Problem) -> bool:
    """Return whether a refused value may have named controllers: then none is missing."""
    name = problem.origin.name if problem.origin and problem.file is None else ""
    return "controllers" in name.lower()


def _log_form(tree: Node) -> str | None:
    """Return the log format that invalid settings set: their errors are logged in it."""
    node = tree.at(("log", "format"))
    return node.value if node is not None and isinstance(node.value, str) else None


def _place(problem: Problem) -> tuple[bool, int, int]:
    return problem.file is None, problem.line or 0, problem.column or 0


def _left_out(tree: Node) -> list[str]:
    if tree.at(("leaderElection", "enabled")) is not None:
        return []
    return [_NO_LEADER_ELECTION]


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
