"""How a watch ends, and what comes after it."""

import pytest
from host.informer.reflector.running_reflector import (
    ConfigMaps,
    RunningReflector,
    StartReflector,
    until,
)

from kcm_host.client import rest
from kcm_host.informer import list_watch
from kcm_host_testing.faults import AfterLines, Cut, Stall
from kcm_host_testing.proxy import FaultProxy

WATCH = {"watch": "true"}


async def _with_one(start_reflector: StartReflector, config_maps: ConfigMaps) -> RunningReflector:
    """A running that has heard one event on its open watch, so that its end is a normal one."""
    running = await start_reflector()
    await running.synced()
    await config_maps.create("first")
    await running.wait_for_changes("+first")
    return running


async def test_a_watch_that_the_server_ends_is_opened_again(
    start_reflector: StartReflector, config_maps: ConfigMaps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the server's time-out comes a watch from the last version, no list (IQ-28, IQ-T5)."""
    monkeypatch.setattr(list_watch, "TIMEOUT_SECONDS", (1, 2))
    running = await _with_one(start_reflector, config_maps)
    version = running.handler.changes[-1].resource_version
    await running.wait_for_requests(2)
    assert running.request_kinds == ["stream", "watch"]
    again = dict(running.requests[1].query)
    assert again == {**WATCH, "allowWatchBookmarks": "true", "timeoutSeconds": "1"} | {
        "resourceVersion": version
    }
    await config_maps.create("second")
    await running.wait_for_changes("+second")
    assert running.reflector.lists == 1


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


async def test_a_server_that_is_away_is_waited_for_without_a_list(
    start_reflector: StartReflector, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """Connection refused five times while opening: growing waits, no list (IQ-24, IQ-T7)."""
    running = await _with_one(start_reflector, config_maps)
    version = running.reflector.resource_version
    before = len(running.records)
    fault_proxy.refuse()
    await until(lambda: len(running.records) >= before + 5)
    assert {record.status for record in running.records[before:]} == {0}
    assert running.reflector.phase == "failed"
    await config_maps.create("second")
    fault_proxy.accept()
    await running.wait_for_changes("+second")
    assert running.request_kinds == ["stream", "watch"]
    assert running.requests[1].query["resourceVersion"] == version
    assert running.reflector.phase == "watching"


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


async def test_watches_that_are_cut_again_and_again_are_waited_for_and_told(
    start_reflector: StartReflector, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """A watch that lasts ends it; nothing is lost meanwhile (F-26)."""
    running = await start_reflector()
    await running.synced()
    cuts = fault_proxy.add(Cut(AfterLines(1)), query=WATCH, also_open=True)
    names = [f"n{number}" for number in range(6)]
    await config_maps.create(*names)
    await until(
        lambda: "ended within a second, several times in succession" in running.reflector.error
    )
    assert running.reflector.phase == "failed"
    cuts.remove()
    await running.wait_for_changes(*(f"+{name}" for name in names))
    await until(lambda: running.reflector.phase == "watching")
    assert running.seen == [f"+{name}" for name in names]
    assert running.reflector.lists == 1
