"""Paths through settings models: which keys there are, and which values are secret."""

import re
from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel, SecretBytes, SecretStr
from pydantic.fields import FieldInfo

_DEEPEST = 6  # a model may contain itself


def keys(annotation: Any) -> dict[str, Any]:
    """The keys that values of this type take, each with its own type; empty if any key will do."""
    found: dict[str, Any] = {}
    for kind in _alternatives(annotation):
        if _is_model(kind):
            for name, field in kind.model_fields.items():
                found[_key(name, field)] = field.annotation
    return found


def step(annotation: Any, key: str | int) -> Any:
    """The type of the value under `key`, None if the type says nothing about it."""
    declared = keys(annotation)
    if key in declared:
        return declared[str(key)]
    for kind in _alternatives(annotation):
        arguments = get_args(kind)
        if isinstance(get_origin(kind), type) and arguments:
            return arguments[0] if isinstance(key, int) else arguments[-1]
    return None


def at(annotation: Any, path: Sequence[str | int]) -> Any:
    """The type of the value at `path`, None if the types say nothing about it."""
    for key in path:
        annotation = step(annotation, key)
    return annotation


def leaves(annotation: Any, depth: int = 0) -> Iterator[tuple[str, ...]]:
    """The paths of all values below that are no models themselves."""
    for key, kind in keys(annotation).items():
        inner = list(leaves(kind, depth + 1)) if depth < _DEEPEST else []
        yield from ((key, *rest) for rest in inner or [()])


def is_secret(annotation: Any) -> bool:
    """True for the types whose values must not be shown."""
    return any(kind in (SecretStr, SecretBytes) for kind in _alternatives(annotation))


def _key(name: str, field: FieldInfo) -> str:
    match field.validation_alias:
        case str() as alias:
            return alias
        case AliasChoices(choices=[str() as alias, *_]):
            return alias
        case _:
            return name


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _alternatives(annotation: Any) -> Iterator[Any]:
    """The type itself, or the members of a union and what `Annotated` wraps."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _alternatives(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for member in get_args(annotation):
            yield from _alternatives(member)
    else:
        yield annotation


MASK: Final = "**********"
_NAMES = re.compile(
    r"passw|passphrase|secret|token|credential|private.?key|api.?key|authorization", re.IGNORECASE
)
_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")
_LONGEST = 60


def masked(value: Any, *, path: Sequence[str | int], annotation: Any = None) -> Any:
    """
    `value` if it may be shown: not under a telling key, not of a secret type, no password in a URL.

    `annotation` is the type that `path` starts from. Lists and mappings are gone through.
    """
    if isinstance(value, dict):
        return {
            key: masked(inner, path=(*path, key), annotation=annotation)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [masked(item, path=(*path, 0), annotation=annotation) for item in value]
    if value is None or isinstance(value, bool):
        return value
    if any(isinstance(key, str) and _NAMES.search(key) for key in path):
        return MASK
    if is_secret(at(annotation, path)):
        return MASK
    return _USER_IN_URL.sub(f"{MASK}@", value) if isinstance(value, str) else value


def shown(value: Any, *, path: Sequence[str | int], annotation: Any = None) -> str:
    """One value for an error message: short, as in the file, nothing secret."""
    match value:
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
    visible = masked(value, path=path, annotation=annotation)
    text = str(visible)
    if len(text) > _LONGEST:
        text = text[:_LONGEST] + "..."
    return repr(text) if isinstance(visible, str) else text
