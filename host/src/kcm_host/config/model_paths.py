"""Paths through settings models: their keys, their types, and which values are secret."""

import re
from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel, SecretBytes, SecretStr
from pydantic.fields import FieldInfo

_MAX_DEPTH = 6  # a model may contain itself


def keys(annotation: Any) -> dict[str, Any]:
    """Return the keys of values of this type, each with its type; empty if any key is valid."""
    found: dict[str, Any] = {}
    for kind in _alternatives(annotation):
        if _is_model(kind):
            for name, field in kind.model_fields.items():
                found[_key(name, field)] = field.annotation
    return found


def step(annotation: Any, key: str | int) -> Any:
    """Return the type of the value under `key`, None if it is not declared."""
    declared = keys(annotation)
    if key in declared:
        return declared[str(key)]
    for kind in _alternatives(annotation):
        arguments = get_args(kind)
        # The items of a list, the values of a mapping: the last argument is the one that a key
        # leads to.
        if isinstance(get_origin(kind), type) and arguments:
            return arguments[0] if isinstance(key, int) else arguments[-1]
    return None


def at(annotation: Any, path: Sequence[str | int]) -> Any:
    """Return the type of the value at `path`, None if it is not declared."""
    for key in path:
        annotation = step(annotation, key)
    return annotation


def leaves(annotation: Any, depth: int = 0) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all values that are no models themselves."""
    for key, kind in keys(annotation).items():
        inner = list(leaves(kind, depth + 1)) if depth < _MAX_DEPTH else []
        yield from ((key, *rest) for rest in inner or [()])


def is_secret(annotation: Any) -> bool:
    """Return whether values of this type must not be shown."""
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
    """Yield the type itself, or the members of a union and of `Annotated`."""
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
_MAX_LENGTH = 60


def masked(value: Any, *, path: Sequence[str | int], annotation: Any = None) -> Any:
    """
    Return `value` with secrets masked: by key, by type, and the password in a URL.

    `annotation` is the type that `path` starts from. Lists and mappings are masked recursively.
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
    # By name too: many authors write `token: str`, and `config show` is pasted into issues.
    if any(isinstance(key, str) and _NAMES.search(key) for key in path):
        return MASK
    if is_secret(at(annotation, path)):
        return MASK
    return _USER_IN_URL.sub(f"{MASK}@", value) if isinstance(value, str) else value


def shown(value: Any, *, path: Sequence[str | int], annotation: Any = None) -> str:
    """Return one value for an error message: short, as in the file, with secrets masked."""
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
    if len(text) > _MAX_LENGTH:
        text = text[:_MAX_LENGTH] + "..."
    return repr(text) if isinstance(visible, str) else text
