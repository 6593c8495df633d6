"""A key is synced again when the stores show what its last sync wrote or conflicted with."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import orjson
import pytest
from host.reconcile.worker_rig import CAUSE, NODE, A, B, Rig
from view_stores import stores_of

from kcm_host.api import Verb
from kcm_host.api.errors import Conflict
from kcm_host.api.kinds import Key
from kcm_host.api.sync import Done, Outcome
from kcm_host.api.watch import View
from kcm_host.api.writes import Permission, Write, Writer, WriteResponse
from kcm_host.informer.store import Entry, Store
from kcm_host.reconcile.read_your_writes import ReadYourWrites, is_at_least
from kcm_host.reconcile.worker import SyncFunction

pytestmark = pytest.mark.virtual_time


class Model(msgspec.Struct, frozen=True):
    """What the sync reads: whether it has written."""

    written: bool = False


class Server:
    """A sender with the server's resource version, and a store that a test updates."""

    def __init__(self) -> None:
        self.store: Store[Model] = Store(NODE)
        self.store.keep_full_objects = True
        #: The version that updates must have.
        self.version = "11"
        self.verbs: list[str] = []
        self.responses = {
            "patch": WriteResponse(resource_version="12", uid="uid"),
            "create": WriteResponse(
                resource_version="12", uid="new", status=201, name="b-x7k2p", body=b"{}"
            ),
            "delete": WriteResponse(uid="uid", deleted=True),
        }
        self.show("10", written=False)

    async def send(self, write: Write) -> WriteResponse:
        """Respond to one write; updates of an old version are conflicts."""
        self.verbs.append(write.verb)
        if write.verb != "update":
            return self.responses[write.verb]
        if orjson.loads(write.body)["metadata"]["resourceVersion"] != self.version:
            raise Conflict("the object has been modified", status=409)
        return WriteResponse(resource_version="12", uid="uid", body=b'{"metadata": {"name": "a"}}')

    def show(self, version: str, *, written: bool = True) -> None:
        """Put a version of the object into the store."""
        whole = orjson.dumps({"metadata": {"name": "a", "resourceVersion": version}})
        self.store.put(A, Entry(Model(written), "uid", version, full_object=whole))


@pytest.fixture
async def server(rig: Rig) -> Server:
    """Return a server whose store has version 10, connected to the rig."""
    server = Server()
    rig.sender, rig.stores = server, {(NODE, Model): server.store}
    verbs: tuple[Verb, ...] = ("patch", "create", "update", "delete")
    rig.permissions = frozenset(Permission(kind=NODE, verb=verb) for verb in verbs)
    return server


async def patch_once(key: Key, view: View, writer: Writer) -> Outcome:
    """Patch the object unless that has been done, as a level-based sync does."""
    found = view.of(NODE, Model).get("a")
    if found is not None and not found.written:
        await writer.patch(NODE, A, {"metadata": {"annotations": {"x": "1"}}})
    return Done()


async def create_once(key: Key, view: View, writer: Writer) -> Outcome:
    """Create an object with a generated name if no other exists."""
    if len(view.of(NODE, Model)) == 1:
        await writer.create(NODE, {"metadata": {"generateName": "b-"}})
    return Done()


async def update(key: Key, view: View, writer: Writer) -> Outcome:
    """Update the object as it was read."""
    whole = view.of(NODE, Model).full_object("a")
    assert whole is not None
    await writer.update(NODE, whole)
    return Done()


async def delete(key: Key, view: View, writer: Writer) -> Outcome:
    """Delete the object while it exists."""
    if view.of(NODE, Model).get("a") is not None:
        await writer.delete(NODE, A)
    return Done()


@asynccontextmanager
async def queued_again(rig: Rig, sync: SyncFunction) -> AsyncIterator[None]:
    """Sync the key once and queue it again; give the second sync time to end after the block."""
    rig.queue.add(A, CAUSE)
    async with rig.working(sync, workers=2):
        await asyncio.sleep(0.01)
        rig.queue.add(A, CAUSE)
        yield
        await asyncio.sleep(0.01)


async def test_a_key_queued_before_the_event_of_its_write(rig: Rig, server: Server) -> None:
    """The second sync begins when the store shows the write of the first, and repeats nothing."""
    async with queued_again(rig, patch_once):
        await asyncio.sleep(0.3)
        assert len(rig.syncs.records) == 1
        server.show("12")
    assert (len(rig.syncs.records), server.verbs) == (2, ["patch"])


async def test_an_earlier_write_of_another_client_is_not_enough(rig: Rig, server: Server) -> None:
    """A version between the one that was read and the one that was written does not count."""
    async with queued_again(rig, patch_once):
        server.show("11")
        await asyncio.sleep(0.3)
        assert len(rig.syncs.records) == 1
        server.show("13")
    assert len(rig.syncs.records) == 2


async def test_no_wait_for_an_object_that_is_deleted(rig: Rig, server: Server) -> None:
    """When the object is deleted, the event of the write may never come."""
    async with queued_again(rig, patch_once):
        server.store.delete(A)
    assert len(rig.syncs.records) == 2


@pytest.mark.parametrize("sync", [patch_once, create_once])
async def test_a_wait_ends_after_one_second(rig: Rig, server: Server, sync: SyncFunction) -> None:
    """A failed watch, or one that does not select the object, delays no other key (F-8)."""
    async with queued_again(rig, sync):
        rig.queue.add(B, CAUSE)
        await asyncio.sleep(0.9)
        assert [record.key for record in rig.syncs.records] == [A, B]
        await asyncio.sleep(0.2)
    assert [record.key for record in rig.syncs.records] == [A, B, A]


async def test_no_wait_for_a_write_that_changed_nothing(rig: Rig, server: Server) -> None:
    """When the response has the version of the store, no event will come."""
    server.responses["patch"] = WriteResponse(resource_version="10", uid="uid")
    async with queued_again(rig, patch_once):
        pass
    assert len(rig.syncs.records) == 2


async def test_the_end_of_the_last_finalizer_is_a_deletion(rig: Rig, server: Server) -> None:
    """The response has the old version: the key waits until the object is not stored (F-7)."""
    server.responses["patch"] = WriteResponse(resource_version="10", uid="uid", deleted=True)
    async with queued_again(rig, patch_once):
        await asyncio.sleep(0.3)
        assert len(rig.syncs.records) == 1
        server.store.delete(A)
    assert (len(rig.syncs.records), server.verbs) == (2, ["patch"])


async def test_a_created_object_with_a_generated_name(rig: Rig, server: Server) -> None:
    """The second sync begins when the store has it under its generated name (F-8)."""
    async with queued_again(rig, create_once):
        server.store.put(Key("b-other"), Entry(Model(), "other", "11"))
        server.store.delete(Key("b-other"))
        await asyncio.sleep(0.3)
        assert len(rig.syncs.records) == 1
        server.store.put(Key("b-x7k2p"), Entry(Model(), "new", "12"))
    assert (len(rig.syncs.records), server.verbs) == (2, ["create"])


async def test_a_conflict_waits_for_another_version(rig: Rig, server: Server) -> None:
    """The retry begins when the store shows a newer version, not after 5 ms (D-14)."""
    rig.queue.add(A, CAUSE)
    async with rig.working(update):
        await asyncio.sleep(0.5)
        assert server.verbs == ["update"]
        server.show("11")
        await asyncio.sleep(0.01)
    assert server.verbs == ["update", "update"]
    assert [record.outcome for record in rig.syncs.records] == ["error", "done"]


async def test_a_conflict_delays_a_key_for_one_second_at_most(rig: Rig, server: Server) -> None:
    """A store that does not change does not stop the retries (D-14)."""
    rig.queue.add(A, CAUSE)
    async with rig.working(update):
        await asyncio.sleep(1.1)
    assert server.verbs == ["update", "update"]


async def test_a_conflict_with_a_version_that_is_stored_already(rig: Rig, server: Server) -> None:
    """When the newer version came during the request, only the back-off counts."""
    rig.queue.add(A, CAUSE)
    async with rig.working(update):
        await asyncio.sleep(0.001)
        server.show("11")
        await asyncio.sleep(0.01)
    assert server.verbs == ["update", "update"]


async def test_a_deleted_object_is_not_deleted_again(rig: Rig, server: Server) -> None:
    """Neither a pause nor a version from before the deletion shows that it is gone (F-7)."""
    async with queued_again(rig, delete):
        server.show("11")
        await asyncio.sleep(0.3)
        assert len(rig.syncs.records) == 1
        server.store.delete(A)
    assert (len(rig.syncs.records), server.verbs) == (2, ["delete"])


async def test_a_deletion_that_finalizers_delay_is_visible(rig: Rig, server: Server) -> None:
    """The response has the version with the deletion; the store must show that one (F-7)."""
    server.responses["delete"] = WriteResponse(resource_version="12", uid="uid")
    async with queued_again(rig, delete):
        server.show("11")
        await asyncio.sleep(0.01)
        assert len(rig.syncs.records) == 1
        server.show("12")
    assert len(rig.syncs.records) == 2


async def test_another_object_of_the_same_name_ends_the_wait(rig: Rig, server: Server) -> None:
    """The deleted uid is gone when the store has an object with another uid (F-7)."""
    async with queued_again(rig, delete):
        server.store.put(A, Entry(Model(), "another uid", "14"))
    assert server.verbs == ["delete", "delete"]


async def test_expectations_of_keys_that_are_not_synced_again_expire(server: Server) -> None:
    """They are removed when their events have come, or after 10 s (F-14)."""
    read_your_writes = ReadYourWrites(stores_of("acme", {(NODE, Model): server.store}))

    def written(key: Key, name: Key) -> None:
        tracker = read_your_writes.tracker(key)
        tracker.written(
            Write(kind=NODE, key=name, verb="patch"),
            WriteResponse(resource_version="12", uid="uid"),
        )

    for number in range(1000):
        name = Key(f"pod-{number}")
        server.store.put(name, Entry(Model(), "uid", "10"))
        written(name, name)
        server.store.put(name, Entry(Model(), "uid", "12"))
        if number % 2:
            server.store.delete(name)
    assert len(read_your_writes) == 1
    for number in range(1000):
        written(Key(f"lost-{number}"), A)
    assert len(read_your_writes) == 1000
    await asyncio.sleep(10.1)
    written(B, A)
    assert len(read_your_writes) == 1


async def test_a_wait_that_ends_leaves_nothing_in_the_store(rig: Rig, server: Server) -> None:
    """Timeouts and cancellations remove their waiters from the store (F-14)."""
    async with queued_again(rig, patch_once):
        await asyncio.sleep(1.1)
        rig.queue.add(A, CAUSE)
        await asyncio.sleep(0.1)
    assert len(rig.syncs.records) == 2
    assert server.store._waiters == {}


@pytest.mark.parametrize(
    ("version", "other", "expected"),
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
def test_versions_are_compared_as_numbers(version: str, other: str, expected: bool) -> None:
    """Versions that are not numbers count only when they are equal."""
    assert is_at_least(version, other) is expected
