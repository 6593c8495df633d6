"""The resync: all objects are synced periodically, and missed requests are counted (F-52)."""

import asyncio
import logging
import random
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from host.runtime.copying import NODE, Copying
from hypothesis import given
from hypothesis import strategies as st
from logged import logged
from virtual_time import run_in_virtual_time
from worlds.running import World, running

from kcm_host.api import Cause, Key
from kcm_host.runtime.periodic import BATCH, JITTER

HOUR = timedelta(hours=1)
#: By then the first sweep has begun, whatever the jitter, and ended.
ONE_RESYNC = HOUR.total_seconds() * (1 + JITTER) + 60
TOLD = "wake-up missed, found by the periodic resync"


def copying_world(
    chance: random.Random, *, period: timedelta = HOUR, rest: timedelta = timedelta(0)
) -> tuple[World, Callable[[], Copying]]:
    """Return a world with the copying controller, and a function for its latest instance."""
    made: list[Copying] = []

    def make() -> Copying:
        made.append(Copying(chance, rest=rest))
        return made[-1]

    world = World("ttl", chance, keys={NODE: ""}, make=make)
    world.resync_each(period)
    return world, lambda: made[-1]


def want(world: World, name: str, value: str) -> None:
    """Ask for another copy, on a node that is made if it is not there."""
    body = {"metadata": {"annotations": {"want": value}}}
    if world[NODE].get(name) is None:
        world[NODE].create({"metadata": {"name": name, **body["metadata"]}})
    else:
        world[NODE].patch(name, "", body)


def wrong(world: World) -> list[str]:
    """Return the nodes whose copy is another."""
    annotations = {
        each["metadata"]["name"]: each["metadata"].get("annotations", {})
        for each in world[NODE].all()
    }
    return [name for name, one in annotations.items() if one.get("want") != one.get("got")]


@pytest.mark.virtual_time
async def test_a_missed_request_is_corrected_counted_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The first sweep mends what no wake-up led to; the next finds nothing (F-52)."""
    world, _ = copying_world(random.Random(1))
    async with running(world):
        for name in ("gone-1", "gone-2", "now-1"):
            want(world, name, "a")
        await world.quiet()
        assert wrong(world) == ["gone-1", "gone-2"]
        await asyncio.sleep(2 * ONE_RESYNC)
        assert wrong(world) == []
    assert sorted(world.counted()) == ["gone-1", "gone-2"]
    told = logged(caplog, TOLD)
    assert {one["controller"] for one in told} == {"ttl"}
    assert sorted(one["key"] for one in told) == ["gone-1", "gone-2"]
    assert told[0]["write"] in ("patch nodes 'gone-1'", "patch nodes 'gone-2'")
    assert "report it" in told[0]["remedy"]


@pytest.mark.virtual_time
async def test_requests_that_were_not_missed_are_not_counted() -> None:
    """Every object is synced at each sweep, and nothing is written or counted (F-52)."""
    world, newest = copying_world(random.Random(2))
    names = [f"now-{number}" for number in range(2 * BATCH + 50)]
    async with running(world):
        for name in names:
            want(world, name, "a")
        await world.quiet()
        writes = len(world.server.writes)
        newest().syncs.clear()
        await asyncio.sleep(ONE_RESYNC)
        assert sorted(key.name for key in newest().syncs) == sorted(names)
        assert len(world.server.writes) == writes
    assert world.counted() == []
    swept = [record for record in world.syncs if record.causes[0].reason == "resync"]
    assert len(swept) == len(names)
    assert {record.causes[0].kind for record in swept} == {"nodes"}


@pytest.mark.virtual_time
async def test_the_resync_can_be_disabled() -> None:
    """With a period of zero nothing is ever swept (F-52)."""
    world, newest = copying_world(random.Random(3), period=timedelta(0))
    async with running(world):
        want(world, "gone-1", "a")
        await world.quiet()
        newest().syncs.clear()
        await asyncio.sleep(30 * 3600)
        assert wrong(world) == ["gone-1"]
        assert newest().syncs == []


@pytest.mark.virtual_time
async def test_a_request_of_a_timer_is_not_missed() -> None:
    """
    A write that a timer would request now is not counted; the timer is called early (F-52).

    A timer with `resync=True` is not called early.
    """
    world, newest = copying_world(random.Random(4))
    async with running(world):
        run = world.run
        for round_ in range(40):
            want(world, "timed-1", str(round_))
            await asyncio.sleep(1)
            run.queue.add_resync(Key("timed-1"), Cause(reason="resync", received=0.0, kind="nodes"))
            await asyncio.sleep(0.5)
        assert wrong(world) == []
        assert newest().own_resyncs == 0
    by_sweep = [one for one in world.syncs if one.causes[0].reason == "resync" and one.writes]
    assert by_sweep, "no sync of the sweep has written before the timer"
    assert world.counted() == []


@pytest.mark.virtual_time
async def test_an_undecodable_object_is_not_synced() -> None:
    """No sync is made for an object whose present version does not fit the model (F-52)."""
    world, newest = copying_world(random.Random(5))
    async with running(world):
        want(world, "now-1", "a")
        world[NODE].create({"metadata": {"name": "now-2", "annotations": {"want": 7}}})
        await world.quiet()
        newest().syncs.clear()
        await asyncio.sleep(ONE_RESYNC)
        assert newest().syncs == [Key("now-1")]


@pytest.mark.virtual_time
async def test_nothing_is_counted_while_a_watch_syncs() -> None:
    """While initial objects go through `keys`, any request may still come (F-52)."""
    world, _ = copying_world(random.Random(6))
    async with running(world):
        run = world.run
        (handler,) = run._required._handlers.values()
        want(world, "gone-1", "a")
        await world.quiet()
        handler.is_synced = False
        run.queue.add_resync(Key("gone-1"), Cause(reason="resync", received=0.0, kind="nodes"))
        await world.quiet()
        assert wrong(world) == []
    assert world.counted() == []


@pytest.fixture
def quiet_log() -> Iterator[None]:
    """Keep the lines of failing syncs out of the log."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


SORTS = ("now", "soon", "late", "shaky", "timed")


@pytest.mark.usefixtures("quiet_log")
@given(
    seed=st.integers(0, 2**32 - 1),
    period=st.sampled_from((0.5, 1.0, 3.0, 10.0)),
    rest=st.sampled_from((0.0, 0.0, 0.2, 2.0)),
)
def test_requested_keys_are_not_counted(seed: int, period: float, rest: float) -> None:
    """
    A write is never counted when a wake-up was pending, however often is swept (F-52).

    Whether that one waited in the queue, for its time, for a retry, for the end of a burst, for
    a timer, or came while the sync was running.
    """

    async def play(chance: random.Random) -> None:
        world, _ = copying_world(
            chance, period=timedelta(seconds=period), rest=timedelta(seconds=rest)
        )
        async with running(world):
            for step in range(30):
                name = f"{chance.choice(SORTS)}-{chance.randrange(3)}"
                want(world, name, str(step))
                if chance.random() < 0.1:
                    world.server.cut(NODE, expired=chance.random() < 0.5)
                await asyncio.sleep(chance.choice((0.0, 0.01, 0.1, 1.0)))
            await world.quiet()
            assert wrong(world) == []
            assert world.counted() == []
        assert any(record.causes[0].reason == "resync" for record in world.syncs)

    run_in_virtual_time(play(random.Random(seed)))


@pytest.mark.usefixtures("quiet_log")
@given(seed=st.integers(0, 2**32 - 1), period=st.sampled_from((0.5, 3.0, 60.0)))
def test_all_missed_requests_are_counted(seed: int, period: float) -> None:
    """Changes without a request are counted, and no others (F-52)."""

    async def play(chance: random.Random) -> None:
        world, _ = copying_world(chance, period=timedelta(seconds=period))
        missed = set()
        async with running(world):
            for step in range(20):
                name = f"{chance.choice((*SORTS, 'gone'))}-{chance.randrange(3)}"
                want(world, name, str(step))
                missed |= {name} if name.startswith("gone") else set()
                await asyncio.sleep(chance.choice((0.0, 0.1, 1.0)))
            await world.quiet()
            await world.quiet()
            assert wrong(world) == []
        assert set(world.counted()) == missed

    run_in_virtual_time(play(random.Random(seed)))
