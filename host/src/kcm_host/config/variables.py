"""Environment variables that are settings: which they are and what they say."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kcm_host.config.problems import Problem
from kcm_host.config.text import read_value
from kcm_host.config.tree import Node, Origin

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
