"""A write that was not awaited is a failure of the sync, not a success without a write (F-63)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from host.reconcile.worker_rig import NODE, A, RecordingSender, Rig

from kcm_host.api.kinds import Key
from kcm_host.api.sync import Done, Outcome
from kcm_host.api.watch import View
from kcm_host.api.writes import Permission, Writer
from kcm_host.reconcile.worker import SyncFunction

pytestmark = pytest.mark.virtual_time

OBJECT = {"metadata": {"name": "a", "resourceVersion": "1"}}
META: Any = None
CALLS: dict[str, Callable[[Writer], Any]] = {
    "patch": lambda writer: writer.patch(NODE, A, {}),
    "apply": lambda writer: writer.apply(NODE, A, {}, field_manager="m"),
    "create": lambda writer: writer.create(NODE, OBJECT),
    "update": lambda writer: writer.update(NODE, OBJECT),
    "delete": lambda writer: writer.delete(NODE, A),
    "ensure_finalizer": lambda writer: writer.ensure_finalizer(NODE, META, "x"),
    "release_finalizer": lambda writer: writer.release_finalizer(NODE, META, "x"),
    "read": lambda writer: writer.read(NODE, A),
}


def calling(name: str) -> SyncFunction:
    """Return a sync that calls a method of the writer and forgets to await it."""

    async def sync(key: Key, view: View, writer: Writer) -> Outcome:
        CALLS[name](writer)
        return Done()

    return sync


@pytest.mark.parametrize("name", CALLS)
async def test_a_forgotten_await_is_an_error(rig: Rig, name: str) -> None:
    """The sync fails with what to write; nothing was sent, and Python does not warn (F-63)."""
    rig.permissions = frozenset(
        Permission(kind=NODE, verb=verb) for verb in ("patch", "create", "update", "delete", "get")
    )
    (record,) = await rig.sync_a(calling(name), seconds=0.001)
    assert record.outcome == "error"
    assert record.error == (
        f"writer.{name}(...) was not awaited, so nothing was sent; write 'await writer.{name}(...)'"
    )
    assert record.writes == ()


async def test_one_forgotten_among_others_is_an_error(rig: Rig) -> None:
    """Writes that were awaited stay; the one that was not is named (F-63)."""

    async def sync(key: Key, view: View, writer: Writer) -> Outcome:
        await writer.patch(NODE, key, {"a": 1})
        await asyncio.gather(writer.patch(NODE, key, {"b": 1}), writer.patch(NODE, key, {"c": 1}))
        writer.patch(NODE, key, {"d": 1})  # type: ignore[unused-coroutine] # the mistake
        await writer.patch(NODE, key, {"e": 1})
        return Done()

    rig.sender = sender = RecordingSender()
    (record,) = await rig.sync_a(sync, seconds=0.001)
    assert record.error.startswith("writer.patch(...) was not awaited")
    assert [write.body for write in sender.writes] == [
        b'{"a":1}',
        b'{"b":1}',
        b'{"c":1}',
        b'{"e":1}',
    ]


async def test_an_error_of_the_sync_comes_first(rig: Rig) -> None:
    """Calls that were prepared when a sync failed are closed; its own error is told (F-63)."""

    async def sync(key: Key, view: View, writer: Writer) -> Outcome:
        prepared = [writer.patch(NODE, key, {})]
        raise LookupError(len(prepared))

    (record,) = await rig.sync_a(sync, seconds=0.001)
    assert record.error == "LookupError: 1"


async def test_a_write_of_a_task_is_left_to_the_task(rig: Rig) -> None:
    """A task that starts after its sync gets the error of a closed writer (F-30)."""
    tasks: list[asyncio.Task[Any]] = []

    async def sync(key: Key, view: View, writer: Writer) -> Outcome:
        tasks.append(asyncio.create_task(writer.patch(NODE, key, {})))
        return Done()

    (record,) = await rig.sync_a(sync, seconds=0.001)
    assert record.outcome == "done"
    with pytest.raises(Exception, match="its sync has ended"):
        await tasks[0]
