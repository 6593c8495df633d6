"""A key waits until the stores show what its own last sync wrote."""

import asyncio
from typing import Any

import msgspec
import pytest
from host.reconcile.sync_bench import CAUSE, NODE, A, B, Rig

from kcm_host.api.kinds import Key
from kcm_host.api.outcomes import Done, Outcome
from kcm_host.api.views import View
from kcm_host.api.writes import Permission, Receipt, Write, Writer
from kcm_host.informer.store import Entry, Store
from kcm_host.reconcile.read_your_writes import ReadYourWrites, reaches

pytestmark = pytest.mark.virtual_time


class Seen(msgspec.Struct, frozen=True):
    """What the sync reads: whether somebody has written."""

    written: bool = False


class Server:
    """A sender behind which objects get versions, and a store that hears of them when told."""

    def __init__(self, version: str) -> None:
        self.store: Store[Seen] = Store(NODE)
        self.store.put(A, Entry(Seen(), "uid", "10"))
        self.version = version
        self.deleted = False
        self.writes = 0

    async def send(self, write: Write) -> Receipt:
        """Take one write."""
        self.writes += 1
        if write.verb == "create":
            return Receipt(self.version, "new", status=201, name="b-x7k2p", body=b"{}")
        return Receipt(self.version, "uid", deleted=self.deleted)

    def echo(self, version: str) -> None:
        """Let the store hear of a version."""
        self.store.put(A, Entry(Seen(written=True), "uid", version))


async def write_once(key: Key, view: View, writer: Writer, settings: Any) -> Outcome:
    """Write if nobody has, as a level-based sync does."""
    seen = view.of(NODE, Seen).get("a")
    if seen is not None and not seen.written:
        await writer.patch(NODE, A, {"metadata": {"annotations": {"x": "1"}}})
    return Done()


@pytest.fixture
async def server(rig: Rig) -> Server:
    """Give a server that answers with version 12, wired into the rig."""
    server = Server("12")
    rig.sender, rig.stores = server, {(NODE, Seen): server.store}
    rig.permissions = frozenset({Permission(NODE, "patch"), Permission(NODE, "create")})
    return server


async def test_a_key_queued_before_its_echo_writes_nothing_twice(rig: Rig, server: Server) -> None:
    """A second sync begins when the store shows the first one's write, not before."""
    rig.queue.add(A, CAUSE)
    async with rig.working(write_once):
        await asyncio.sleep(0.01)
        rig.queue.add(A, CAUSE)
        await asyncio.sleep(0.3)
        assert len(rig.syncs.records) == 1
        server.echo("12")
        await asyncio.sleep(0.01)
    assert (len(rig.syncs.records), server.writes) == (2, 1)


async def test_somebody_elses_earlier_write_is_not_the_echo(rig: Rig, server: Server) -> None:
    """A version between the one that was read and the one that was written is not enough."""
    rig.queue.add(A, CAUSE)
    async with rig.working(write_once):
        await asyncio.sleep(0.01)
        rig.queue.add(A, CAUSE)
        server.echo("11")
        await asyncio.sleep(0.3)
        assert len(rig.syncs.records) == 1
        server.echo("13")
        await asyncio.sleep(0.01)
    assert len(rig.syncs.records) == 2


async def test_a_deleted_object_is_awaited_no_longer(rig: Rig, server: Server) -> None:
    """When the object goes, its echo will never come, and the key goes on."""
    rig.queue.add(A, CAUSE)
    async with rig.working(write_once):
        await asyncio.sleep(0.01)
        rig.queue.add(A, CAUSE)
        await asyncio.sleep(0.01)
        server.store.delete(A)
        await asyncio.sleep(0.01)
    assert len(rig.syncs.records) == 2


async def test_an_echo_that_never_comes_holds_a_key_for_a_second(rig: Rig, server: Server) -> None:
    """A broken stream delays the next sync of that key by 1 s, and no other key."""
    rig.queue.add(A, CAUSE)
    async with rig.working(write_once, workers=2):
        await asyncio.sleep(0.01)
        rig.queue.add(A, CAUSE)
        rig.queue.add(B, CAUSE)
        await asyncio.sleep(0.9)
        assert [record.key for record in rig.syncs.records] == [A, B]
        await asyncio.sleep(0.2)
    assert [record.key for record in rig.syncs.records] == [A, B, A]


async def test_a_write_that_changed_nothing_is_not_awaited(rig: Rig, server: Server) -> None:
    """When the server answers with the version the store has, no echo will come."""
    server.version = "10"
    rig.queue.add(A, CAUSE)
    async with rig.working(write_once):
        await asyncio.sleep(0.01)
        rig.queue.add(A, CAUSE)
        await asyncio.sleep(0.01)
    assert len(rig.syncs.records) == 2


async def test_the_end_of_the_last_finalizer_is_a_deletion(rig: Rig, server: Server) -> None:
    """The answer has the old version: the key waits until the store has lost the object (F-7)."""
    server.version, server.deleted = "10", True
    rig.queue.add(A, CAUSE)
    async with rig.working(write_once):
        await asyncio.sleep(0.01)
        rig.queue.add(A, CAUSE)
        await asyncio.sleep(0.3)
        assert len(rig.syncs.records) == 1
        server.store.delete(A)
        await asyncio.sleep(0.01)
    assert (len(rig.syncs.records), server.writes) == (2, 1)


async def create_once(key: Key, view: View, writer: Writer, settings: Any) -> Outcome:
    """Create an object with a generated name if no other is there."""
    if len(view.of(NODE, Seen)) == 1:
        await writer.create(NODE, {"metadata": {"generateName": "b-"}})
    return Done()


async def test_a_created_object_is_awaited(rig: Rig, server: Server) -> None:
    """A second sync begins when the store has it, under the name that it was given (F-8)."""
    rig.queue.add(A, CAUSE)
    async with rig.working(create_once):
        await asyncio.sleep(0.01)
        rig.queue.add(A, CAUSE)
        server.store.put(Key("b-other"), Entry(Seen(), "other", "11"))
        server.store.delete(Key("b-other"))
        await asyncio.sleep(0.3)
        assert len(rig.syncs.records) == 1
        server.store.put(Key("b-x7k2p"), Entry(Seen(), "new", "12"))
        await asyncio.sleep(0.01)
    assert (len(rig.syncs.records), server.writes) == (2, 1)


async def test_a_created_object_that_no_store_shows_holds_a_key_for_a_second(
    rig: Rig, server: Server
) -> None:
    """It may be outside what the watch selects: then the key goes on after 1 s (F-8)."""
    rig.queue.add(A, CAUSE)
    async with rig.working(create_once):
        await asyncio.sleep(0.01)
        rig.queue.add(A, CAUSE)
        await asyncio.sleep(0.9)
        assert len(rig.syncs.records) == 1
        await asyncio.sleep(0.2)
    assert len(rig.syncs.records) == 2


async def test_keys_that_are_never_synced_again_are_forgotten(server: Server) -> None:
    """Once their echoes have come, or after 10 s, nothing is kept of them (F-14)."""
    own = ReadYourWrites({(NODE, Seen): server.store})
    for number in range(1000):
        name = Key(f"pod-{number}")
        server.store.put(name, Entry(Seen(), "uid", "10"))
        own.of(name).remember(Write(NODE, name, "patch"), Receipt("12", "uid"))
        server.store.put(name, Entry(Seen(), "uid", "12"))
        if number % 2:
            server.store.delete(name)
    assert len(own) == 1
    for number in range(1000):
        own.of(Key(f"lost-{number}")).remember(Write(NODE, A, "patch"), Receipt("12", "uid"))
    assert len(own) == 1000
    await asyncio.sleep(10.1)
    own.of(B).remember(Write(NODE, A, "patch"), Receipt("12", "uid"))
    assert len(own) == 1


async def test_a_wait_that_ends_leaves_nothing_in_the_store(rig: Rig, server: Server) -> None:
    """Time-outs and cancellations take back what they left with the store (F-14)."""
    rig.queue.add(A, CAUSE)
    async with rig.working(write_once, workers=2):
        await asyncio.sleep(0.01)
        rig.queue.add(A, CAUSE)
        await asyncio.sleep(1.1)
        rig.queue.add(A, CAUSE)
        await asyncio.sleep(0.1)
    assert len(rig.syncs.records) == 2
    assert server.store._waiters == {}


@pytest.mark.parametrize(
    ("known", "written", "expected"),
    [
        ("12", "12", True),
        ("13", "12", True),
        ("9", "12", False),
        ("100", "99", True),
        ("abc", "abc", True),
        ("abd", "abc", False),
        ("12", "", True),
    ],
)
def test_versions_are_compared_as_numbers_where_they_are_numbers(
    known: str, written: str, expected: bool
) -> None:
    """Numbers grow; anything else counts only when it is the very version."""
    assert reaches(known, written) is expected
