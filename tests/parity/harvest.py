"""Takes what came of the scenarios on one API server: objects, Events and writes of each."""

import re
from collections.abc import Mapping
from typing import Any

from parity.api import Api
from parity.controllers import controller_of
from parity.nets import is_in_own_net
from parity.normalise import Item, normalised, plain_text
from parity.result import Objects
from parity.scenario import Scenario, owned

from kcm_host_testing.audit import Entry

#: The end that the server gives to a generated name, in a text about an object it did not take.
_MADE_UP = re.compile(r'"([-.a-z0-9]*)[bcdfghjklmnpqrstvwxz2456789]{5}"')


class Harvest:
    """The objects on a server at one moment, each resource listed once for all scenarios."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._listed: dict[str, list[Item]] = {}

    def objects(self, scenario: Scenario, prefix: str) -> Objects:
        """Return the objects that are a scenario's own, or that it names as further ones."""
        also = owned(list(scenario.also), prefix)
        wanted = {
            resource: [
                item for item in self._items(resource) if _is_wanted(resource, item, prefix, also)
            ]
            for resource in sorted(scenario.collected - {"events"})
        }
        return normalised(wanted, prefix)

    def events(self, scenario: Scenario, prefix: str) -> list[str]:
        """Return what Events say about a scenario's objects."""
        spoken = self._spoken(scenario, prefix)
        told = {
            plain_text(_said(item), prefix, spoken)
            for item in self._items("events")
            if not _is_of_the_server(item)
            and prefix
            in f"{item['involvedObject'].get('namespace')} {item['involvedObject'].get('name')}"
        }
        return sorted(told)

    def _spoken(self, scenario: Scenario, prefix: str) -> Mapping[str, str]:
        found = {}
        for resource in scenario.collected:
            for item in self._items(resource):
                stem = item["metadata"].get("generateName", "")
                if stem.startswith(prefix) or prefix in item["metadata"].get("namespace", ""):
                    found[item["metadata"]["name"]] = (
                        f"{stem}<n>" if stem else item["metadata"]["name"]
                    )
        return found

    def _items(self, resource: str) -> list[Item]:
        if resource not in self._listed:
            self._listed[resource] = list(self._api.items(resource))
        return self._listed[resource]


def writes(entries: list[Entry], scenario: Scenario, prefix: str) -> dict[str, dict[str, int]]:
    """Count the writes of controllers that concern a scenario."""
    also = owned(list(scenario.also), prefix)
    counts: dict[str, dict[str, int]] = {}
    for entry in entries:
        controller = controller_of(entry.user)
        if controller is None or not _concerns(entry, prefix, also):
            continue
        what = f"{entry.resource}/{entry.subresource}".rstrip("/")
        of = counts.setdefault(controller, {})
        told = f"{entry.verb} {what} {entry.code}"
        of[told] = of.get(told, 0) + 1
    return {name: dict(sorted(counts[name].items())) for name in sorted(counts)}


def _concerns(entry: Entry, prefix: str, also: list[str]) -> bool:
    if entry.resource == "events":
        return False
    own = entry.name.startswith(prefix) or entry.namespace.startswith(prefix)
    return own or f"{entry.resource}/{entry.name}" in also


def _is_wanted(resource: str, item: Item, prefix: str, also: list[str]) -> bool:
    metadata = item["metadata"]
    own = metadata["name"].startswith(prefix) or metadata.get("namespace", "").startswith(prefix)
    own = own or (resource == "ipaddresses" and is_in_own_net(metadata["name"], prefix))
    return own or f"{resource}/{metadata['name']}" in also


def _is_of_the_server(event: Item) -> bool:
    """Return whether the API server told it, which repairs addresses when it comes to it."""
    component: str = event.get("source", {}).get("component", "")
    told_by: str = event.get("reportingComponent") or component
    return told_by.endswith("-repair-controller")


def _said(item: Mapping[str, Any]) -> str:
    about = item["involvedObject"]
    place = "/".join(part for part in (about.get("namespace"), about["name"]) if part)
    # Whether the same is told once more or as one of many is a matter of how often it was retried.
    message = item.get("message", "").removeprefix("(combined from similar events): ")
    said = _MADE_UP.sub(r'"\1<n>"', message)
    return f"{about['kind']} {place}: {item['type']} {item['reason']}: {said}"
