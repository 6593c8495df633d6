"""Settings that override the file: environment variables, `--set path=value`, and flags."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kcm_host.config import model_paths
from kcm_host.config.errors import Problem, suggest
from kcm_host.config.layers import (
    ControllerNames,
    doubly_named,
    named_controllers,
    resolved,
    without_aliases,
)
from kcm_host.config.models import HostSettings
from kcm_host.config.tree import Node, Origin, dotted, mapping, merge, nested
from kcm_host.config.yaml import read_value

PREFIX: Final = "KCM_HOST_"
#: The path of the config file; not a setting.
CONFIG_VARIABLE: Final = "KCM_HOST_CONFIG"
# Set by Kubernetes in every pod of a namespace that has a Service called kcm-host.
_SERVICE_LINK = re.compile(
    r"SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?"
)


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable with the prefix: its value and the unmatched segments of its name."""

    name: str
    segments: tuple[str, ...]
    node: Node


def read_variables(
    environ: Mapping[str, str], *, reserved: Collection[str] = ()
) -> tuple[list[Variable], list[Problem]]:
    """
    Return the settings in `environ`, shortest paths first, so that a more specific one wins.

    Empty variables count as unset; `reserved` names are read by the caller.
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
    # In the order of names first, so that two variables for one path win alike on every machine.
    return sorted(found, key=lambda variable: len(variable.segments)), problems


def variable_name(path: Iterable[str]) -> str:
    """Return the name of the variable that sets the value at `path`."""
    return PREFIX + "__".join(key.upper().replace("-", "_") for key in path)


StrPath = tuple[str, ...]


@dataclass(slots=True)
class Matched:
    """The values of variables, those that wait for a plugin's settings model, and the errors."""

    root: Node = field(default_factory=lambda: mapping(Origin("variable")))
    pending: dict[str, tuple[Variable, ...]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    setters: dict[StrPath, str] = field(default_factory=dict)

    def put(self, variable: Variable, path: StrPath, node: Node) -> None:
        """Merge the value into `root`; warn when another variable has set the same path."""
        earlier = self.setters.setdefault(path, variable.name)
        if earlier != variable.name:
            self.warnings.append(
                f"variables '{earlier}' and '{variable.name}' both set '{dotted(path)}'; "
                f"the latter wins: remove one of them"
            )
        self.root = merge(self.root, nested(path, node))


def match_variables(
    variables: Iterable[Variable], *, known: Node, names: ControllerNames
) -> Matched:
    """
    Return each variable at its path in the configuration; `known` has the file and the flags.

    Segments match ignoring case, `-` and `_`. The mapping in KCM_HOST_CONTROLLERS adds controllers
    as the file does; a variable for a part of one never adds it, because its segment may be a
    typing error. Variables below a controller's `settings` stay pending until its plugin is loaded.
    """
    enabled = list(named_controllers(known))
    matched = Matched()
    for variable in variables:
        path = _host_path(variable.segments, enabled, names)
        if path is None:
            warning = _unknown(variable, candidates=_candidates(enabled))
            matched.warnings.append(warning + _hint(variable.segments, enabled, names))
        elif len(variable.segments) > len(path):
            rest = Variable(variable.name, variable.segments[len(path) :], variable.node)
            matched.pending[path[1]] = (*matched.pending.get(path[1], ()), rest)
        # Before the longer ones, by the order of `read_variables`: these may be about controllers
        # that it adds.
        elif path == ("controllers",):
            controllers = without_aliases(variable.node, names)
            enabled += [name for name in controllers.entries if name not in enabled]
            matched.problems += doubly_named(nested(path, variable.node), names)
            matched.put(variable, path, controllers)
        else:
            matched.put(variable, path, variable.node)
    return matched


def match_settings(
    variables: Iterable[Variable], *, settings: Node, model: Any, controller: str
) -> Matched:
    """Return the pending variables of one controller, at their keys in its settings."""
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


def _hint(segments: Sequence[str], enabled: Collection[str], names: ControllerNames) -> str:
    """Return the hint for a variable of a controller that is not enabled; empty for others."""
    if len(segments) == 1 or _fold(segments[0]) != "controllers":
        return ""
    if _controller(segments[1], enabled, names):
        return ""
    return (
        f"; '{segments[1]}' is no controller that runs, and only the variable "
        f"'{variable_name(['controllers'])}' may add one"
    )


def _host_path(
    segments: Sequence[str], enabled: Collection[str], names: ControllerNames
) -> StrPath | None:
    """Return the path in the file, at most to a controller's `settings`; None without a match."""
    if len(segments) == 1 or _fold(segments[0]) != "controllers":
        return _walk(segments, annotation=HostSettings, node=None)
    name = _controller(segments[1], enabled, names)
    if name is None:
        return None
    annotation = model_paths.at(HostSettings, ("controllers", name))
    below = _walk(segments[2:3], annotation=annotation, node=None)
    if below is None or (len(segments) > 3 and below != ("settings",)):
        return None
    return ("controllers", name, *below)


def _controller(segment: str, enabled: Collection[str], names: ControllerNames) -> str | None:
    """Return the enabled controller of this name; its aliases are asked for only if needed."""
    # Names first: for aliases every installed plugin has to be imported.
    plain = _one(segment, {name: (name,) for name in enabled})
    return plain or _one(segment, {name: names.spellings(name) for name in enabled})


def _walk(segments: Sequence[str], *, annotation: Any, node: Node | None) -> StrPath | None:
    """Return the keys that match the segments, by type and by `node`; None if one has no match."""
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
    """Return the one key that matches the segment; None if there is none or more than one."""
    folded = _fold(segment)
    found = [key for key, forms in choices.items() if folded in map(_fold, forms)]
    # Two keys that differ in `-` or case only are ambiguous, and a guess would set the wrong one.
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
    """Return the warning about a variable without a match, with the closest valid name."""
    # Without the common prefix, which would make all names alike.
    by_rest = [candidate.removeprefix(PREFIX) for candidate in candidates]
    close = suggest(variable.name.removeprefix(PREFIX), by_rest, likeness=0.85)
    fact = f"variable '{variable.name}' is no setting and is ignored"
    return f"{fact}; did you mean '{PREFIX}{close}'?" if close else fact


_DOT = re.compile(r"(?<!\\)\.")


def read_flags(
    overrides: Sequence[str], flags: Mapping[str, str], *, names: ControllerNames
) -> tuple[Node, list[Problem]]:
    """
    Return the command line as one layer: a later `--set` wins, a flag wins over any `--set`.

    The value of a `--set` is YAML, the value of a flag is a string.
    """
    root = mapping(Origin("flag"))
    problems: list[Problem] = []
    for override in overrides:
        found = _override(override, names)
        if isinstance(found, Node):
            root = merge(root, found)
        else:
            problems += found
    for path, text in flags.items():
        origin = Origin("flag", "--" + path.replace(".", "-"))
        root = merge(root, nested(path.split("."), Node(text, origin)))
    return root, problems


def _override(override: str, names: ControllerNames) -> Node | list[Problem]:
    path, equals, text = override.partition("=")
    keys = [key.replace("\\.", ".") for key in _DOT.split(path.strip())]
    origin = Origin("flag", f"--set {path.strip()}")
    if not equals or not all(keys):
        return [
            Problem(
                "'--set' takes path=value",
                origin=origin,
                remedy="write for example '--set controllers.ttl.workers=3'",
            )
        ]
    node, problems = read_value(text, origin)
    if node is None:
        return problems
    layer = nested(keys, node)
    return doubly_named(layer, names) or resolved(layer, names)
