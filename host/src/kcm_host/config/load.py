"""Loads the settings: file, variables and flags are merged and validated once."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from kcm_host.config.environment import Variable, match_variables, read_variables
from kcm_host.config.errors import ConfigError, Problem
from kcm_host.config.flags import read_flags
from kcm_host.config.layers import doubly_named, leaf_origins, resolved, without_nulls
from kcm_host.config.models import HostSettings
from kcm_host.config.names import NO_ALIASES, ControllerNames
from kcm_host.config.tree import Node, Origin, mapping, merge
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
    base = root or mapping(Origin("default"))
    matched = match_variables(variables, known=merge(base, from_flags), names=names)
    problems += matched.problems
    tree = without_nulls(merge(merge(base, matched.root), from_flags))
    settings, invalid = _validated(tree) if root is not None else (None, [])
    if settings is None or problems:
        if any(map(_may_set_controllers, problems)):
            invalid = [problem for problem in invalid if problem.fact not in NOTHING_RUNS]
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
