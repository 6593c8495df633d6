"""How a watch ends, and what comes after it."""

import json
import logging
from itertools import pairwise

import pytest
from host.informer.reflector.mirror import (
    STREAMING,
    ConfigMaps,
    Follow,
    Mirror,
    error_event,
    event,
    status,
    until,
)

from kcm_host.client import rest
from kcm_host.informer import list_watch
from kcm_host_testing.faults import AfterLines, Answer, Cut, Request, Rewrite, Stall
from kcm_host_testing.proxy import FaultProxy

WATCH = {"watch": "true"}


def _is_plain(request: Request) -> bool:
    """Whether this opens a watch without initial objects."""
    return request.watch and "sendInitialEvents" not in request.query


async def _with_one(follow: Follow, config_maps: ConfigMaps) -> Mirror:
    """A mirror that has heard one event on its open watch, so that its end is a normal one."""
    mirror = await follow()
    await mirror.synced()
    await config_maps.create("first")
    await mirror.hears("+first")
    return mirror


async def test_a_watch_that_the_server_ends_is_opened_again(
    follow: Follow, config_maps: ConfigMaps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the server's time-out comes a watch from the last version, no list (IQ-28, IQ-T5)."""
    monkeypatch.setattr(list_watch, "TIMEOUT_SECONDS", (1, 2))
    mirror = await _with_one(follow, config_maps)
    version = mirror.reader.changes[-1].version
    await mirror.asks(2)
    assert mirror.shapes == ["stream", "watch"]
    again = dict(mirror.requests[1].query)
    assert again == {**WATCH, "allowWatchBookmarks": "true", "timeoutSeconds": "1"} | {
        "resourceVersion": version
    }
    await config_maps.create("second")
    await mirror.hears("+second")
    assert mirror.reflector.lists == 1


async def test_a_cut_connection_is_a_normal_end(
    follow: Follow, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """A watch that breaks goes on from the last version; nothing is lost or doubled (IQ-117)."""
    mirror = await _with_one(follow, config_maps)
    for name in ("second", "third"):
        version = mirror.reader.changes[-1].version
        fault_proxy.add(Cut(), query=WATCH, also_open=True, times=1)
        await config_maps.create(name)
        await mirror.hears(f"+{name}")
        assert mirror.requests[-1].query["resourceVersion"] == version
    assert mirror.heard == ["+first", "+second", "+third"]
    assert mirror.shapes == ["stream", "watch", "watch"]


async def test_a_cut_right_after_the_list_is_a_normal_end(
    follow: Follow, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """The list came over the same watch, so it was not over at once and empty (IQ-28)."""
    mirror = await follow()
    await mirror.synced()
    version = mirror.reflector.resource_version
    fault_proxy.add(Cut(), query=WATCH, also_open=True, times=1)
    await mirror.asks(2)
    assert mirror.shapes == ["stream", "watch"]
    assert mirror.requests[1].query["resourceVersion"] == version
    await config_maps.create("first")
    await mirror.hears("+first")


async def test_a_line_cut_in_two_comes_again_whole(
    follow: Follow, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """What arrived of an unfinished line is dropped, with no error (IQ-117)."""
    mirror = await _with_one(follow, config_maps)
    # The proxy adds the line's end to what it keeps; a body that ends here has none.
    body = event("ADDED", {"kind": "ConfigMap", "metadata": {"name": "half"}})[:-9]
    fault_proxy.add(Answer(200, body), when=_is_plain, times=1)
    fault_proxy.add(Cut(), query=WATCH, also_open=True, times=1)
    await until(lambda: "watch" in mirror.shapes)
    await config_maps.create("second")
    await mirror.hears("+second")
    assert "+half" not in mirror.heard


async def test_a_watch_that_is_over_at_once_leads_to_a_new_list(
    follow: Follow, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """A watch of under a second without any event ends the round (IQ-28)."""
    mirror = await _with_one(follow, config_maps)
    version = mirror.reflector.resource_version
    fault_proxy.add(Answer(200), when=_is_plain, times=1)
    fault_proxy.add(Cut(), query=WATCH, also_open=True, times=1)
    await mirror.asks(3)
    await until(lambda: mirror.reflector.lists == 2)
    assert mirror.shapes == ["stream", "watch", "stream"]
    assert mirror.requests[-1].query["resourceVersion"] == version


async def test_a_bookmark_moves_the_version(
    follow: Follow, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """After a bookmark the next watch begins there; nobody hears of it (IQ-26, IQ-T10)."""
    mirror = await follow()
    await mirror.synced()
    moved = {}

    def and_bookmark(line: bytes) -> bytes:
        version = str(int(json.loads(line)["object"]["metadata"]["resourceVersion"]) + 1)
        moved["to"] = version
        told = {"kind": "ConfigMap", "metadata": {"resourceVersion": version}}
        return line + b"\n" + event("BOOKMARK", told)

    fault_proxy.add(Rewrite(and_bookmark), query=WATCH, also_open=True, times=1)
    await config_maps.create("a")
    await mirror.hears("+a")
    await until(lambda: mirror.reflector.resource_version == moved["to"])
    fault_proxy.add(Cut(), query=WATCH, also_open=True, times=1)
    await mirror.asks(2)
    assert mirror.requests[1].query["resourceVersion"] == moved["to"]
    assert mirror.heard == ["+a"]


async def test_a_server_that_is_away_is_waited_for_without_a_list(
    follow: Follow, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """Connection refused five times while opening: growing waits, no list (IQ-24, IQ-T7)."""
    mirror = await _with_one(follow, config_maps)
    version = mirror.reflector.resource_version
    before = len(mirror.records)
    fault_proxy.refuse()
    await until(lambda: len(mirror.records) >= before + 5)
    assert {record.status for record in mirror.records[before:]} == {0}
    assert mirror.reflector.phase == "failed"
    await config_maps.create("second")
    fault_proxy.accept()
    await mirror.hears("+second")
    assert mirror.shapes == ["stream", "watch"]
    assert mirror.requests[1].query["resourceVersion"] == version
    assert mirror.reflector.phase == "watching"


async def test_a_busy_server_is_waited_for_without_a_list(
    follow: Follow, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """429 while opening a watch: waits and opens it again (IQ-24)."""
    mirror = await _with_one(follow, config_maps)
    fault_proxy.add(Answer(429, status(429, "TooManyRequests")), when=_is_plain, times=3)
    fault_proxy.add(Cut(), query=WATCH, also_open=True, times=1)
    await config_maps.create("second")
    await mirror.hears("+second")
    assert mirror.shapes == ["stream", "watch", "watch", "watch", "watch"]


@pytest.mark.parametrize("fault", [Answer(500, status(500, "InternalError")), Cut()], ids=str)
async def test_any_other_trouble_leads_to_a_list_from_the_last_version(
    follow: Follow, fault_proxy: FaultProxy, config_maps: ConfigMaps, fault: Answer | Cut
) -> None:
    """Opening that fails otherwise ends the round; the next lists with the version (IQ-24)."""
    mirror = await _with_one(follow, config_maps)
    version = mirror.reflector.resource_version
    # A cut request is sent once more by the HTTP library when its connection was in use before.
    fault_proxy.add(fault, when=_is_plain)
    fault_proxy.add(Cut(), query=WATCH, also_open=True, times=1)
    await until(lambda: mirror.reflector.lists == 2)
    assert mirror.shapes[-1] == "stream"
    assert mirror.requests[-1].query["resourceVersion"] == version
    await config_maps.create("second")
    await mirror.hears("+second")


async def test_silence_is_noticed(
    follow: Follow,
    fault_proxy: FaultProxy,
    config_maps: ConfigMaps,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A watch on which no byte comes for too long is opened anew (IQ-116)."""
    monkeypatch.setattr(rest, "WATCH_READ_SECONDS", 1.2)
    mirror = await _with_one(follow, config_maps)
    stall = fault_proxy.add(Stall(), query=WATCH, also_open=True, times=1)
    await config_maps.create("second")
    await mirror.hears("+second")
    assert stall.hits == 1
    assert mirror.shapes[:2] == ["stream", "watch"]
    assert mirror.heard == ["+first", "+second"]


@pytest.mark.parametrize("streaming", [True, False])
async def test_an_expired_version_leads_to_a_new_list_quietly(
    follow: Follow,
    fault_proxy: FaultProxy,
    config_maps: ConfigMaps,
    caplog: pytest.LogCaptureFixture,
    *,
    streaming: bool,
) -> None:
    """ERROR 410: after a wait a new round with the last version, no warning (IQ-27, IQ-T6)."""
    mirror = await _with_one(follow, config_maps)
    if not streaming:
        fault_proxy.add(Cut(), query=WATCH, also_open=True, times=1)
        await mirror.asks(2)
    version = mirror.reflector.resource_version
    expired = Rewrite(lambda _: error_event(410, "Expired"))
    fault_proxy.add(expired, query=WATCH, also_open=True, times=1)
    await config_maps.create("second")
    await mirror.hears("+second")
    assert mirror.shapes[-1] == "stream"
    assert mirror.requests[-1].query["resourceVersion"] == version
    assert mirror.heard == ["+first", "+second"]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_request_for_patience_in_a_watch_leads_to_a_watch(
    follow: Follow, fault_proxy: FaultProxy, config_maps: ConfigMaps, *, streaming: bool
) -> None:
    """ERROR 429: after a wait the watch is opened again, without a list (IQ-27)."""
    mirror = await _with_one(follow, config_maps)
    if not streaming:
        fault_proxy.add(Cut(), query=WATCH, also_open=True, times=1)
        await mirror.asks(2)
    busy = Rewrite(lambda _: error_event(429, "TooManyRequests"))
    fault_proxy.add(busy, query=WATCH, also_open=True, times=1)
    await config_maps.create("second")
    await mirror.hears("+second")
    assert mirror.shapes == ["stream", *["watch"] * (1 if streaming else 2)]
    assert mirror.reflector.lists == 1


async def test_any_other_error_event_leads_to_a_list(
    follow: Follow, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """ERROR 500 ends the round; the objects come by a new list (IQ-27)."""
    mirror = await _with_one(follow, config_maps)
    broken = Rewrite(lambda _: error_event(500, "InternalError"))
    fault_proxy.add(broken, query=WATCH, also_open=True, times=1)
    await config_maps.create("second")
    await mirror.hears("+second")
    assert mirror.shapes == ["stream", "stream"]
    assert mirror.heard == ["+first", "+second"]


async def test_lists_that_are_cut_again_and_again_are_waited_for_and_told(
    follow: Follow,
    fault_proxy: FaultProxy,
    config_maps: ConfigMaps,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The first is begun again at once, further ones after growing waits, told once (F-26)."""
    await config_maps.create("a", "b")
    cuts = fault_proxy.add(Cut(AfterLines(1)), query=STREAMING)
    mirror = await follow()
    await mirror.asks(5)
    times = [request.time for request in mirror.requests]
    gaps = [(later - sooner).total_seconds() for sooner, later in pairwise(times[1:5])]
    assert [gap >= least for gap, least in zip(gaps, (0.05, 0.1, 0.2), strict=True)] == [True] * 3
    assert set(mirror.shapes) == {"stream"}
    assert (
        "ended before the list was complete, several times in succession" in mirror.reflector.error
    )
    assert caplog.messages.count("watch failed, retrying") == 1
    cuts.remove()
    await mirror.synced()
    await until(lambda: mirror.reflector.phase == "watching")
    assert mirror.heard == ["+a", "+b"]


async def test_watches_that_are_cut_again_and_again_are_waited_for_and_told(
    follow: Follow, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """A watch that lasts ends it; nothing is lost meanwhile (F-26)."""
    mirror = await follow()
    await mirror.synced()
    cuts = fault_proxy.add(Cut(AfterLines(1)), query=WATCH, also_open=True)
    names = [f"n{number}" for number in range(6)]
    await config_maps.create(*names)
    await until(
        lambda: "ended within a second, several times in succession" in mirror.reflector.error
    )
    assert mirror.reflector.phase == "failed"
    cuts.remove()
    await mirror.hears(*(f"+{name}" for name in names))
    await until(lambda: mirror.reflector.phase == "watching")
    assert mirror.heard == [f"+{name}" for name in names]
    assert mirror.reflector.lists == 1
