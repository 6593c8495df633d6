"""A key is synced again when the stores show what its last sync wrote or conflicted with."""

import asyncio
from collections.abc import AsyncIterator, Callable
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


CREATED = WriteResponse(resource_version="12", uid="new", status=201, name="b-x7k2p", body=b"{}")


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
        #: The response to patches and deletions.
        self.response = WriteResponse(resource_version="12", uid="uid", body=b"{}")
        self.show("10", written=False)

    async def send(self, write: Write) -> WriteResponse:
        """Respond to one write; updates of an old version are conflicts."""
        self.verbs.append(write.verb)
        if write.verb != "update":
            return CREATED if write.verb == "create" else self.response
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


Step = Callable[[Server], object]


def show(version: str) -> Step:
    """Return the step that shows a version which has the write."""
    return lambda server: server.show(version)


def put(name: str, uid: str, version: str) -> Step:
    """Return the step that shows an object."""
    return lambda server: server.store.put(Key(name), Entry(Model(), uid, version))


def gone(name: str) -> Step:
    """Return the step that shows that an object is gone."""
    return lambda server: server.store.delete(Key(name))


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A sync that writes, what shows its write in the store, and what does not."""

    sync: SyncFunction
    shown: Step
    early: tuple[Step, ...] = ()
    response: WriteResponse = WriteResponse(resource_version="12", uid="uid")
    #: How often both syncs write.
    writes: int = 1


NO_FINALIZER_LEFT = WriteResponse(resource_version="10", uid="uid", deleted=True)
DELETED = WriteResponse(uid="uid", deleted=True)
CASES = {
    "the version of the write": Case(sync=patch_once, shown=show("12")),
    "no earlier version of another client": Case(
        sync=patch_once, early=(show("11"),), shown=show("13")
    ),
    "the end of an object whose last finalizer is removed (F-7)": Case(
        sync=patch_once, response=NO_FINALIZER_LEFT, shown=gone("a")
    ),
    "an object under its generated name (F-8)": Case(
        sync=create_once,
        early=(put("b-other", "other", "11"), gone("b-other")),
        shown=put("b-x7k2p", "new", "12"),
    ),
    "the end of a deleted object, no version from before (F-7)": Case(
        sync=delete, response=DELETED, early=(show("11"),), shown=gone("a")
    ),
    "the deletion that finalizers delay (F-7)": Case(
        sync=delete, early=(show("11"),), shown=show("12"), writes=2
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_the_second_sync_waits_for_the_write_of_the_first(
    rig: Rig, server: Server, case: Case
) -> None:
    """A key that is queued before the event of its write is synced once the store shows it."""
    server.response = case.response
    async with queued_again(rig, case.sync):
        for step in case.early:
            step(server)
        await asyncio.sleep(0.3)
        assert len(rig.syncs.records) == 1
        case.shown(server)
    assert (len(rig.syncs.records), len(server.verbs)) == (2, case.writes)


@pytest.mark.parametrize(
    "case",
    [
        Case(sync=patch_once, shown=gone("a")),
        Case(sync=patch_once, shown=show("10"), response=WriteResponse(resource_version="10")),
        Case(sync=delete, shown=put("a", "another uid", "14"), response=DELETED),
    ],
    ids=["the object is deleted", "the write changed nothing", "another object has the name"],
)
async def test_no_wait_for_an_event_that_may_never_come(
    rig: Rig, server: Server, case: Case
) -> None:
    """What the store or the response shows is enough (F-7)."""
    server.response = case.response
    async with queued_again(rig, case.sync):
        case.shown(server)
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
