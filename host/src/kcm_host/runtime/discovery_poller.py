"""Asks the API server regularly what it serves, and tells the controllers that depend on it."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Protocol

from kcm_host.api.discovery import Resource
from kcm_host.api.kinds import Kind
from kcm_host.api.watches import AnyWatch
from kcm_host.client.discovery import CachedDiscoveryClient
from kcm_host.runtime.event_handlers import declaration_of

log = logging.getLogger(__name__)


#: Without a change for so long, nothing goes back and forth any more.
STABLE_SECONDS = 600.0
#: How long a change waits while answers flap: doubled each time, up to the most.
FIRST_WAIT_SECONDS = 60.0
MOST_WAIT_SECONDS = 600.0
#: So often the same answer has to come again. Who makes a kind and deletes it goes back once.
RETURNS = 2
KEPT = 8


class Flapping:
    """
    Says when those who depend on what is served are told of a change.

    At once, unless the answers flap: API servers of two versions behind one address give two
    answers by turns, and each change would restart controllers. Then only after waits that grow,
    so that a change that lasts is still found.
    """

    def __init__(self, served: Hashable, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._served = served
        #: How often each of the last answers has come again, the latest at the end.
        self._returns: OrderedDict[Hashable, int] = OrderedDict({served: 0})
        self._flaps = False
        self._changed_at = clock()
        self._untold = False
        self._wait_seconds = FIRST_WAIT_SECONDS
        self._due = 0.0

    def changed(self, served: Hashable) -> None:
        """Note that this is served now, and was not before."""
        now = self._clock()
        if now - self._changed_at > STABLE_SECONDS:
            self._returns = OrderedDict({self._served: 0})
            self._flaps = False
            self._wait_seconds = FIRST_WAIT_SECONDS
        self._returns[served] = self._returns.get(served, -1) + 1
        self._returns.move_to_end(served)
        if len(self._returns) > KEPT:
            self._returns.popitem(last=False)
        if self._returns[served] >= RETURNS and not self._flaps:
            self._begin(now)
        self._served, self._changed_at, self._untold = served, now, True

    def is_due(self) -> bool:
        """Whether to tell of a change now; True once for what has changed until then."""
        if not self._untold:
            return False
        now = self._clock()
        if not self._flaps:
            log.info("the server serves other kinds now")
        elif now < self._due and now - self._changed_at <= STABLE_SECONDS:
            return False
        else:
            self._wait_seconds = min(self._wait_seconds * 2, MOST_WAIT_SECONDS)
            self._due = now + self._wait_seconds
        self._untold = False
        return True

    def _begin(self, now: float) -> None:
        self._flaps = True
        self._due = now + self._wait_seconds
        pairs = {
            "problem": "answers from before come again; controllers heed them only now and then",
            "remedy": "see whether API servers of several versions answer at one address",
        }
        log.warning("what the server serves goes back and forth", extra={"kv": pairs})


REFRESH_SECONDS = 30.0


class RecordedDiscovery:
    """A `Discovery` that is always up to date and remembers whether it was asked anything."""

    def __init__(self, discoverer: CachedDiscoveryClient) -> None:
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


class DiscoveryListener(Protocol):
    """A controller that may depend on what is served."""

    @property
    def depends_on_discovery(self) -> bool:
        """Whether it does."""

    def discovery_changed(self) -> None:
        """Do what follows from a change."""


async def poll_discovery(
    discoverer: CachedDiscoveryClient, controllers: Collection[DiscoveryListener]
) -> None:
    """
    Ask the server every 30 s, if anybody depends on it, and tell who does of changes.

    Answers that go back and forth are told now and then only.
    """
    flapping = Flapping(discoverer.present.resources(), asyncio.get_running_loop().time)
    while True:
        await asyncio.sleep(REFRESH_SECONDS)
        heeding = [one for one in controllers if one.depends_on_discovery]
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
