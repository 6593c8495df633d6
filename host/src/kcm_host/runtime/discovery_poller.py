"""Polls what the API server serves, and notifies the controllers that depend on it."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any, Protocol

import msgspec
from cachetools import LRUCache

from kcm_host.api.kinds import Kind, Resource
from kcm_host.api.watch import AnyWatch, Change, Watch, name_of
from kcm_host.client.discovery import CachedDiscoveryClient
from kcm_host.informer.informer_factory import InformerFactory
from kcm_host.runtime.event_handlers import declaration_of

log = logging.getLogger(__name__)

POLL_SECONDS = 30.0
#: The time from a change of a definition to the poll: several are created at a time.
DEBOUNCE_SECONDS = 0.3
#: Delays of further polls, because a definition takes effect a moment after its creation.
RETRY_SECONDS = (1.0, 3.0, 9.0)
#: The name of the host where streams show the controllers that they are for.
HOST = "kcm-host"
#: A change of one of these may change what is served.
DEFINITIONS = (
    Kind(
        group="apiextensions.k8s.io",
        version="v1",
        name="CustomResourceDefinition",
        resource="customresourcedefinitions",
        namespaced=False,
    ),
    Kind(
        group="apiregistration.k8s.io",
        version="v1",
        name="APIService",
        resource="apiservices",
        namespaced=False,
    ),
)
#: Without a change for so long, the answers flap no longer.
STABLE_SECONDS = 600.0
#: The delay of a notification while answers flap: doubled each time, up to the maximum.
INITIAL_DELAY_SECONDS = 60.0
MAX_DELAY_SECONDS = 600.0
#: How often the same answer has to return. Creating a kind and deleting it returns once.
MIN_RETURNS = 2
MAX_ANSWERS = 8


class FlapDetector:
    """
    Decides when the controllers are notified of changed discovery answers.

    At once, unless the answers flap: API servers of two versions behind one address answer
    alternately, and each change would restart controllers. While they flap the delay grows, so
    that a lasting change is still acted on.
    """

    def __init__(self, served: Hashable, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._served = served
        #: How often each of the last answers has returned.
        self._returns = _new_returns(served)
        self._flaps = False
        self._changed_at = clock()
        self._pending = False
        self._delay_seconds = INITIAL_DELAY_SECONDS
        self._due = 0.0

    def changed(self, served: Hashable) -> None:
        """Record that the answer has changed to `served`."""
        now = self._clock()
        if now - self._changed_at > STABLE_SECONDS:
            self._returns = _new_returns(self._served)
            self._flaps = False
            self._delay_seconds = INITIAL_DELAY_SECONDS
        self._returns[served] = self._returns.get(served, -1) + 1
        # Behind API servers of two versions the answers alternated, and controllers restarted every
        # 30 s (F-28).
        if self._returns[served] >= MIN_RETURNS and not self._flaps:
            self._start_flapping(now)
        self._served, self._changed_at, self._pending = served, now, True

    def is_due(self) -> bool:
        """Return whether to notify of a change now: True once for all changes until then."""
        if not self._pending:
            return False
        now = self._clock()
        if not self._flaps:
            log.info("served kinds changed")
        elif now < self._due and now - self._changed_at <= STABLE_SECONDS:
            return False
        else:
            self._delay_seconds = min(self._delay_seconds * 2, MAX_DELAY_SECONDS)
            self._due = now + self._delay_seconds
        self._pending = False
        return True

    def _start_flapping(self, now: float) -> None:
        self._flaps = True
        self._due = now + self._delay_seconds
        pairs = {
            "problem": "earlier discovery answers return; controllers are notified with a delay",
            "remedy": "see whether API servers of several versions answer at one address",
        }
        log.warning("served kinds flapping", extra={"kv": pairs})


def _new_returns(served: Hashable) -> LRUCache[Hashable, int]:
    returns: LRUCache[Hashable, int] = LRUCache(MAX_ANSWERS)
    returns[served] = 0
    return returns


class RecordedDiscovery:
    """A `Discovery` with the latest answer, which records whether it was used."""

    def __init__(self, client: CachedDiscoveryClient) -> None:
        self.used = False
        self._client = client
        self._asked: dict[Kind, None] = {}

    def serves(self, kind: Kind) -> bool:
        """See `Discovery.serves`."""
        return self.first_served(kind) is not None

    def first_served(self, *kinds: Kind) -> Kind | None:
        """See `Discovery.first_served`."""
        self.used = True
        self._asked.update(dict.fromkeys(kinds))
        return self._client.api_resources.first_served(*kinds)

    def resources(self) -> Sequence[Resource]:
        """See `Discovery.resources`."""
        self.used = True
        return self._client.api_resources.resources()

    def missing(self) -> list[Kind]:
        """Return the kinds that were asked for and are not served now."""
        return [kind for kind in self._asked if not self._client.api_resources.serves(kind)]


class Definition(msgspec.Struct, frozen=True):
    """A definition of which nothing is read, so that only metadata is requested."""


class DefinitionHandler:
    """The event handler of the definitions."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def on_change(self, change: Change[Any]) -> None:
        """See `EventHandler`."""
        if not change.initial:
            self._changed()

    def on_synced(self) -> None:
        """See `EventHandler`."""
        # Discovery was read before this list: a definition may have been created in between.
        self._changed()


class DefinitionWatches:
    """
    The host's watches of CustomResourceDefinitions and APIServices, and when to poll discovery.

    The host may lack the permissions for them: then changes are noticed by the next regular poll.
    """

    def __init__(self, informers: InformerFactory) -> None:
        self._informers = informers
        self._handlers: list[DefinitionHandler] = []
        self._changed = asyncio.Event()
        self._retries: deque[float] = deque()
        self._served_kinds_changed = False

    async def follow(self, needed: bool) -> None:
        """Start the watches when they are needed, and stop them when they no longer are."""
        if not needed:
            while self._handlers:
                await self._informers.remove_event_handler(self._handlers.pop())
        elif not self._handlers:
            for kind in DEFINITIONS:
                handler = DefinitionHandler(self._changed.set)
                watch = Watch(kind=kind, model=Definition, notify_unchanged=True)
                # Optional: many identities may not list these kinds, and the regular poll does
                # without them.
                self._informers.add_event_handler(HOST, watch, handler, optional=True)
                self._handlers.append(handler)
            self._informers.start()

    async def wait(self) -> None:
        """Return when to poll: soon after a definition has changed, otherwise regularly."""
        if self._retries:
            seconds = self._retries.popleft()
        else:
            seconds, self._served_kinds_changed = POLL_SECONDS, False
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return
        await asyncio.sleep(DEBOUNCE_SECONDS)
        self._changed.clear()
        self._retries = deque(RETRY_SECONDS)

    def polled(self, *, changed: bool) -> None:
        """
        Wake the informers of kinds that were not served, when the served kinds have changed.

        Also after the further polls, because discovery shows a kind some time before every API
        server serves its objects.
        """
        self._served_kinds_changed |= changed
        if self._served_kinds_changed:
            self._informers.retry()


class DiscoveryListener(Protocol):
    """A controller that may depend on what is served."""

    @property
    def depends_on_discovery(self) -> bool:
        """Return whether its watches depend on discovery."""

    def discovery_changed(self) -> None:
        """Act on a change."""


async def poll_discovery(
    client: CachedDiscoveryClient,
    controllers: Collection[DiscoveryListener],
    definitions: DefinitionWatches,
) -> None:
    """
    Poll discovery, if a controller depends on it, and notify these of changes.

    Every 30 s, and after changes of definitions. While answers flap, notifications are delayed.
    """
    flaps = FlapDetector(client.api_resources.resources(), asyncio.get_running_loop().time)
    while True:
        await definitions.follow(any(one.depends_on_discovery for one in controllers))
        await definitions.wait()
        # Asked again after the wait: a restart may have changed it.
        listeners = [one for one in controllers if one.depends_on_discovery]
        if not listeners:
            continue
        has_changed = await client.poll()
        definitions.polled(changed=has_changed)
        if has_changed:
            flaps.changed(client.api_resources.resources())
        if flaps.is_due():
            for one in listeners:
                one.discovery_changed()


def difference(before: Iterable[AnyWatch], after: Iterable[AnyWatch]) -> str:
    """Return which watches are added and removed; empty when both are the same."""
    old = {declaration_of(watch): watch for watch in before}
    new = {declaration_of(watch): watch for watch in after}
    parts = (
        ("watches", [watch for declaration, watch in new.items() if declaration not in old]),
        (
            "no longer watches",
            [watch for declaration, watch in old.items() if declaration not in new],
        ),
    )
    return ", ".join(f"{what} {_joined(watches)}" for what, watches in parts if watches)


def _joined(watches: Iterable[AnyWatch]) -> str:
    return " and ".join(sorted(f"'{name_of(watch)}' {watch.kind.version}" for watch in watches))
