"""Many objects are put in place and told in slices, and nobody can tell from what they see."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from host.informer.stream_lines import (
    POD,
    A,
    Phase,
    Pod,
    RecordingHandler,
    begin_streaming_list,
    event,
    pod,
    streaming_list,
)
from hypothesis import given
from hypothesis import strategies as st

from kcm_host.api.kinds import Key
from kcm_host.api.watch import Change
from kcm_host.informer import shared_informer
from kcm_host.informer import store as stores
from kcm_host.informer.shared_informer import SharedInformer
from kcm_host.informer.store import SLICE

KEYS = [Key(name, "team") for name in "abcdefg"]
#: What the server says of an object: its node, or something that does not fit.
NODES = st.sampled_from(["n1", "n2", 0])
#: Methods of the world and what they are given.
STEPS = st.one_of(
    st.tuples(st.just("event"), st.sampled_from(KEYS), NODES | st.none()),
    st.tuples(st.just("begin_list"), st.dictionaries(st.sampled_from(KEYS), NODES)),
    st.tuples(st.just("go_on"), st.integers(1, 9)),
    st.tuples(st.just("turn")),
    st.tuples(st.just("join"), st.sampled_from([Pod, Phase])),
    st.tuples(st.just("open")),
    st.tuples(st.just("leave"), st.integers(0, 9)),
)


class Mirror:
    """A handler that has nothing but what it was told, and an index of its own."""

    def __init__(self, number: int, model: type[Any], informer: SharedInformer) -> None:
        self.name = str(number)
        self.model = model
        self._informer = informer
        self.known: dict[Key, Any] = {}
        self.times_synced = 0

    def on_change(self, change: Change[Any]) -> None:
        """Take a change, which begins where the last one of its object ended."""
        assert change.old == self.known.get(change.key)
        assert change.initial == (not self.times_synced)
        nodes, phases = (
            dict(self._informer.typed_informer(model).store.items()) for model in (Pod, Phase)
        )
        assert {key: found.node for key, found in nodes.items()} == {
            key: found.phase for key, found in phases.items()
        }
        if change.new is None:
            del self.known[change.key]
        else:
            self.known[change.key] = change.new

    def on_synced(self) -> None:
        """Count it."""
        self.times_synced += 1


class World:
    """An informer and what its readers must see of it."""

    def __init__(self) -> None:
        self.informer = SharedInformer(POD)
        self.mirrors: list[Mirror] = []
        self.expected: dict[Key, str] = {}
        self._coming: dict[Key, str] = {}
        self._steps: Iterator[None] | None = None
        self._number = 0
        for model in (Pod, Phase):
            self._join(model)

    async def event(self, key: Key, node: str | int | None) -> None:
        """Change one object, unless a list is being put in place."""
        if self._steps is None and self.informer.has_synced:
            sort = "MODIFIED" if node is not None else "DELETED"
            last = self.expected.get(key, "n1")
            event(self.informer, sort, self._object(key, last if node is None else node))
            _apply(self.expected, key, node)

    async def begin_list(self, objects: dict[Key, str | int]) -> None:
        """Gather a list, and begin to put it in place."""
        if self._steps is None:
            lines = [("ADDED", self._object(key, node)) for key, node in objects.items()]
            begin_streaming_list(self.informer, *lines)
            self._coming = {key: self.expected[key] for key in objects if key in self.expected}
            for key, node in objects.items():
                _apply(self._coming, key, node)
            self._steps = self.informer.init_done()

    async def go_on(self, steps: int) -> None:
        """Put more of a list in place."""
        for _ in range(steps):
            if self._steps is not None and next(self._steps, self) is self:
                self._steps, self.expected = None, self._coming

    async def turn(self) -> None:
        """Give the loop one turn."""
        await asyncio.sleep(0)

    async def open(self) -> None:
        """Welcome who joined."""
        self.informer.start_new_handlers()

    async def join(self, model: type[Any]) -> None:
        """Add a handler, as a controller does at its start; it is told nothing yet."""
        self._join(model)

    def _join(self, model: type[Any]) -> None:
        self._number += 1
        mirror = Mirror(self._number, model, self.informer)
        self.mirrors.append(mirror)
        self.informer.add_event_handler(model, mirror)
        store = self.informer.typed_informer(model).store
        store.add_index(mirror.name, "value", lambda _, found: [str(found)], _fail)

    async def leave(self, number: int) -> None:
        """Remove a handler, but never the last of a model."""
        mirror = self.mirrors[number % len(self.mirrors)]
        if sum(other.model is mirror.model for other in self.mirrors) > 1:
            self.mirrors.remove(mirror)
            self.informer.typed_informer(mirror.model).store.remove_indexes(mirror.name)
            self.informer.remove_event_handler(mirror)

    def check_readers(self) -> None:
        """All stores and indexes show one complete set, that of before or the new one."""
        nodes = dict(self.informer.typed_informer(Pod).store.items())
        if self._steps is not None and self._coming == {
            key: found.node for key, found in nodes.items()
        }:
            self.expected = self._coming
        for model, field in ((Pod, "node"), (Phase, "phase")):
            store = self.informer.typed_informer(model).store
            seen = dict(store.items())
            assert {key: getattr(found, field) for key, found in seen.items()} == self.expected
            for mirror in self.mirrors:
                if mirror.model is model:
                    values = {str(found) for found in seen.values()}
                    by_value = [store.by_index(mirror.name, "value", value) for value in values]
                    assert dict(pair for pairs in by_value for pair in pairs) == seen

    async def end(self) -> None:
        """Bring everything to its end, and check that all handlers know everything."""
        await self.open()
        await self.begin_list({KEYS[0]: "n1"})
        await self.go_on(1_000)
        await self.event(KEYS[1], "n2")
        for _ in range(100):
            await self.turn()
        self.check_readers()
        for mirror in self.mirrors:
            assert mirror.times_synced == 1
            assert mirror.known == dict(self.informer.typed_informer(mirror.model).store.items())

    @staticmethod
    def _object(key: Key, node: str | int) -> bytes:
        return pod(key, "1", node=node, phase=node)


def _apply(objects: dict[Key, str], key: Key, node: str | int | None) -> None:
    if node is None:
        objects.pop(key, None)
    elif node != 0:
        objects[key] = cast(str, node)


def _fail(_key: Key, error: BaseException) -> None:
    raise AssertionError from error


@contextmanager
def slices_of_two() -> Iterator[None]:
    """Make slices small enough to find the mistakes between them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shared_informer, "SLICE", 2)
        patched.setattr(stores, "SLICE", 2)
        yield


@given(st.booleans(), st.lists(STEPS, max_size=40))
async def test_whatever_happens_between_slices(synced: bool, steps: list[tuple[Any, ...]]) -> None:
    """
    Readers see complete sets, handlers are told everything once and in order (F-47).

    Whoever comes or goes in the midst of it, while a list is put in place or while others are
    still being told.
    """
    with slices_of_two():
        world = World()
        if synced:
            await world.begin_list(dict.fromkeys(KEYS[:4], "n1"))
            await world.go_on(1_000)
        for step, *arguments in steps:
            await getattr(world, step)(*arguments)
            world.check_readers()
        await world.end()


def added(count: int) -> Iterator[tuple[str, bytes]]:
    """Return the events of so many pods."""
    return (("ADDED", pod(Key(f"p{number}", "team"), "1")) for number in range(count))


async def test_the_loop_is_heard_between_slices(informer: SharedInformer) -> None:
    """No turn of the loop prepares or tells more than a slice of the first list (F-47)."""
    turn = 0
    loop = asyncio.get_running_loop()
    told: Counter[int] = Counter()

    def next_turn() -> None:
        nonlocal turn
        turn += 1
        if turn < 100:
            loop.call_soon(next_turn)

    class Counting(RecordingHandler):
        def on_change(self, change: Change[Any]) -> None:
            super().on_change(change)
            told[turn] += 1

    next_turn()
    handler = Counting()
    informer.add_event_handler(Pod, handler)
    begin_streaming_list(informer, *added(10 * SLICE))
    assert sum(1 for _ in informer.init_done()) == 10
    for _ in range(50):
        await asyncio.sleep(0)
    assert handler.synced_after == [10 * SLICE]
    assert told.total() == 10 * SLICE
    assert max(told.values()) == SLICE


async def test_what_is_gone_is_found_and_freed_in_slices(informer: SharedInformer) -> None:
    """A list that lacks them all is compared with them slice by slice (F-47)."""
    informer.add_event_handler(Pod, RecordingHandler())
    streaming_list(informer, *added(4 * SLICE))
    begin_streaming_list(informer)
    steps = informer.init_done()
    for _ in range(4):
        next(steps)
        assert len(informer.typed_informer(Pod).store) == 4 * SLICE
    assert sum(1 for _ in steps) == 4, "to free them"
    assert len(informer.typed_informer(Pod).store) == 0


async def test_a_relist_is_told_in_one_turn(informer: SharedInformer) -> None:
    """The memory of a controller is never between two sets of objects (F-47)."""
    handler = RecordingHandler()
    informer.add_event_handler(Pod, handler)
    streaming_list(informer)
    streaming_list(informer, *added(3 * SLICE))
    assert len(handler.changes) == 3 * SLICE


async def test_who_leaves_in_the_midst_hears_nothing_more(informer: SharedInformer) -> None:
    """What was left to tell goes with the handler (F-47)."""
    handler = RecordingHandler()
    informer.add_event_handler(Pod, RecordingHandler())
    informer.add_event_handler(Pod, handler)
    streaming_list(informer, *added(2 * SLICE))
    event(informer, "ADDED", pod(A, "2"))
    informer.remove_event_handler(handler)
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(handler.changes) == SLICE
    assert handler.synced_after == []
