"""Small controllers for other processes, each with one thing that a test wants of it."""

from collections.abc import Callable
from textwrap import dedent, indent
from typing import Any

from eventually import eventually
from plugin_site import PluginSite
from running_host import RunningHost

MODEL = """
class Thing(msgspec.Struct, frozen=True):
    metadata: dict[str, object] = {}
    data: dict[str, str] = {}
"""

LOOP = """
import asyncio
import itertools
import time
from pathlib import Path

import msgspec
from kcm_host.api import Done, Kind, Watch, hookimpl

MODEL
KIND = Kind(group="GROUP", version="v1", name="NAME", resource="RESOURCE")
# The first instance is made when plugins are vetted.
STARTS = itertools.count(0)


class Loop:
    def __init__(self):
        self.start = next(STARTS)
        self.synced = set()

    @hookimpl
    def kcm_watches(self):
        WATCHES
        return [Watch(kind=KIND, model=Thing, keys=self.keys, namespace="NAMESPACE")]

    def keys(self, change, view):
        KEYS
        return [change.key]

    @hookimpl
    async def kcm_sync(self, key, view):
        SYNC
        self.synced.add(key.name)
        return Done()

    @hookimpl
    def kcm_status(self, view):
        STATUS
        return {"start": self.start, "synced": sorted(self.synced)}
"""


#: Discovery is polled often; the module is in the host's process.
EAGER = """
from kcm_host.runtime import discovery_poller
discovery_poller.POLL_SECONDS = 0.2
"""
#: Watches the first of these that is served, or nothing.
CHOOSING = """
kinds = [Kind(group="GROUP", version="v1", name=one, resource=one.lower() + "s") for one in KINDS]
found = discovery.first_served(*kinds)
return [Watch(kind=found, model=Thing, keys=self.keys, namespace="NAMESPACE")] if found else []
"""


def loop(
    *,
    namespace: str = "",
    kind: tuple[str, str, str] = ("", "ConfigMap", "configmaps"),
    model: str = MODEL,
    watches: str = "pass",
    keys: str = "pass",
    sync: str = "pass",
    status: str = "pass",
) -> str:
    """
    Return the source of a controller with these statements at the beginning of its hooks.

    `kind` is group, name and resource. Its status has `start`, the number of its instance in
    this process, and `synced`, the names that instance has synced.
    """
    source = dedent(LOOP).replace("MODEL", dedent(model))
    for name, statements in (
        ("WATCHES", watches),
        ("KEYS", keys),
        ("SYNC", sync),
        ("STATUS", status),
    ):
        body = indent(dedent(statements).strip(), " " * 8).strip()
        source = source.replace(f"        {name}\n", f"        {body}\n")
    group, name, resource = kind
    for word, text in (("GROUP", group), ("NAMESPACE", namespace), ("RESOURCE", resource)):
        source = source.replace(f'"{word}"', f'"{text}"')
    return source.replace('"NAME"', f'"{name}"')


def choosing(namespace: str, group: str, *kinds: str, first: str = "") -> str:
    """Return the source of a controller that watches the first of these kinds that is served."""
    watches = CHOOSING.replace("GROUP", group).replace("NAMESPACE", namespace)
    watches = first + watches.replace("KINDS", repr(kinds))
    source = loop(namespace=namespace, watches=watches)
    return source.replace("def kcm_watches(self)", "def kcm_watches(self, discovery)")


def until_synced(host: RunningHost, name: str, keys: list[str]) -> None:
    """Return when a loop has synced exactly these keys."""
    eventually(lambda: host.controller(name)["status"].get("synced") == keys, f"{name}: {keys}")


class Loops:
    """Loops of one namespace: their plugins, hosts that run them, and the ConfigMaps they see."""

    def __init__(
        self, site: PluginSite, core: Any, namespace: str, start: Callable[..., RunningHost]
    ) -> None:
        self.site = site
        self.core = core
        self.namespace = namespace
        self._start = start

    def plugin(self, name: str, *, after: str = "", **parts: Any) -> None:
        """Install a loop with these statements; `after` stands at its end."""
        self.site.plugin(name, loop(namespace=self.namespace, **parts) + after)

    def run(
        self, *names: str, user: str = "admin", ready: bool = True, **config: Any
    ) -> RunningHost:
        """Start a host behind the proxy with these controllers; it ends with the test."""
        controllers = {name: {"workers": 1} for name in names}
        return self._start({"controllers": controllers, **config}, user=user, ready=ready)

    def create(self, *names: str) -> None:
        """Create ConfigMaps."""
        for name in names:
            self.core.create_namespaced_config_map(self.namespace, {"metadata": {"name": name}})
