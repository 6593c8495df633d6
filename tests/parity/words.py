"""Words in a request that stand for the names and uids that only the server knows."""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
#: Resource and name -> the object as it is now; it is in the namespace of the request, unless the
#: name is `namespace/name`.
LookUp = Callable[[str, str], Mapping[str, Any]]
_UID = re.compile(r"\{uid of (\w+) ([^}]+)\}")
_CLAIM = re.compile(r"\{claim of (\w+) ([^:}]+): ([^}]+)\}")


class NotThere(LookupError):
    """A word stands for something that is not there now; the request is not sent."""


def uid_of(resource: str, name: str) -> str:
    """Return the word for the uid that an object has when the request is sent."""
    return f"{{uid of {resource} {name}}}"


def claim_of(resource: str, name: str, entry: str) -> str:
    """Return the word for the claim that is recorded then for an entry of a pod or PodGroup."""
    return f"{{claim of {resource} {name}: {entry}}}"


def filled(value: T, look_up: LookUp) -> T:
    """Return a value with the words in its texts replaced; `NotThere` when one means nothing."""
    found: Any = value
    match found:
        case str() if "{" in found:
            found = _UID.sub(lambda word: _uid(look_up(*word.groups())), found)
            found = _CLAIM.sub(lambda word: _claim(look_up(word[1], word[2]), entry=word[3]), found)
        case dict():
            found = {key: filled(each, look_up) for key, each in found.items()}
        case list():
            found = [filled(each, look_up) for each in found]
    return found  # type: ignore[no-any-return] # of the type that came in


def _uid(item: Mapping[str, Any]) -> str:
    uid: str = item["metadata"]["uid"]
    return uid


def _claim(item: Mapping[str, Any], *, entry: str) -> str:
    for record in item.get("status", {}).get("resourceClaimStatuses", []):
        if record["name"] == entry and "resourceClaimName" in record:
            name: str = record["resourceClaimName"]
            return name
    raise NotThere(f"no claim is recorded for entry '{entry}' of '{item['metadata']['name']}'")
