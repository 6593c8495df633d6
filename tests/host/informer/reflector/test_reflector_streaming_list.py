"""The first objects by a streaming list."""

import json
import logging

import pytest
from host.informer.reflector.mirror import STREAMING, ConfigMaps, Follow, error_event, status, until

from kcm_host.informer import reflector
from kcm_host_testing.faults import AfterLines, Answer, Cut, Rewrite, Stall
from kcm_host_testing.proxy import FaultProxy

NO_STREAMING = Answer(422, status(422, "Invalid"))


async def test_one_request_brings_all_objects_and_then_every_change(
    follow: Follow, config_maps: ConfigMaps
) -> None:
    """One watch carries the initial objects and what follows; there is no list (IQ-10, IQ-T1)."""
    await config_maps.create("a", "b", "c")
    mirror = await follow()
    await mirror.synced()
    assert sorted(mirror.heard) == ["+a", "+b", "+c"]
    assert all(change.initial for change in mirror.reader.changes)
    await config_maps.create("d")
    await mirror.hears("+d")
    assert not mirror.reader.changes[-1].initial
    (request,) = mirror.requests
    query = dict(request.query)
    assert 300 <= int(query.pop("timeoutSeconds")) < 600
    assert query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
    }
    assert request.open


async def test_an_empty_set_is_complete_too(follow: Follow) -> None:
    """Without any object the stream is synced all the same, with the bookmark's version (IQ-54)."""
    mirror = await follow()
    await mirror.synced()
    assert mirror.heard == []
    assert mirror.reflector.resource_version.isdecimal()
    assert mirror.reflector.phase == "watching"


async def test_a_server_without_streaming_lists_is_asked_for_pages(
    follow: Follow, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """After a 422 comes one list with limit 500, then a watch from its version (IQ-13, IQ-T2)."""
    version = await config_maps.create("a", "b")
    fault_proxy.add(NO_STREAMING, query=STREAMING)
    mirror = await follow()
    await mirror.synced()
    await mirror.asks(3)
    assert mirror.shapes == ["stream", "list", "watch"]
    _, listed, watch = mirror.requests
    assert dict(listed.query) == {"limit": "500"}
    assert int(watch.query["resourceVersion"]) >= int(version)
    await config_maps.create("c")
    await mirror.hears("+c")


async def test_every_round_tries_streaming_first(
    follow: Follow, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """A 422 counts for one round only: the next one asks for a streaming list again (IQ-13)."""
    fault_proxy.add(NO_STREAMING, query=STREAMING, times=1)
    gone = fault_proxy.add(Rewrite(lambda _: error_event(410, "Expired")), query={"watch": "true"})
    mirror = await follow()
    await mirror.synced()
    await config_maps.create("a")
    await until(lambda: mirror.shapes[:4] == ["stream", "list", "watch", "stream"])
    gone.remove()
    await mirror.hears("+a")


async def test_a_server_that_is_away_is_asked_for_a_stream_again(
    follow: Follow, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """Connection refused: told, and after a wait the streaming list is tried again (IQ-13)."""
    await config_maps.create("a")
    fault_proxy.refuse()
    mirror = await follow()
    await until(lambda: len(mirror.records) >= 3)
    assert mirror.reflector.phase == "failed"
    fault_proxy.accept()
    await mirror.synced()
    assert set(mirror.shapes) == {"stream"}
    assert (mirror.reflector.phase, mirror.reflector.error) == ("watching", "")


@pytest.mark.parametrize(
    ("patience", "phase", "told"), [(5.0, "listing", ""), (0.0, "failed", "429 TooManyRequests")]
)
async def test_a_busy_server_is_asked_for_a_stream_again(
    follow: Follow,
    fault_proxy: FaultProxy,
    monkeypatch: pytest.MonkeyPatch,
    patience: float,
    phase: str,
    told: str,
) -> None:
    """429: after a wait the streaming list is tried again; told when it lasts (IQ-13)."""
    monkeypatch.setattr(reflector, "BUSY_SECONDS", patience)
    busy = fault_proxy.add(Answer(429, status(429, "TooManyRequests")), query=STREAMING)
    mirror = await follow()
    await mirror.asks(3)
    assert mirror.reflector.phase == phase
    assert told in mirror.reflector.error
    assert bool(mirror.reflector.error) is bool(told)
    busy.remove()
    await mirror.synced()
    assert set(mirror.shapes) == {"stream"}
    assert (mirror.reflector.phase, mirror.reflector.error) == ("watching", "")


@pytest.mark.parametrize(
    ("code", "reason", "cause"),
    [(410, "Expired", ""), (504, "Timeout", "ResourceVersionTooLarge")],
)
async def test_a_version_that_cannot_be_had_is_dropped(
    follow: Follow,
    fault_proxy: FaultProxy,
    config_maps: ConfigMaps,
    code: int,
    reason: str,
    cause: str,
) -> None:
    """When a new round's version is gone or too large, the next try has none (IQ-13, IQ-T6)."""
    mirror = await follow()
    await mirror.synced()
    known = mirror.reflector.resource_version
    rule = fault_proxy.add(
        Answer(code, status(code, reason, cause=cause)),
        query={**STREAMING, "resourceVersion": known},
    )
    gone = Rewrite(lambda _: error_event(410, "Expired"))
    fault_proxy.add(gone, query={"watch": "true"}, also_open=True, times=1)
    await config_maps.create("a")
    await mirror.hears("+a")
    assert mirror.shapes == ["stream", "stream", "stream"]
    assert [request.query.get("resourceVersion") for request in mirror.requests] == [
        None,
        known,
        None,
    ]
    assert rule.hits == 1


async def test_nothing_half_seen_reaches_the_store(
    follow: Follow, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """A stream cut before its bookmark is begun anew, and what it brought is unheard (IQ-14)."""
    await config_maps.create("a", "b", "c")
    fault_proxy.add(Cut(AfterLines(2)), query=STREAMING, times=1)
    stall = fault_proxy.add(Stall(), query=STREAMING)
    mirror = await follow()
    await mirror.asks(2)
    assert len(mirror.store) == 0
    assert mirror.heard == []
    stall.remove()
    await mirror.synced()
    assert sorted(mirror.heard) == ["+a", "+b", "+c"]
    assert mirror.shapes == ["stream", "stream"]
    assert mirror.reflector.lists == 1


async def test_a_stream_that_ends_at_once_and_empty_is_an_error(
    follow: Follow, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """A streaming list that is over within a second without an event leads to pages (IQ-14)."""
    await config_maps.create("a")
    fault_proxy.add(Answer(200), query=STREAMING, times=1)
    mirror = await follow()
    await mirror.synced()
    assert mirror.shapes[:2] == ["stream", "list"]


async def test_an_error_before_the_bookmark_leads_to_pages(
    follow: Follow, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """Any other ERROR event within the initial data gives up streaming for the round (IQ-13)."""
    await config_maps.create("a", "b")
    broken = Rewrite(lambda line: error_event(500) if b'"name":"b"' in line else line)
    fault_proxy.add(broken, query=STREAMING, times=1)
    mirror = await follow()
    await mirror.synced()
    assert mirror.shapes[:2] == ["stream", "list"]
    assert sorted(mirror.heard) == ["+a", "+b"]


async def test_an_object_that_goes_during_the_list_is_not_in_it(
    follow: Follow, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """A DELETED event before the bookmark takes the object out of the gathered set (IQ-11)."""
    await config_maps.create("a", "b")

    def and_deleted(line: bytes) -> bytes:
        if b'"name":"a"' not in line:
            return line
        deleted = json.dumps({**json.loads(line), "type": "DELETED"}).encode()
        return line + b"\n" + deleted

    fault_proxy.add(Rewrite(and_deleted), query=STREAMING)
    mirror = await follow()
    await mirror.synced()
    assert mirror.heard == ["+b"]


async def test_a_long_wait_for_the_first_objects_is_told(
    follow: Follow,
    fault_proxy: FaultProxy,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """While the bookmark does not come, a warning is logged again and again (IQ-15)."""
    monkeypatch.setattr(reflector, "SLOW_LIST_SECONDS", 0.05)
    stall = fault_proxy.add(Stall(AfterLines(0)), query=STREAMING)
    mirror = await follow()
    await until(lambda: _warnings(caplog).count("initial list still incomplete") >= 2)
    stall.remove()
    await mirror.synced()


async def test_a_stopped_reflector_closes_its_watch(
    follow: Follow, config_maps: ConfigMaps
) -> None:
    """At the end the open watch is closed and nothing more is told (IQ-33)."""
    mirror = await follow()
    await mirror.synced()
    await mirror.stop()
    await until(lambda: not mirror.requests[0].open)
    await config_maps.create("late")
    assert mirror.heard == []
    assert len(mirror.requests) == 1


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno == logging.WARNING]
