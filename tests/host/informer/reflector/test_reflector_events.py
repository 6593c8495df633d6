"""Single events of a watch: in order, one by one, and the odd ones."""

import json
from typing import Any

import pytest
from host.informer.reflector.running_reflector import (
    ConfigMaps,
    StartReflector,
    until,
)

from kcm_host.client import transport
from kcm_host_testing.faults import Rewrite
from kcm_host_testing.proxy import FaultProxy

WATCH = {"watch": "true"}


def _changed(line: bytes, **changes: Any) -> bytes:
    """Return the event with other values at the top or, as `kind`, in its object."""
    told = json.loads(line)
    if "kind" in changes:
        told["object"]["kind"] = changes.pop("kind")
    return json.dumps({**told, **changes}).encode()


async def test_every_change_is_told_in_order(
    start_reflector: StartReflector, config_maps: ConfigMaps
) -> None:
    """Three updates at once are three changes, each from the state before (IQ-40, IQ-T13)."""
    await config_maps.create("a")
    running = await start_reflector()
    await running.synced()
    for value in ("1", "2", "3"):
        await config_maps.change("a", value)
    await config_maps.delete("a")
    await running.wait_for_changes("-a")
    assert running.seen == ["+a", "~a", "~a", "~a", "-a"]
    changes = running.handler.changes[1:]
    steps = [(_data(change.old), _data(change.new)) for change in changes]
    assert steps == [("0", "1"), ("1", "2"), ("2", "3"), ("3", None)]
    versions = [int(change.resource_version) for change in changes]
    assert versions == sorted(versions)


async def test_an_object_that_misfits_keeps_its_last_good_state(
    start_reflector: StartReflector,
    fault_proxy: FaultProxy,
    config_maps: ConfigMaps,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Valid JSON that does not fit the model is told once a version and is no delete."""
    await config_maps.create("a")
    running = await start_reflector()
    await running.synced()

    def misfit(line: bytes) -> bytes:
        return line.replace(b'"data":{"n":"bad"}', b'"data":"bad"')

    rule = fault_proxy.add(Rewrite(misfit), query=WATCH, also_open=True)
    version = await config_maps.change("a", "bad")
    await until(lambda: running.reflector.resource_version == version)
    assert running.seen == ["+a"]
    assert [str(key) for key in running.store.undecodable] == [f"{config_maps.namespace}/a"]
    assert [model.data for _, model in running.store.items()] == [{"n": "0"}]
    assert caplog.messages.count("undecodable object, last decoded state kept") == 1
    rule.remove()
    await config_maps.change("a", "2")
    await running.wait_for_changes("~a")
    assert not running.store.undecodable


async def test_long_lines_come_through(
    start_reflector: StartReflector, config_maps: ConfigMaps
) -> None:
    """An object far larger than one read of the socket is one event."""
    running = await start_reflector()
    await running.synced()
    await config_maps.create("large")
    await config_maps.change("large", "x" * 900_000)
    await running.wait_for_changes("~large")
    assert len(_data(running.handler.changes[-1].new) or "") == 900_000


def _data(model: Any) -> str | None:
    return None if model is None else str(model.data["n"])


async def test_a_line_without_end_is_told_and_left(
    start_reflector: StartReflector,
    fault_proxy: FaultProxy,
    config_maps: ConfigMaps,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What an answer makes the host keep is bounded; the next list brings what it hid (F-25)."""
    monkeypatch.setattr(transport, "MAX_LINE_BYTES", 100_000)
    running = await start_reflector()
    await running.synced()
    endless = fault_proxy.add(Rewrite(lambda _: b"x" * 1_000_000), query=WATCH, also_open=True)
    await config_maps.create("a")
    await until(lambda: "a line has no end" in running.reflector.error)
    endless.remove()
    await running.wait_for_changes("+a")
    assert running.reflector.error == ""
