"""A stream of a real server: what it asks for, how it ends, and what comes through."""

import asyncio

import pytest
from host.informer.reflector.running_reflector import (
    DEADLINE_SECONDS,
    ConfigMaps,
    RunningReflector,
    StartReflector,
    until,
)

from kcm_host.client import rest
from kcm_host.client.http import lines
from kcm_host_testing.faults import AfterLines, Cut, Rewrite, Stall
from kcm_host_testing.proxy import FaultProxy

WATCH = {"watch": "true"}


async def test_one_request_brings_all_objects_and_then_every_change(
    start_reflector: StartReflector, config_maps: ConfigMaps
) -> None:
    """One watch carries the initial objects and what follows; there is no list (IQ-10, IQ-T1)."""
    await config_maps.create("a", "b", "c")
    running = await start_reflector()
    await running.synced()
    assert sorted(running.seen) == ["+a", "+b", "+c"]
    assert all(change.initial for change in running.handler.changes)
    await config_maps.create("d")
    await running.wait_for_changes("+d")
    assert not running.handler.changes[-1].initial
    (request,) = running.requests
    query = dict(request.query)
    assert 300 <= int(query.pop("timeoutSeconds")) < 600
    assert query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
    }
    assert request.open


async def test_a_stopped_reflector_closes_its_watch(
    start_reflector: StartReflector, config_maps: ConfigMaps
) -> None:
    """At the end the open watch is closed and nothing more is told (IQ-33)."""
    running = await start_reflector()
    await running.synced()
    await running.stop()
    await until(lambda: not running.requests[0].open)
    await config_maps.create("late")
    assert running.seen == []
    assert len(running.requests) == 1


async def _with_one(start_reflector: StartReflector, config_maps: ConfigMaps) -> RunningReflector:
    """A running that has heard one event on its open watch, so that its end is a normal one."""
    running = await start_reflector()
    await running.synced()
    await config_maps.create("first")
    await running.wait_for_changes("+first")
    return running


async def test_a_cut_connection_is_a_normal_end(
    start_reflector: StartReflector, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """A watch that breaks goes on from the last version; nothing is lost or doubled (IQ-117)."""
    running = await _with_one(start_reflector, config_maps)
    for name in ("second", "third"):
        version = running.handler.changes[-1].resource_version
        fault_proxy.add(Cut(), query=WATCH, also_open=True, times=1)
        await config_maps.create(name)
        await running.wait_for_changes(f"+{name}")
        assert running.requests[-1].query["resourceVersion"] == version
    assert running.seen == ["+first", "+second", "+third"]
    assert running.request_kinds == ["stream", "watch", "watch"]


async def test_silence_is_noticed(
    start_reflector: StartReflector,
    fault_proxy: FaultProxy,
    config_maps: ConfigMaps,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A watch on which no byte comes for too long is opened anew (IQ-116)."""
    monkeypatch.setattr(rest, "WATCH_READ_SECONDS", 1.2)
    running = await _with_one(start_reflector, config_maps)
    stall = fault_proxy.add(Stall(), query=WATCH, also_open=True, times=1)
    await config_maps.create("second")
    await running.wait_for_changes("+second")
    assert stall.hits == 1
    assert running.request_kinds[:2] == ["stream", "watch"]
    assert running.seen == ["+first", "+second"]


async def test_long_lines_come_through(
    start_reflector: StartReflector, config_maps: ConfigMaps
) -> None:
    """An object far larger than one read of the socket is one event."""
    running = await start_reflector()
    await running.synced()
    await config_maps.create("large")
    await config_maps.change("large", "x" * 900_000)
    await running.wait_for_changes("~large")
    (stored,) = [model for _, model in running.store.items()]
    assert len(stored.data["n"]) == 900_000


async def test_a_line_without_end_is_told_and_left(
    start_reflector: StartReflector,
    fault_proxy: FaultProxy,
    config_maps: ConfigMaps,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What an answer makes the host keep is bounded; the next list brings what it hid (F-25)."""
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 100_000)
    running = await start_reflector()
    await running.synced()
    endless = fault_proxy.add(Rewrite(lambda _: b"x" * 1_000_000), query=WATCH, also_open=True)
    await config_maps.create("a")
    await until(lambda: "a line has no end" in running.reflector.error)
    endless.remove()
    await running.wait_for_changes("+a")
    assert running.reflector.error == ""


@pytest.mark.parametrize(
    ("selected", "query", "found"),
    [
        ({"label_selector": "app in (x,y)"}, {"labelSelector": "app in (x,y)"}, ["+x", "+y"]),
        ({"field_selector": "metadata.name=y"}, {"fieldSelector": "metadata.name=y"}, ["+y"]),
        (
            {"label_selector": "app=x", "field_selector": "metadata.name!=y"},
            {"labelSelector": "app=x", "fieldSelector": "metadata.name!=y"},
            ["+x"],
        ),
    ],
    ids=["labels", "fields", "both"],
)
async def test_selectors_limit_a_stream(
    start_reflector: StartReflector,
    config_maps: ConfigMaps,
    selected: dict[str, str],
    query: dict[str, str],
    found: list[str],
) -> None:
    """Selectors go to the server as they are; only what they select comes back."""
    for name in ("x", "y", "z"):
        await config_maps.create(name, labels={"app": name})
    running = await start_reflector(**selected)
    await running.synced()
    assert sorted(running.seen) == found
    (request,) = running.requests
    assert query.items() <= request.query.items()


async def test_an_object_that_leaves_the_selection_is_gone(
    start_reflector: StartReflector, config_maps: ConfigMaps
) -> None:
    """Losing the label is a delete for this stream."""
    await config_maps.create("a", labels={"app": "x"})
    running = await start_reflector(label_selector="app=x")
    await running.synced()
    await config_maps.relabel("a", {"app": "y"})
    await running.wait_for_changes("-a")


async def test_watches_that_are_cut_again_and_again_are_waited_for_and_told(
    start_reflector: StartReflector, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """A watch that lasts ends it; nothing is lost meanwhile (F-26)."""
    running = await start_reflector()
    await running.synced()
    cuts = fault_proxy.add(Cut(AfterLines(1)), query=WATCH, also_open=True)
    names: list[str] = []
    # As many as it takes: the watch that is open already may bring several before it is cut.
    async with asyncio.timeout(DEADLINE_SECONDS):
        while "ended within a second, several times" not in running.reflector.error:
            names.append(f"n{len(names)}")
            await config_maps.create(names[-1])
    assert running.reflector.phase == "failed"
    cuts.remove()
    await running.wait_for_changes(*(f"+{name}" for name in names))
    await until(lambda: running.reflector.phase == "watching")
    assert running.seen == [f"+{name}" for name in names]
    assert running.reflector.lists == 1
