"""Objects without what is another one each time: ids, versions, times, generated names."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from parity.nets import without_nets
from parity.quantities import in_numbers
from parity.scenario import OWN

Item = dict[str, Any]
_DROPPED = ("resourceVersion", "uid", "creationTimestamp", "name", "namespace")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def normalised(objects: Mapping[str, Sequence[Item]], prefix: str) -> Item:
    """
    Return reference -> object, for resource -> objects.

    Where an object names another one by uid or by a generated name, the replacement says which
    one is meant, so that a reference to the wrong object is still seen.
    """
    spoken = {**_names_of_gone(objects), **_generated_names(objects)}
    for resource, items in objects.items():
        for item in items:
            spoken[item["metadata"]["uid"]] = f"<uid of {_ref(resource, item)}>"
    found = {
        _ref(resource, item): _told(item) for resource, items in objects.items() for item in items
    }
    plain: Item = json.loads(plain_text(json.dumps(found), prefix, spoken))
    return {ref: {**each, "managedFields": _sorted(each)} for ref, each in sorted(plain.items())}


def plain_text(text: str, prefix: str, spoken: Mapping[str, str]) -> str:
    """Return a text with the known names replaced, and all other uids and all times blotted out."""
    for word in sorted(spoken, key=len, reverse=True):
        text = text.replace(word, spoken[word])
    return without_nets(_UID.sub("<uid>", _TIME.sub("<time>", text)), prefix).replace(prefix, OWN)


def _generated_names(objects: Mapping[str, Sequence[Item]]) -> dict[str, str]:
    """Return generated name -> the same with a number that follows from what the object holds."""
    by_stem: dict[str, list[Item]] = {}
    for item in [item for items in objects.values() for item in items]:
        if stem := item["metadata"].get("generateName"):
            by_stem.setdefault(stem, []).append(item)
    names = {}
    for stem, items in by_stem.items():
        for number, item in enumerate(sorted(items, key=_content), 1):
            names[item["metadata"]["name"]] = f"{stem}<{number}>"
    return names


def _names_of_gone(objects: Mapping[str, Sequence[Item]]) -> dict[str, str]:
    """Return generated names of claims that are gone and still recorded: their end is chance."""
    there = {item["metadata"]["name"] for items in objects.values() for item in items}
    recorded = {
        each.get("resourceClaimName", "")
        for items in objects.values()
        for item in items
        for each in item.get("status", {}).get("resourceClaimStatuses", [])
    }
    return {name: f"{name[:-5]}<gone>" for name in recorded - there if len(name) > 5}


def _content(item: Item) -> str:
    return _UID.sub("", _TIME.sub("", json.dumps(_told(item), sort_keys=True)))


def _ref(resource: str, item: Item) -> str:
    metadata = item["metadata"]
    parts = (resource, metadata.get("namespace"), metadata["name"])
    return "/".join(part for part in parts if part)


def _told(item: Item) -> Item:
    metadata = {key: value for key, value in item["metadata"].items() if key not in _DROPPED}
    fields = [_owner(one) for one in metadata.pop("managedFields", [])]
    rest = {key: value for key, value in item.items() if key != "metadata"}
    if recorded := rest.get("status", {}).get("resourceClaimStatuses"):
        # The reference sends them in any order.
        by_name = sorted(recorded, key=lambda each: str(each["name"]))
        rest["status"] = {**rest["status"], "resourceClaimStatuses": by_name}
    return {**_compared_as_meant(rest), "metadata": metadata, "managedFields": fields}


def _compared_as_meant(item: Item) -> Item:
    """Return usage in numbers, and services without the addresses that the server draws."""
    match item:
        case {"kind": "ResourceQuota", "status": {"used": used, **status}}:
            return {**item, "status": {**status, "used": in_numbers(used)}}
        case {"kind": "Service", "spec": {**spec}}:
            given: Any = spec.get("ports", [])
            ports = [
                {**port, "nodePort": "<port>"} if port.get("nodePort") else port for port in given
            ]
            drawn = {name: "<address>" for name in ("clusterIP", "clusterIPs") if name in spec}
            return {**item, "spec": {**spec, **drawn, "ports": ports}}
    return item


def _owner(entry: Item) -> Item:
    return {
        "manager": entry["manager"],
        "operation": entry["operation"],
        "apiVersion": entry["apiVersion"],
        "subresource": entry.get("subresource", ""),
        "fields": sorted(_paths(entry["fieldsV1"])),
    }


def _paths(fields: Item, above: str = "") -> list[str]:
    """Return the field set, one line for each leaf."""
    if not fields:
        return [above]
    return [
        path for key, below in fields.items() for path in _paths(below, f"{above} {key}".strip())
    ]


def _sorted(each: Item) -> list[Item]:
    """Put who owns the same fields on both sides at the same place: the manager comes last."""

    def place(one: Item) -> tuple[Any, ...]:
        return one["operation"], one["subresource"], sorted(one["fields"]), one["manager"]

    return [
        {**one, "fields": sorted(one["fields"])} for one in sorted(each["managedFields"], key=place)
    ]
