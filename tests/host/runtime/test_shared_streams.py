"""Streams that several controllers share."""

import asyncio
import gc
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any, ClassVar

import msgspec
import pytest
from host.informer.reflector.running_reflector import (
    CONFIG_MAP,
    ConfigMaps,
    RecordingHandler,
    until,
)

from kcm_host.api.watch import Objects, Watch
from kcm_host.client.rest import Client
from kcm_host.informer.cache_view import CacheView, StoredObjects, Stores, WatchedStore
from kcm_host.informer.informer_factory import InformerFactory
from kcm_host.informer.store import Store
from kcm_host_testing.faults import Answer, Request
from kcm_host_testing.proxy import FaultProxy


class Whole(msgspec.Struct, frozen=True):
    """Reads data, and counts how often it is decoded."""

    data: dict[str, str] = {}
    decoded: ClassVar[Counter[str]] = Counter()

    def __post_init__(self) -> None:
        self.decoded[self.data["n"]] += 1


class Named(msgspec.Struct, frozen=True):
    """Reads metadata alone."""

    metadata: dict[str, Any]


class Labelled(msgspec.Struct, frozen=True):
    """Reads metadata alone, in another form."""

    metadata: dict[str, Any]
    kind: str = ""


@pytest.fixture
async def streams(client: Client) -> AsyncIterator[InformerFactory]:
    """Return streams without followers; ended with the test."""
    made = InformerFactory(client, asyncio.get_running_loop().time)
    yield made
    await made.shutdown()


class Desk:
    """Followers in one namespace, and the requests made for them."""

    def __init__(self, streams: InformerFactory, proxy: FaultProxy, namespace: str) -> None:
        self.streams = streams
        self.stores: dict[RecordingHandler, Store[Any]] = {}
        self._proxy = proxy
        self._namespace = namespace

    def join(self, controller: str, model: type[Any], **selected: Any) -> RecordingHandler:
        """Add a follower."""
        reader = RecordingHandler()
        watch = Watch(
            kind=CONFIG_MAP,
            model=model,
            keys=lambda _, __: (),
            namespace=self._namespace,
            **selected,
        )
        self.stores[reader] = self.streams.add_event_handler(controller, watch, reader)
        return reader

    def objects(self, reader: RecordingHandler) -> Objects[Any]:
        """Return what a follower may read."""
        watched = WatchedStore(self.stores[reader], msgspec.Struct, "one")
        return StoredObjects(watched, CacheView("one", Stores()))

    async def start(self, *readers: RecordingHandler) -> None:
        """Start what was added, and return when these followers have all objects."""
        self.streams.start()
        await until(lambda: all(reader.times_synced for reader in readers))

    @property
    def requests(self) -> list[Request]:
        """All requests for ConfigMaps."""
        return self._proxy.requests(path="/configmaps$", method="GET")


@pytest.fixture
def desk(streams: InformerFactory, fault_proxy: FaultProxy, namespace: str) -> Desk:
    """Return followers of the test's namespace."""
    Whole.decoded.clear()
    return Desk(streams, fault_proxy, namespace)


async def test_two_controllers_share_one_connection(desk: Desk, config_maps: ConfigMaps) -> None:
    """The same selection is one request, and each event is decoded once for a model."""
    await config_maps.create("a", "b")
    one, two = desk.join("one", Whole), desk.join("two", Whole)
    await desk.start(one, two)
    assert sorted(one.seen) == sorted(two.seen) == ["+a", "+b"]
    assert Whole.decoded == {"0": 2}
    await config_maps.change("a", "1")
    await until(lambda: "~a" in one.seen and "~a" in two.seen)
    assert Whole.decoded == {"0": 2, "1": 1}
    assert len(desk.requests) == 1
    (state,) = desk.streams.states()
    assert state.controllers == ("one", "two")
    assert (state.phase, state.synced, state.objects) == ("watching", True, 2)


@pytest.mark.parametrize(
    ("models", "slim"),
    [((Named, Labelled), True), ((Named, Whole), False), ((Whole,), False)],
    ids=["metadata", "one reads more", "more"],
)
async def test_metadata_is_asked_for_when_nobody_reads_more(
    desk: Desk, config_maps: ConfigMaps, models: tuple[type[Any], ...], *, slim: bool
) -> None:
    """Only if all models declare nothing but metadata are objects fetched without the rest."""
    await config_maps.create("a")
    readers = [desk.join(f"c{number}", model) for number, model in enumerate(models)]
    await desk.start(*readers)
    (request,) = desk.requests
    assert ("PartialObjectMetadata" in request.headers["accept"]) is slim
    (state,) = desk.streams.states()
    assert state.metadata_only is slim


async def test_other_selectors_are_other_streams(desk: Desk, config_maps: ConfigMaps) -> None:
    """A stream is a resource, a namespace and selectors; each selection has its own request."""
    await config_maps.create("a", labels={"app": "x"})
    await config_maps.create("b")
    readers = [
        desk.join("one", Whole),
        desk.join("one", Whole, label_selector="app=x"),
        desk.join("one", Whole, field_selector="metadata.name=b"),
    ]
    await desk.start(*readers)
    assert [sorted(reader.seen) for reader in readers] == [["+a", "+b"], ["+a"], ["+b"]]
    assert len(desk.requests) == 3


async def test_who_comes_later_joins_a_known_model(desk: Desk, config_maps: ConfigMaps) -> None:
    """It is told what is stored as initial objects, without a request, then all news (IQ-61)."""
    await config_maps.create("a", "b")
    first = desk.join("first", Whole)
    await desk.start(first)
    late = desk.join("late", Whole)
    assert late.seen == []
    desk.streams.start()
    assert sorted(late.seen) == ["+a", "+b"]
    assert all(change.initial for change in late.changes)
    assert late.times_synced == 1
    await config_maps.create("c")
    await until(lambda: "+c" in first.seen and "+c" in late.seen)
    assert sorted(first.seen) == sorted(late.seen) == ["+a", "+b", "+c"]
    assert len(desk.requests) == 1
    assert first.times_synced == 1


async def test_who_comes_later_with_a_new_model_gets_a_stream(
    desk: Desk, config_maps: ConfigMaps
) -> None:
    """It lists on its own, and nobody else is told anything again."""
    await config_maps.create("a")
    first = desk.join("first", Named)
    await desk.start(first)
    late = desk.join("late", Whole)
    await desk.start(late)
    assert late.seen == first.seen == ["+a"]
    assert len(desk.requests) == 2
    accepts = ["PartialObjectMetadata" in request.headers["accept"] for request in desk.requests]
    assert accepts == [True, False]


async def test_whole_objects_are_fetched_whole(desk: Desk, config_maps: ConfigMaps) -> None:
    """Whoever wants them gets more than metadata, though its model reads nothing else."""
    await config_maps.create("a")
    reader = desk.join("one", Named, full_object=True)
    await desk.start(reader)
    found = desk.objects(reader).full_object("a", config_maps.namespace)
    assert found is not None
    assert json.loads(bytes(found["data"])) == {"n": "0"}
    (state,) = desk.streams.states()
    assert not state.metadata_only


async def test_who_comes_later_for_whole_objects_gets_a_stream(
    desk: Desk, config_maps: ConfigMaps
) -> None:
    """What others keep without the rest is no use; what is kept whole is shared."""
    await config_maps.create("a")
    first = desk.join("first", Whole)
    desk.streams.start()
    late = desk.join("late", Whole, full_object=True)
    await desk.start(first, late)
    third = desk.join("third", Whole, full_object=True)
    await desk.start(third)
    for reader in (late, third):
        found = desk.objects(reader).full_object("a", config_maps.namespace)
        assert found is not None
        assert json.loads(bytes(found["data"])) == {"n": "0"}
    assert len(desk.requests) == 2


async def test_objects_say_why_they_cannot_be_followed(
    desk: Desk, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """The stream's trouble is told until it works again; a neighbour's is not."""
    denied = fault_proxy.add(Answer(403), path="/configmaps$", query={"labelSelector": "app=x"})
    one, other = desk.join("one", Whole, label_selector="app=x"), desk.join("one", Named)
    assert desk.objects(one).problem == ""
    desk.streams.start()
    await until(lambda: "grant list and watch" in desk.objects(one).problem)
    await desk.start(other)
    assert desk.objects(other).problem == ""
    denied.remove()
    await desk.start(one)
    assert desk.objects(one).problem == ""


async def test_a_stream_ends_with_its_last_follower(desk: Desk, config_maps: ConfigMaps) -> None:
    """As long as one is left it goes on; then its connection is closed."""
    one, two = desk.join("one", Whole), desk.join("two", Named)
    await desk.start(one, two)
    await desk.streams.remove_event_handler(one)
    await config_maps.create("a")
    await until(lambda: "+a" in two.seen)
    assert one.seen == []
    assert Whole.decoded == {}
    assert desk.requests[0].open
    await desk.streams.remove_event_handler(two)
    await until(lambda: not desk.requests[0].open)
    assert desk.streams.states() == ()


def _calls(work: Callable[[], object]) -> int:
    """
    Return how many functions of Python this calls.

    Without garbage collection: it comes by chance and calls functions of its own.
    """
    called = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal called
        called += event == "call"

    gc.disable()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return called


async def test_a_look_at_one_controller_costs_its_own_streams(streams: InformerFactory) -> None:
    """Neither its problems nor its joining depend on how many streams others follow (F-42)."""

    def watch(number: int) -> Watch[Any]:
        return Watch(kind=CONFIG_MAP, model=Named, keys=lambda _, __: (), namespace=f"n{number}")

    def costs(number: int) -> tuple[int, int]:
        reader = RecordingHandler()
        joining = _calls(lambda: streams.add_event_handler("acme", watch(number), reader))
        return joining, _calls(lambda: streams.errors([reader]))

    # What happens once per model in a process, like building its decoder, is no part of it.
    costs(1_000)
    first = costs(0)
    for number in range(1, 500):
        streams.add_event_handler("other", watch(number), RecordingHandler())
    assert costs(500) == first
