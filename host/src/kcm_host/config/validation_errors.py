"""Errors of pydantic as problems of the configuration, each with its line."""

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kcm_host.api.errors import Invalid
from kcm_host.api.settings import format_duration
from kcm_host.config import model_paths
from kcm_host.config.errors import MAX_PROBLEMS, Problem, did_you_mean, suggest
from kcm_host.config.model_paths import shown
from kcm_host.config.overrides import CONFIG_VARIABLE, variable_name
from kcm_host.config.tree import Node, Path, dotted, locate
from kcm_host.config.yaml import EXAMPLE

_TIMEDELTA_PART = re.compile(r"(days|seconds|microseconds)=(-?\d+)")
_NO_FILE = "no config file is named, and neither a variable nor a flag names a controller"
_NO_CONTROLLER = "no controller is named, so nothing would run"
#: The facts of the error that nothing would run.
NOTHING_RUNS = (_NO_FILE, _NO_CONTROLLER)
_EXPECTED = {
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be text",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "set_type": "must be a list",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
}


def problems_of(
    error: ValidationError, *, root: Node, model: type[BaseModel], above: Path = ()
) -> list[Problem]:
    """
    Return the errors of pydantic as problems, one more than `ConfigError` reports at most.

    `root` was validated with `model`; `above` is the path of `root` in the file.
    """
    # Cut off before the texts are made: a generated file may have thousands.
    details = error.errors(include_url=False)[: MAX_PROBLEMS + 1]
    return [_problem(detail, root=root, model=model, above=above) for detail in details]


def _problem(detail: ErrorDetails, *, root: Node, model: type[BaseModel], above: Path) -> Problem:
    loc = detail["loc"]
    if detail["type"] == "missing":
        path, parent = locate(root, loc[:-1])
        return _missing((*above, *path, loc[-1]), parent)
    path, node = locate(root, loc)
    full_path = (*above, *path)
    if detail["type"] == "extra_forbidden":
        choices = list(model_paths.keys(model_paths.at(model, path[:-1])))
        return Problem(
            f"unknown key '{path[-1]}'" if path else "unknown key",
            path=dotted(full_path),
            origin=node.key or node.origin,
            remedy=did_you_mean(str(path[-1]), choices) if path else "",
        )
    # An empty mapping is the same mistake as a missing one, so it gets the same advice (F-88).
    if full_path == ("controllers",) and detail["type"] == "too_short":
        return _missing(full_path, node)
    fact, remedy = _fact(detail, found=_found(detail, path, model))
    return Problem(fact, path=dotted(full_path), origin=node.origin, remedy=remedy)


def _missing(path: Path, parent: Node) -> Problem:
    if path == ("controllers",) and parent.origin.kind == "default":
        example = f"{variable_name(path)}='{{ttl: {{}}}}'"
        return Problem(
            _NO_FILE,
            remedy=f"name a file with -c FILE or {CONFIG_VARIABLE}, or set for example {example}",
        )
    if path == ("controllers",):
        return Problem(
            _NO_CONTROLLER,
            path="controllers",
            origin=parent.origin,
            remedy=f"write for example '{EXAMPLE}'",
        )
    fact = f"'{path[-1]}' is missing"
    return Problem(fact, path=dotted(path), origin=parent.origin, remedy=f"add '{path[-1]}'")


def _found(detail: ErrorDetails, path: Sequence[str | int], model: type[BaseModel]) -> str:
    return shown(detail["input"], path=path, annotation=model)


def _fact(detail: ErrorDetails, *, found: str) -> tuple[str, str]:
    """Return the fact and the remedy of one error of pydantic."""
    context = detail.get("ctx", {})
    raised = context.get("error")
    if isinstance(raised, Invalid):
        return raised.fact, raised.remedy
    if detail["type"] == "value_error" and raised is not None:  # a validator of a plugin
        return str(raised), ""
    words = _EXPECTED.get(detail["type"])
    if words is None:
        return f"{_plain(detail['msg'])}, found {found}", ""
    bounds = {key: _bound(value) for key, value in context.items()}
    fact = f"{words.format(**bounds)}, found {found}"
    return fact, _remedy(detail, str(bounds.get("expected", "")))


def _bound(value: Any) -> Any:
    """Return a bound in the format of the file; pydantic has that of a duration as Python code."""
    if isinstance(value, str) and value.startswith("datetime.timedelta("):
        parts = {unit: int(count) for unit, count in _TIMEDELTA_PART.findall(value)}
        return f"'{format_duration(timedelta(**parts))}'"
    return value


def _plain(message: str) -> str:
    text = message.replace("Input should", "must", 1)
    return text[:1].lower() + text[1:]


def _remedy(detail: ErrorDetails, expected: str) -> str:
    value = detail["input"]
    # `version: 1.10` is the usual mistake: YAML has made a number of it.
    if detail["type"] == "string_type" and isinstance(value, bool | int | float):
        return "put it in quotes"
    if detail["type"] in ("int_type", "float_type") and isinstance(value, str):
        return "leave the quotes out" if value.strip().replace(".", "", 1).isdigit() else ""
    if detail["type"] in ("literal_error", "enum") and isinstance(value, str):
        choices = [choice.strip("' ") for choice in expected.replace(" or ", ",").split(",")]
        close = suggest(value, choices)
        return f"did you mean '{close}'?" if close else ""
    return ""
