"""How the in-memory server changes an object by a strategic merge patch or an apply."""

from copy import deepcopy
from typing import Any

#: The field that tells the entries of a list apart, for lists that are merged by entry.
MERGE_KEYS = {"conditions": "type", "resourceClaimStatuses": "name", "ownerReferences": "uid"}
#: Lists of plain values that are merged like sets.
SETS = ("finalizers",)
DELETE_FROM = "$deleteFromPrimitiveList/"


def merged(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Return `target` changed by a strategic merge patch or by the fields of an apply."""
    result = deepcopy(target)
    for name, value in patch.items():
        if name.startswith(DELETE_FROM):
            field = name.removeprefix(DELETE_FROM)
            kept = [each for each in result.get(field, []) if each not in value]
            result[field] = kept
        elif value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = merged(result.get(name) or {}, value)
        elif name in SETS:
            known = result.get(name, [])
            result[name] = [*known, *(each for each in value if each not in known)]
        elif name in MERGE_KEYS:
            result[name] = _by_key(result.get(name) or [], value, MERGE_KEYS[name])
        else:
            result[name] = deepcopy(value)
    return result


def _by_key(known: list[Any], wanted: list[Any], key: str) -> list[Any]:
    entries = {each[key]: each for each in known}
    for each in wanted:
        entries[each[key]] = merged(entries.get(each[key], {}), each)
    return list(entries.values())
