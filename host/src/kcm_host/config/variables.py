"""Environment variables: which ones are settings, and which key each of them means."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kcm_host.config import shape
from kcm_host.config.layers import named_controllers, with_short_names
from kcm_host.config.models import HostSettings
from kcm_host.config.names import spellings
from kcm_host.config.problems import Problem, suggest
from kcm_host.config.text import read_value
from kcm_host.config.tree import Node, Origin, Path, mapping, merge, nested

PREFIX: Final = "KCM_HOST_"
# What Kubernetes puts into every pod of a namespace that has a Service called kcm-host.
_SERVICE_LINK = re.compile(
    r"SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?"
)


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable with the prefix: its value and the segments of its name that are still to match."""

    name: str
    segments: tuple[str, ...]
    node: Node


@dataclass(frozen=True, slots=True)
class Matched:
    """What the variables set, those that wait for a plugin's settings model, and what was odd."""

    root: Node
    pending: Mapping[str, tuple[Variable, ...]]
    warnings: tuple[str, ...]


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


def match_variables(variables: Sequence[Variable], *, known: Node) -> Matched:
    """
    Each variable at its place in the file's structure; `known` holds the controllers that run.

    Segments match ignoring case, `-` and `_`. What lies below a controller's `settings` stays pending:
    its keys are known when the plugin is.
    """
    names = named_controllers(known)
    root = mapping(Origin("variable"))
    pending: dict[str, tuple[Variable, ...]] = {}
    warnings: list[str] = []
    for variable in variables:
        path = _host_path(variable.segments, names)
        if path is None:
            warnings.append(_unknown(variable, candidates=_candidates(names)))
        elif len(variable.segments) > len(path):
            rest = Variable(variable.name, variable.segments[len(path) :], variable.node)
            pending[str(path[1])] = (*pending.get(str(path[1]), ()), rest)
        else:
            node, odd = _without_new_controllers(path, variable, names)
            warnings += odd
            root = merge(root, nested([str(key) for key in path], node))
    return Matched(root, pending, tuple(warnings))


def match_settings(
    variables: Iterable[Variable], *, settings: Node, model: Any, controller: str
) -> tuple[Node, tuple[str, ...]]:
    """The pending variables of one controller at their keys in its settings, and warnings."""
    root = mapping(Origin("variable"))
    warnings: list[str] = []
    prefix = ("controllers", controller, "settings")
    for variable in variables:
        path = walk(variable.segments, annotation=model, node=settings)
        if path is None:
            candidates = [variable_name((*prefix, *leaf)) for leaf in shape.leaves(model)]
            warnings.append(_unknown(variable, candidates=candidates))
        else:
            root = merge(root, nested(path, variable.node))
    return root, tuple(warnings)


def walk(segments: Sequence[str], *, annotation: Any, node: Node | None) -> list[str] | None:
    """The keys that the segments mean, by type and by what `node` holds; None if one means none."""
    path: list[str] = []
    for segment in segments:
        choices = [*shape.keys(annotation), *(node.entries if node else ())]
        key = _one(segment, {choice: (choice,) for choice in choices})
        if key is None:
            return None
        path.append(key)
        annotation = shape.step(annotation, key)
        node = node.child(key) if node else None
    return path


def variable_name(path: Iterable[str]) -> str:
    """The variable that sets the value at `path`."""
    return PREFIX + "__".join(key.upper().replace("-", "_") for key in path)


def _host_path(segments: Sequence[str], names: Collection[str]) -> Path | None:
    """The path in the file; it ends at a controller's `settings` even if segments are left."""
    first = walk(segments[:1], annotation=HostSettings, node=None)
    if first != ["controllers"] or len(segments) == 1:
        return _tuple(walk(segments, annotation=HostSettings, node=None))
    name = _one(segments[1], {name: spellings(name) for name in names})
    if name is None:
        return None
    annotation = shape.at(HostSettings, ("controllers", name))
    third = walk(segments[2:3], annotation=annotation, node=None)
    if third is None or (len(segments) > 3 and third != ["settings"]):
        return None
    return ("controllers", name, *third)


def _tuple(path: list[str] | None) -> Path | None:
    return None if path is None else tuple(path)


def _one(segment: str, choices: Mapping[str, Iterable[str]]) -> str | None:
    """The one key that the segment means; None if there is none or more than one."""
    folded = _fold(segment)
    found = [key for key, ways in choices.items() if folded in map(_fold, ways)]
    return found[0] if len(found) == 1 else None


def _fold(text: str) -> str:
    return text.lower().replace("-", "").replace("_", "")


def _without_new_controllers(
    path: Path, variable: Variable, names: Collection[str]
) -> tuple[Node, list[str]]:
    if path != ("controllers",) or not isinstance(variable.node.value, dict):
        return variable.node, []
    entries = with_short_names(variable.node).entries
    kept = {name: node for name, node in entries.items() if name in names}
    odd = [
        f"variable '{variable.name}' names controller '{name}', which the file does not; "
        f"it is ignored: a variable never adds a controller"
        for name in entries
        if name not in names
    ]
    return mapping(variable.node.origin, kept), odd


def _candidates(names: Iterable[str]) -> Iterator[str]:
    for leaf in shape.leaves(HostSettings):
        if leaf[0] != "controllers":
            yield variable_name(leaf)
    for name in names:
        for key in shape.keys(shape.at(HostSettings, ("controllers", name))):
            yield variable_name(("controllers", name, key))


def _unknown(variable: Variable, *, candidates: Iterable[str]) -> str:
    """The warning about a variable that means nothing, with the closest one that would."""
    by_rest = [candidate.removeprefix(PREFIX) for candidate in candidates]
    close = suggest(variable.name.removeprefix(PREFIX), by_rest)
    fact = f"variable '{variable.name}' is no setting and is ignored"
    if len(variable.segments) > 1 and _fold(variable.segments[0]) == "controllers":
        fact += " (a variable never adds a controller)"
    return f"{fact}; did you mean '{PREFIX}{close}'?" if close else fact
