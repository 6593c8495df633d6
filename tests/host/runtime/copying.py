"""A controller that copies an annotation of every node, with many sorts of requests."""

import asyncio
import random
import time
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import msgspec

from kcm_host.api import (
    Change,
    Done,
    Enqueue,
    EnqueueRequest,
    Key,
    Kind,
    Later,
    Outcome,
    Permission,
    Timer,
    View,
    Watch,
    Writer,
    hookimpl,
)

NODE = Kind(group="", version="v1", name="Node", resource="nodes", namespaced=False)
#: How long a sync may take before it writes, and how long it may put itself off.
SLOW_SECONDS, LATER_SECONDS = 0.3, 3.0


class Annotations(msgspec.Struct, frozen=True):
    """The annotation to copy, and the copy."""

    want: str = ""
    got: str = ""


class Meta(msgspec.Struct, frozen=True):
    """The part of the metadata that matters here."""

    annotations: Annotations = Annotations()


class Node(msgspec.Struct, frozen=True):
    """A node."""

    metadata: Meta = Meta()

    @property
    def wrong(self) -> bool:
        """Return whether the copy differs."""
        return self.metadata.annotations.want != self.metadata.annotations.got


class Copying:
    """
    Copies annotation `want` to `got`.

    How a node is requested depends on the prefix of its name: `now`, `soon` (with a delay), `late`
    (its sync returns `Later` once), `shaky` (its sync fails sometimes), `timed` (by a timer),
    `gone` (not at all, as a missed request).
    """

    def __init__(self, chance: random.Random, *, rest: timedelta = timedelta(0)) -> None:
        self._chance = chance
        self._rest = rest
        self._since: dict[Key, float] = {}
        self.syncs: list[Key] = []
        self.own_resyncs = 0

    @hookimpl
    def kcm_watches(self) -> list[Watch[Node]]:
        """Watch all nodes."""
        return [
            Watch(
                kind=NODE, model=Node, keys=self._keys, debounce=self._rest, resync=lambda key: key
            )
        ]

    @hookimpl
    def kcm_writes(self) -> list[Permission]:
        """Patch nodes."""
        return [Permission(kind=NODE, verb="patch")]

    @hookimpl
    def kcm_timers(self) -> list[Timer]:
        """Request the nodes that nothing else requests."""
        return [
            Timer(every=timedelta(seconds=7), keys=self._timed),
            Timer(every=timedelta(hours=9), keys=self._every, resync=True),
        ]

    @hookimpl
    async def kcm_sync(self, key: Key, view: View, writer: Writer) -> Outcome:
        """Copy the annotation of one node."""
        self.syncs.append(key)
        node = view.of(NODE, Node).get(key.name)
        if node is None or not node.wrong:
            return Done()
        if key.name.startswith("late") and key not in self._since:
            self._since[key] = time.monotonic()
            return Later(timedelta(seconds=LATER_SECONDS))
        self._since.pop(key, None)
        if self._chance.random() < 0.5:
            await asyncio.sleep(self._chance.random() * SLOW_SECONDS)
        if key.name.startswith("shaky") and self._chance.random() < 0.5:
            raise ValueError("shaky")
        copy = {"got": node.metadata.annotations.want}
        await writer.patch(NODE, key, {"metadata": {"annotations": copy}})
        return Done()

    @hookimpl
    def kcm_status(self) -> Mapping[str, Any]:
        """Return an empty status."""
        return {}

    def _keys(self, change: Change[Node], view: View) -> Iterable[Enqueue]:
        name = change.key.name
        if name.startswith(("gone", "timed")) and not change.initial:
            return []
        if name.startswith("soon"):
            return [EnqueueRequest(change.key, after=timedelta(seconds=self._chance.random() * 9))]
        return [change.key]

    def _timed(self, view: View) -> Iterable[Key]:
        items = view.of(NODE, Node).items()
        return [key for key, node in items if key.name.startswith("timed") and node.wrong]

    def _every(self, view: View) -> Iterable[Key]:
        self.own_resyncs += 1
        return []
