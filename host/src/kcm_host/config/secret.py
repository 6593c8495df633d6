"""Which values must not be shown, and what is shown in their place."""

import re
from collections.abc import Sequence
from typing import Any, Final

from kcm_host.config.shape import at, is_secret

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
