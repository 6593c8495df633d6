"""A value in a variable or behind `--set`: YAML where it is YAML, else the text itself."""

from kcm_host.config.problems import Problem
from kcm_host.config.tree import Node, Origin
from kcm_host.config.yamlfile import NOT_YAML, read_text


def read_value(text: str, origin: Origin) -> tuple[Node | None, list[Problem]]:
    """
    What `text` means: `3`, `true`, `5m`, `{a: 1}`, or itself where it is no YAML (`[::1]:10270`).

    An empty text is null. Keys that stand twice and the like are problems.
    """
    node, problems = read_text(text, origin)
    if problems and any(problem.fact.startswith(NOT_YAML) for problem in problems):
        return Node(text, origin), []
    return (node or Node(None, origin)) if not problems else None, problems
