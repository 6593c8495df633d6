"""Settings from environment variables."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kcm_host.config import model_paths
from kcm_host.config.errors import Problem, suggest
from kcm_host.config.layers import doubly_named, named_controllers, with_short_names
from kcm_host.config.models import HostSettings
from kcm_host.config.names import spellings
from kcm_host.config.tree import Node, Origin, dotted, mapping, merge, nested
from kcm_host.config.yaml import read_value

PREFIX: Final = "KCM_HOST_"
#: Names the config file; no setting.
CONFIG_VARIABLE: Final = "KCM_HOST_CONFIG"
# What Kubernetes puts into every pod of a namespace that has a Service called kcm-host.
_SERVICE_LINK = re.compile(
    r"SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?"
)


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable with the prefix: its value and the segments of its name still to be matched."""

    name: str
    segments: tuple[str, ...]
    node: Node


def read_variables(
    environ: Mapping[str, str], *, reserved: Collection[str] = ()
) -> tuple[list[Variable], list[Problem]]:
    """
    The settings in `environ`, the shortest paths first so that the more specific one wins later.

    Empty variables count as unset; `reserved` names are read by somebody else.
    """
    found: list[Variable] = []
    problems: list[Problem] = []
    for name in sorted(environ):
        rest = name.removeprefix(PREFIX)
        if rest == name or name in reserved or not environ[name] or _SERVICE_LINK.fullmatch(rest):
            continue
        node, wrong = read_value(environ[name], Origin("variable", name))
        problems += wrong
        if node is not None:
            found.append(Variable(name, tuple(rest.split("__")), node))
    return sorted(found, key=lambda variable: len(variable.segments)), problems


def variable_name(path: Iterable[str]) -> str:
    """The variable that sets the value at `path`."""
    return PREFIX + "__".join(key.upper().replace("-", "_") for key in path)


StrPath = tuple[str, ...]


@dataclass(slots=True)
class Matched:
    """What variables set, those that wait for a plugin's settings model, and what is wrong."""

    root: Node = field(default_factory=lambda: mapping(Origin("variable")))
    pending: dict[str, tuple[Variable, ...]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    setters: dict[StrPath, str] = field(default_factory=dict)

    def put(self, variable: Variable, path: StrPath, node: Node) -> None:
        """Lay the value over what is there; warn when another variable has set the same path."""
        earlier = self.setters.setdefault(path, variable.name)
        if earlier != variable.name:
            self.warnings.append(
                f"variables '{earlier}' and '{variable.name}' both set '{dotted(path)}'; "
                f"the latter wins: remove one of them"
            )
        self.root = merge(self.root, nested(path, node))


def match_variables(variables: Iterable[Variable], *, known: Node) -> Matched:
    """
    Each variable at its place in the file's structure; `known` holds file and flags.

    Segments match ignoring case, `-` and `_`. The mapping in KCM_HOST_CONTROLLERS adds controllers
    as the file does; a variable for a part of one never adds it, because its segment may be a
    typing error. What lies below a controller's `settings` stays pending: its keys are known when
    the plugin is.
    """
    names = list(named_controllers(known))
    matched = Matched()
    for variable in variables:
        path = _host_path(variable.segments, names)
        if path is None:
            warning = _unknown(variable, candidates=_candidates(names))
            matched.warnings.append(warning + _why(variable.segments, names))
        elif len(variable.segments) > len(path):
            rest = Variable(variable.name, variable.segments[len(path) :], variable.node)
            matched.pending[path[1]] = (*matched.pending.get(path[1], ()), rest)
        elif path == ("controllers",):
            controllers = with_short_names(variable.node)
            names += [name for name in controllers.entries if name not in names]
            matched.problems += doubly_named(nested(path, variable.node))
            matched.put(variable, path, controllers)
        else:
            matched.put(variable, path, variable.node)
    return matched


def match_settings(
    variables: Iterable[Variable], *, settings: Node, model: Any, controller: str
) -> Matched:
    """The pending variables of one controller, at their keys in its settings."""
    matched = Matched()
    prefix = ("controllers", controller, "settings")
    for variable in variables:
        path = _walk(variable.segments, annotation=model, node=settings)
        if path is None:
            candidates = [variable_name((*prefix, *leaf)) for leaf in model_paths.leaves(model)]
            matched.warnings.append(_unknown(variable, candidates=candidates))
        else:
            matched.put(variable, path, variable.node)
    return matched


def _why(segments: Sequence[str], names: Collection[str]) -> str:
    """What a reader may not know about a variable for a controller that does not run."""
    if len(segments) == 1 or _fold(segments[0]) != "controllers" or _controller(segments[1], names):
        return ""
    return (
        f"; '{segments[1]}' is no controller that runs, and only the variable "
        f"'{variable_name(['controllers'])}' may add one"
    )


def _host_path(segments: Sequence[str], names: Collection[str]) -> StrPath | None:
    """The path in the file; it ends at a controller's `settings` even if segments are left."""
    if len(segments) == 1 or _fold(segments[0]) != "controllers":
        return _walk(segments, annotation=HostSettings, node=None)
    name = _controller(segments[1], names)
    if name is None:
        return None
    annotation = model_paths.at(HostSettings, ("controllers", name))
    below = _walk(segments[2:3], annotation=annotation, node=None)
    if below is None or (len(segments) > 3 and below != ("settings",)):
        return None
    return ("controllers", name, *below)


def _controller(segment: str, names: Collection[str]) -> str | None:
    return _one(segment, {name: spellings(name) for name in names})


def _walk(segments: Sequence[str], *, annotation: Any, node: Node | None) -> StrPath | None:
    """The keys that the segments mean, by type and by what `node` holds; None if one means none."""
    path: list[str] = []
    for segment in segments:
        choices = [*model_paths.keys(annotation), *(node.entries if node else ())]
        key = _one(segment, {choice: (choice,) for choice in choices})
        if key is None:
            return None
        path.append(key)
        annotation = model_paths.step(annotation, key)
        node = node.child(key) if node else None
    return tuple(path)


def _one(segment: str, choices: Mapping[str, Iterable[str]]) -> str | None:
    """The one key that the segment means; None if there is none or more than one."""
    folded = _fold(segment)
    found = [key for key, ways in choices.items() if folded in map(_fold, ways)]
    return found[0] if len(found) == 1 else None


def _fold(text: str) -> str:
    return text.lower().replace("-", "").replace("_", "")


def _candidates(names: Iterable[str]) -> Iterator[str]:
    for leaf in model_paths.leaves(HostSettings):
        if leaf[0] != "controllers":
            yield variable_name(leaf)
    for name in names:
        for key in model_paths.keys(model_paths.at(HostSettings, ("controllers", name))):
            yield variable_name(("controllers", name, key))


def _unknown(variable: Variable, *, candidates: Iterable[str]) -> str:
    """The warning about a variable that means nothing, with the closest one that would."""
    by_rest = [candidate.removeprefix(PREFIX) for candidate in candidates]
    close = suggest(variable.name.removeprefix(PREFIX), by_rest, likeness=0.85)
    fact = f"variable '{variable.name}' is no setting and is ignored"
    return f"{fact}; did you mean '{PREFIX}{close}'?" if close else fact
