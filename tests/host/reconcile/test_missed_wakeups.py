"""Which writes of a resync-only sync are counted as missed wake-ups (F-52)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from host.reconcile.worker_rig import CAUSE, NODE, A, Rig
from logged import pairs_of

from kcm_host.api import Verb
from kcm_host.api.errors import ApiError, NotFound
from kcm_host.api.kinds import Key
from kcm_host.api.sync import Cause, Done, Outcome, SyncRecord
from kcm_host.api.watch import View
from kcm_host.api.writes import Permission, Write, Writer, WriteResponse
from kcm_host.informer.store import Entry, Store

pytestmark = pytest.mark.virtual_time

RESYNC = Cause(reason="resync", received=0.0, kind="nodes")
BODY = {"metadata": {"annotations": {"x": "1"}}}
Act = Callable[[Writer], Awaitable[object]]


class Thing(msgspec.Struct, frozen=True):
    """What the store holds of an object."""


class Server:
    """A sender that gives versions by verb, or raises."""

    def __init__(self) -> None:
        self.versions = {"patch": "8", "create": "8", "get": "7"}
        self.error: ApiError | None = None

    async def send(self, write: Write) -> WriteResponse:
        """Answer one write."""
        if self.error is not None:
            raise self.error
        body = b'{"metadata": {"name": "a"}}' if write.full_object else b""
        return WriteResponse(
            resource_version=self.versions.get(write.verb, ""), uid="uid", attempts=1, body=body
        )


@pytest.fixture
async def server(rig: Rig) -> Server:
    """Return a server whose object `a` is stored with version 7."""
    store: Store[Thing] = Store(NODE)
    store.put(A, Entry(Thing(), "uid", "7"))
    verbs: tuple[Verb, ...] = ("patch", "create", "delete", "get")
    rig.permissions = frozenset(Permission(kind=NODE, verb=verb) for verb in verbs)
    rig.sender, rig.stores = Server(), {(NODE, Thing): store}
    return rig.sender


async def patch(writer: Writer) -> None:
    """Patch the object."""
    await writer.patch(NODE, A, BODY)


async def delete(writer: Writer) -> None:
    """Delete the object."""
    await writer.delete(NODE, A)


async def create(writer: Writer) -> None:
    """Create another one."""
    await writer.create(NODE, {"metadata": {"name": "b"}})


async def read(writer: Writer) -> None:
    """Ask the server, and write nothing."""
    await writer.read(NODE, A)


async def read_and_patch(writer: Writer) -> None:
    """Write what follows from what the server says."""
    await writer.read(NODE, A)
    await writer.patch(NODE, A, BODY)


async def read_another_and_patch(writer: Writer) -> None:
    """Write what follows from an object that no store has."""
    await writer.read(NODE, Key("b"))
    await writer.patch(NODE, A, BODY)


async def patch_what_may_be_gone(writer: Writer) -> None:
    """Patch the object, if it is there."""
    try:
        await writer.patch(NODE, A, BODY)
    except NotFound:
        return


async def resynced(rig: Rig, act: Act, *, before: Callable[[], object] = bool) -> SyncRecord:
    """Queue the key by the resync and return the record; `before` runs within the sync."""

    async def sync(key: Key, view: View, writer: Writer) -> Outcome:
        before()
        await act(writer)
        return Done()

    rig.queue.add_resync(A, RESYNC)
    return (await rig.run(sync, seconds=0.1))[0]


@pytest.mark.parametrize("act", [patch, delete, create, read_and_patch])
async def test_a_write_after_a_resync_only_request_is_counted(
    rig: Rig, server: Server, act: Act, caplog: pytest.LogCaptureFixture
) -> None:
    """The record says so, and one line of the log names controller, key and write (F-52)."""
    assert (await resynced(rig, act)).missed_wakeup
    (line,) = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert pairs_of(line)["controller"] == "ttl"
    assert pairs_of(line)["key"] == "a"
    verb = act.__name__.rpartition("_")[2]
    assert pairs_of(line)["write"].startswith(f"{verb} nodes '")


async def test_a_sync_without_a_write_is_not_counted(rig: Rig, server: Server) -> None:
    """A question to the server is no write (F-52)."""
    assert not (await resynced(rig, read)).missed_wakeup


async def test_what_changes_nothing_is_not_counted(rig: Rig, server: Server) -> None:
    """A write whose answer has the version that was known before has mended nothing (F-52)."""
    server.versions["patch"] = "7"
    assert not (await resynced(rig, patch)).missed_wakeup


async def test_what_fails_is_not_counted(rig: Rig, server: Server) -> None:
    """The object is gone, and its wake-up is on the way (F-52)."""
    server.error = NotFound("gone", status=404)
    assert not (await resynced(rig, patch_what_may_be_gone)).missed_wakeup


@pytest.mark.parametrize(("act", "version"), [(read_and_patch, "9"), (read_another_and_patch, "7")])
async def test_what_follows_from_newer_state_is_not_counted(
    rig: Rig, server: Server, act: Act, version: str
) -> None:
    """A live read that shows what no store has: its wake-up is on the way (F-52)."""
    server.versions["get"] = version
    assert not (await resynced(rig, act)).missed_wakeup


async def test_a_change_during_the_sync_is_a_wakeup(rig: Rig, server: Server) -> None:
    """What was asked for before the write was sent is not counted, at once or later (F-52)."""
    assert not (await resynced(rig, patch, before=lambda: rig.queue.add(A, CAUSE))).missed_wakeup
    rig.syncs.records.clear()
    later = lambda: rig.queue.add(A, CAUSE, after=60)  # noqa: E731
    assert not (await resynced(rig, patch, before=later)).missed_wakeup


async def test_a_second_write_of_what_no_store_shows_is_not_counted(
    rig: Rig, server: Server
) -> None:
    """A sync that reads from before its own last write may write the same again (F-52)."""

    async def sync(key: Key, view: View, writer: Writer) -> Outcome:
        server.versions["patch"] = str(int(server.versions["patch"]) + 1)
        await writer.patch(NODE, A, BODY)
        return Done()

    rig.queue.add(A, CAUSE)
    async with rig.working(sync):
        await asyncio.sleep(0.1)
        rig.queue.add_resync(A, RESYNC)
        await asyncio.sleep(10)
    assert len(rig.syncs.records) == 2
    assert not rig.syncs.records[1].missed_wakeup
