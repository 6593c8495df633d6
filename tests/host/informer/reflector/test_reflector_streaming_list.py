"""The first objects by a streaming list."""

from host.informer.reflector.running_reflector import (
    STREAMING,
    ConfigMaps,
    StartReflector,
    status,
    until,
)

from kcm_host_testing.faults import AfterLines, Answer, Cut, Stall
from kcm_host_testing.proxy import FaultProxy

NO_STREAMING = Answer(422, status(422, "Invalid"))


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


async def test_an_empty_set_is_complete_too(start_reflector: StartReflector) -> None:
    """Without any object the stream is synced all the same, with the bookmark's version (IQ-54)."""
    running = await start_reflector()
    await running.synced()
    assert running.seen == []
    assert running.reflector.resource_version.isdecimal()
    assert running.reflector.phase == "watching"


async def test_a_server_without_streaming_lists_is_asked_for_pages(
    start_reflector: StartReflector, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """After a 422 comes one list with limit 500, then a watch from its version (IQ-13, IQ-T2)."""
    version = await config_maps.create("a", "b")
    fault_proxy.add(NO_STREAMING, query=STREAMING)
    running = await start_reflector()
    await running.synced()
    await running.wait_for_requests(3)
    assert running.request_kinds == ["stream", "list", "watch"]
    _, listed, watch = running.requests
    assert dict(listed.query) == {"limit": "500"}
    assert int(watch.query["resourceVersion"]) >= int(version)
    await config_maps.create("c")
    await running.wait_for_changes("+c")


async def test_nothing_half_seen_reaches_the_store(
    start_reflector: StartReflector, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """A stream cut before its bookmark is begun anew, and what it brought is unheard (IQ-14)."""
    await config_maps.create("a", "b", "c")
    fault_proxy.add(Cut(AfterLines(2)), query=STREAMING, times=1)
    stall = fault_proxy.add(Stall(), query=STREAMING)
    running = await start_reflector()
    await running.wait_for_requests(2)
    assert len(running.store) == 0
    assert running.seen == []
    stall.remove()
    await running.synced()
    assert sorted(running.seen) == ["+a", "+b", "+c"]
    assert running.request_kinds == ["stream", "stream"]
    assert running.reflector.lists == 1


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
