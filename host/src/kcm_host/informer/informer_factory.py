"""Streams shared by the controllers that follow the same thing."""

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import msgspec

from kcm_host.api.kinds import Key
from kcm_host.api.states import StreamState
from kcm_host.api.watches import AnyWatch
from kcm_host.client.rest import Client, user_agent
from kcm_host.informer.background import keep_running
from kcm_host.informer.decoder import reads_metadata_only
from kcm_host.informer.list_watch import ListWatchOptions
from kcm_host.informer.reflector import Reflector
from kcm_host.informer.shared_informer import EventHandler, SharedInformer
from kcm_host.informer.store import Store

UNDECODABLE_SHOWN = 10


class Stream:
    """One selection, its stores, and the names of the controllers that follow it."""

    def __init__(self, selection: ListWatchOptions) -> None:
        #: What its followers asked for, and what the server is asked for: perhaps less of it.
        self.asked = self.selection = selection
        self.feed = SharedInformer(selection.kind)
        self.names: dict[EventHandler, str] = {}
        self.reflector: Reflector | None = None
        self.task: asyncio.Task[None] | None = None

    def state(self) -> StreamState:
        """Give what is known of it at this moment."""
        selection, reflector = self.selection, self.reflector
        stores = [shelf.store for shelf in self.feed.shelves]
        bad = frozenset[Key]().union(*(store.undecodable for store in stores))
        return StreamState(
            group=selection.kind.group,
            version=selection.kind.version,
            resource=selection.kind.resource,
            namespace=selection.namespace,
            label_selector=selection.label_selector,
            field_selector=selection.field_selector,
            metadata_only=selection.metadata_only,
            phase=reflector.phase if reflector else "listing",
            synced=self.feed.synced,
            objects=max((len(store) for store in stores), default=0),
            resource_version=reflector.version if reflector else "",
            lists=reflector.lists if reflector else 0,
            # Not the first of all in order: a sort of every key would cost each look at the state.
            undecodable=tuple(sorted(map(str, islice(bad, UNDECODABLE_SHOWN)))),
            undecodable_count=len(bad),
            controllers=tuple(sorted(set(self.names.values()))),
            error=self.problem(),
        )

    def problem(self) -> str:
        """Give why it cannot follow the server at present; empty while it does."""
        return self.reflector.error if self.reflector else ""

    def provides(self, watch: AnyWatch) -> bool:
        """Whether its objects, those that came already included, are all that `watch` asks for."""
        if not self.feed.holds(watch.model):
            return False
        return self.feed.shelf(watch.model).store.keep_whole or not watch.whole

    def is_slim(self) -> bool:
        """Whether nobody reads more than metadata."""
        models = all(reads_metadata_only(model) for model in self.feed.models)
        return models and not any(shelf.store.keep_whole for shelf in self.feed.shelves)


class InformerFactory:
    """
    Opens one stream for everybody who follows the same selection, and ends it with the last.

    Followers that come before `open` share a stream whatever their models. One that comes later
    joins a running stream if that already has what it reads; otherwise it gets a list and a
    watch of its own, so that nobody else is told everything again.
    """

    def __init__(self, client: Client, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._agent = user_agent("shared-informers")
        #: By what they were asked for with: one selection may need several streams.
        self._streams: dict[ListWatchOptions, list[Stream]] = {}
        self._followed: dict[EventHandler, Stream] = {}

    def follow(self, controller: str, watch: AnyWatch, follower: EventHandler) -> Store[Any]:
        """Add a follower and give the store it reads; nothing flows before `open`."""
        selection = ListWatchOptions(
            watch.kind, watch.namespace, watch.label_selector, watch.field_selector
        )
        there = self._streams.setdefault(selection, [])
        joinable = (one for one in there if one.task is None or one.provides(watch))
        stream = next(joinable, None)
        if stream is None:
            stream = Stream(selection)
            there.append(stream)
        stream.names[follower] = controller
        self._followed[follower] = stream
        store = stream.feed.shelf(watch.model).store
        store.every_event = store.every_event or watch.every_event
        store.keep_whole = store.keep_whole or watch.whole
        store.problem = stream.problem
        stream.feed.follow(watch.model, follower)
        return store

    def open(self) -> None:
        """Start the streams that are not running yet; tell late followers of others all objects."""
        for stream in self._all():
            if stream.task is None:
                self._open(stream)
            else:
                stream.feed.welcome()

    async def leave(self, follower: EventHandler) -> None:
        """Remove a follower; a stream without followers ends."""
        stream = self._followed.pop(follower)
        del stream.names[follower]
        if stream.feed.leave(follower):
            there = self._streams[stream.asked]
            there.remove(stream)
            if not there:
                del self._streams[stream.asked]
            await _end(stream)

    async def close(self) -> None:
        """End all streams."""
        for stream in self._all():
            await _end(stream)
        self._streams.clear()
        self._followed.clear()

    def states(self) -> tuple[StreamState, ...]:
        """Give the state of every stream."""
        return tuple(stream.state() for stream in self._all())

    def problems(self, followers: Iterable[EventHandler]) -> list[str]:
        """Give the errors of the streams that these follow, each once."""
        streams = dict.fromkeys(self._followed[follower] for follower in followers)
        return [problem for stream in streams if (problem := stream.problem())]

    def _all(self) -> list[Stream]:
        return [stream for there in self._streams.values() for stream in there]

    def _open(self, stream: Stream) -> None:
        selection = msgspec.structs.replace(stream.asked, metadata_only=stream.is_slim())
        stream.selection = selection
        stream.reflector = Reflector(
            selection, self._client, stream.feed, agent=self._agent, clock=self._clock
        )
        name = f"watch {selection}"
        stream.task = asyncio.create_task(keep_running(name, stream.reflector.run), name=name)


async def _end(stream: Stream) -> None:
    if stream.task is not None:
        stream.task.cancel()
        await asyncio.wait({stream.task})
