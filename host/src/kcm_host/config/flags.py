"""Settings from the command line: `--set path=value`, and the flags for single settings."""

import re
from collections.abc import Mapping, Sequence

from kcm_host.config.errors import Problem
from kcm_host.config.layers import doubly_named, resolved
from kcm_host.config.names import ControllerNames
from kcm_host.config.tree import Node, Origin, mapping, merge, nested
from kcm_host.config.yaml import read_value

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
