"""Single events of a watch: in order, one by one, and the odd ones."""

import json
from typing import Any

import pytest
from host.informer.reflector.mirror import STREAMING, ConfigMaps, Follow, error_event, until

from kcm_host.client import line_reader
from kcm_host_testing.faults import Answer, Cut, Rewrite
from kcm_host_testing.proxy import FaultProxy

WATCH = {"watch": "true"}


def _changed(line: bytes, **changes: Any) -> bytes:
    """Give the event with other values at the top or, as `kind`, in its object."""
    told = json.loads(line)
    if "kind" in changes:
        told["object"]["kind"] = changes.pop("kind")
    return json.dumps({**told, **changes}).encode()


async def test_every_change_is_told_in_order(follow: Follow, config_maps: ConfigMaps) -> None:
    """Three updates at once are three changes, each from the state before (IQ-40, IQ-T13)."""
    await config_maps.create("a")
    mirror = await follow()
    await mirror.synced()
    for value in ("1", "2", "3"):
        await config_maps.change("a", value)
    await config_maps.delete("a")
    await mirror.hears("-a")
    assert mirror.heard == ["+a", "~a", "~a", "~a", "-a"]
    changes = mirror.reader.changes[1:]
    steps = [(_data(change.old), _data(change.new)) for change in changes]
    assert steps == [("0", "1"), ("1", "2"), ("2", "3"), ("3", None)]
    versions = [int(change.version) for change in changes]
    assert versions == sorted(versions)


@pytest.mark.parametrize("frame", [b"{", b"not json", b'{"type":"ADDED"}', b"[]"])
async def test_an_unreadable_frame_leads_to_a_new_list(
    follow: Follow, fault_proxy: FaultProxy, config_maps: ConfigMaps, frame: bytes
) -> None:
    """What cannot be read ends the round; a new list brings what it was (IQ-29, IQ-T11)."""
    mirror = await follow()
    await mirror.synced()
    fault_proxy.add(Rewrite(lambda _: frame), query=WATCH, also_open=True, times=1)
    await config_maps.create("a")
    await mirror.hears("+a")
    assert mirror.shapes == ["stream", "stream"]
    await config_maps.create("b")
    await mirror.hears("+b")


@pytest.mark.parametrize("kind", ["Secret", "Table", ""])
async def test_an_object_of_another_kind_is_skipped(
    follow: Follow,
    fault_proxy: FaultProxy,
    config_maps: ConfigMaps,
    caplog: pytest.LogCaptureFixture,
    kind: str,
) -> None:
    """It is told in the log, the stream goes on, the version stays behind (IQ-25, IQ-T12)."""
    mirror = await follow()
    await mirror.synced()
    before = mirror.reflector.resource_version

    def foreign(line: bytes) -> bytes:
        return _changed(line, kind=kind) if b'"name":"odd"' in line else line

    rule = fault_proxy.add(Rewrite(foreign), query=WATCH, also_open=True)
    await config_maps.create("odd")
    await until(lambda: "object of another kind skipped" in caplog.messages)
    assert mirror.reflector.resource_version == before
    assert mirror.requests[0].open
    rule.remove()
    fault_proxy.add(Cut(), query=WATCH, also_open=True, times=1)
    await mirror.hears("+odd")
    assert mirror.shapes == ["stream", "watch"]
    assert mirror.requests[1].query["resourceVersion"] == before


async def test_an_event_of_unknown_type_moves_the_version(
    follow: Follow,
    fault_proxy: FaultProxy,
    config_maps: ConfigMaps,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is told in the log and changes no object (IQ-25)."""
    mirror = await follow()
    await mirror.synced()

    def unknown(line: bytes) -> bytes:
        return _changed(line, type="RENAMED") if b'"name":"odd"' in line else line

    fault_proxy.add(Rewrite(unknown), query=WATCH, also_open=True)
    version = await config_maps.create("odd")
    await until(lambda: mirror.reflector.resource_version == version)
    assert "watch event of unknown type skipped" in caplog.messages
    await config_maps.create("a")
    await mirror.hears("+a")
    assert mirror.heard == ["+a"]


async def test_types_do_not_matter_only_what_is_stored(
    follow: Follow, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """MODIFIED of an unknown object is an add, ADDED of a known one a change (IQ-45)."""
    await config_maps.create("known")
    mirror = await follow()
    await mirror.synced()

    def swapped(line: bytes) -> bytes:
        kind = "ADDED" if json.loads(line)["type"] == "MODIFIED" else "MODIFIED"
        return _changed(line, type=kind)

    fault_proxy.add(Rewrite(swapped), query=WATCH, also_open=True)
    await config_maps.create("new")
    await config_maps.change("known", "1")
    await mirror.hears("+new", "~known")
    assert mirror.heard == ["+known", "+new", "~known"]


async def test_an_object_that_misfits_keeps_its_last_good_state(
    follow: Follow,
    fault_proxy: FaultProxy,
    config_maps: ConfigMaps,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Valid JSON that does not fit the model is told once a version and is no delete."""
    await config_maps.create("a")
    mirror = await follow()
    await mirror.synced()

    def misfit(line: bytes) -> bytes:
        return line.replace(b'"data":{"n":"bad"}', b'"data":"bad"')

    rule = fault_proxy.add(Rewrite(misfit), query=WATCH, also_open=True)
    version = await config_maps.change("a", "bad")
    await until(lambda: mirror.reflector.resource_version == version)
    assert mirror.heard == ["+a"]
    assert [str(key) for key in mirror.store.undecodable] == [f"{config_maps.namespace}/a"]
    assert [model.data for _, model in mirror.store.items()] == [{"n": "0"}]
    assert caplog.messages.count("undecodable object, last decoded state kept") == 1
    rule.remove()
    await config_maps.change("a", "2")
    await mirror.hears("~a")
    assert not mirror.store.undecodable


async def test_long_lines_come_through(follow: Follow, config_maps: ConfigMaps) -> None:
    """An object far larger than one read of the socket is one event."""
    mirror = await follow()
    await mirror.synced()
    await config_maps.create("large")
    await config_maps.change("large", "x" * 900_000)
    await mirror.hears("~large")
    assert len(_data(mirror.reader.changes[-1].new) or "") == 900_000


def _data(model: Any) -> str | None:
    return None if model is None else str(model.data["n"])


async def test_a_line_without_end_is_told_and_left(
    follow: Follow,
    fault_proxy: FaultProxy,
    config_maps: ConfigMaps,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What an answer makes the host keep is bounded; the next list brings what it hid (F-25)."""
    monkeypatch.setattr(line_reader, "MAX_LINE_BYTES", 100_000)
    mirror = await follow()
    await mirror.synced()
    endless = fault_proxy.add(Rewrite(lambda _: b"x" * 1_000_000), query=WATCH, also_open=True)
    await config_maps.create("a")
    await until(lambda: "a line has no end" in mirror.reflector.error)
    endless.remove()
    await mirror.hears("+a")
    assert mirror.reflector.error == ""


async def test_events_without_version_leave_the_last_one(
    follow: Follow, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """Without a version the next watch would not tell what went in between (IQ-26)."""
    mirror = await follow()
    await mirror.synced()
    version = mirror.reflector.resource_version

    def without(line: bytes) -> bytes:
        told = json.loads(line)
        told["object"]["metadata"].pop("resourceVersion")
        return json.dumps(told).encode()

    fault_proxy.add(Rewrite(without), query=WATCH, also_open=True, times=1)
    await config_maps.create("a")
    await mirror.hears("+a")
    assert mirror.reflector.resource_version == version


async def test_events_and_items_without_a_name_are_skipped(
    follow: Follow, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """Nothing is stored under an empty name: a write to it would go to the collection (IQ-25)."""

    def nameless(line: bytes) -> bytes:
        return line.replace(b'"name":"odd"', b'"name":""')

    fault_proxy.add(Rewrite(nameless), path="configmaps")
    await config_maps.create("odd")
    mirror = await follow()
    await mirror.synced()
    await config_maps.create("a")
    await mirror.hears("+a")
    fault_proxy.add(Answer(422), query=STREAMING)
    gone = Rewrite(lambda _: error_event(410, "Expired"))
    fault_proxy.add(gone, query=WATCH, also_open=True, times=1)
    await config_maps.create("b")
    await mirror.hears("+b")
    assert "list" in mirror.shapes
    assert mirror.heard == ["+a", "+b"]
    assert len(mirror.store) == 2
