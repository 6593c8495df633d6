"""Lets controllers follow what the server serves, which may change while they run."""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from kcm_host.api.discovery import Resource
from kcm_host.api.kinds import Kind
from kcm_host.api.watches import AnyWatch
from kcm_host.client.discovery import Discoverer
from kcm_host.supervise.flapping import Flapping
from kcm_host.supervise.following import declaration_of

REFRESH_SECONDS = 30.0


class NotedDiscovery:
    """A `Discovery` that is always up to date and remembers whether it was asked anything."""

    def __init__(self, discoverer: Discoverer) -> None:
        self.asked = False
        self._discoverer = discoverer

    def serves(self, kind: Kind) -> bool:
        """See `Discovery.serves`."""
        self.asked = True
        return self._discoverer.present.serves(kind)

    def first_served(self, *kinds: Kind) -> Kind | None:
        """See `Discovery.first_served`."""
        self.asked = True
        return self._discoverer.present.first_served(*kinds)

    def resources(self) -> Sequence[Resource]:
        """See `Discovery.resources`."""
        self.asked = True
        return self._discoverer.present.resources()


class Heeding(Protocol):
    """A controller that may depend on what is served."""

    @property
    def heeds_discovery(self) -> bool:
        """Whether it does."""

    def discovery_changed(self) -> None:
        """Do what follows from a change."""


async def heed_discovery(discoverer: Discoverer, controllers: Collection[Heeding]) -> None:
    """
    Ask the server every 30 s, if anybody depends on it, and tell who does of changes.

    Answers that go back and forth are told now and then only.
    """
    flapping = Flapping(discoverer.present.resources(), asyncio.get_running_loop().time)
    while True:
        await asyncio.sleep(REFRESH_SECONDS)
        heeding = [one for one in controllers if one.heeds_discovery]
        if not heeding:
            continue
        if await discoverer.refresh():
            flapping.changed(discoverer.present.resources())
        if flapping.is_due():
            for one in heeding:
                one.discovery_changed()


def difference(before: Iterable[AnyWatch], after: Iterable[AnyWatch]) -> str:
    """Say which watches come and which go; empty when both are the same."""
    old = {declaration_of(watch): watch for watch in before}
    new = {declaration_of(watch): watch for watch in after}
    parts = (
        ("follows", [watch for selection, watch in new.items() if selection not in old]),
        ("no longer follows", [watch for selection, watch in old.items() if selection not in new]),
    )
    return ", ".join(f"{what} {_named(watches)}" for what, watches in parts if watches)


def _named(watches: Iterable[AnyWatch]) -> str:
    return " and ".join(sorted(f"'{watch.kind}' {watch.kind.version}" for watch in watches))
