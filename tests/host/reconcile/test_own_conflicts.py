"""After a conflict or a deletion a key waits for the store to catch up."""

import asyncio
from typing import Any

import msgspec
import orjson
import pytest
from host.reconcile.sync_bench import CAUSE, NODE, A, Rig

from kcm_host.api.errors import Conflict
from kcm_host.api.kinds import Key
from kcm_host.api.outcomes import Done, Outcome
from kcm_host.api.views import View
from kcm_host.api.writes import Permission, Receipt, Write, Writer
from kcm_host.informer.store import Entry, Store

pytestmark = pytest.mark.virtual_time


class Seen(msgspec.Struct, frozen=True):
    """What the sync reads."""

    label: str = ""


class Server:
    """Refuses every version but the present one, and deletes; its store hears when told."""

    def __init__(self) -> None:
        self.present = "11"
        self.store: Store[Seen] = Store(NODE)
        self.store.keep_full_objects = True
        self.verbs: list[str] = []
        #: What a deletion is answered: by default that of an object without finalizers.
        self.deletion = Receipt(uid="uid", deleted=True)
        self.echo("10")

    async def send(self, write: Write) -> Receipt:
        """Take one write."""
        self.verbs.append(write.verb)
        if write.verb == "delete":
            return self.deletion
        sent = orjson.loads(write.body)["metadata"]["resourceVersion"]
        if sent != self.present:
            raise Conflict("the object has been modified", status=409)
        self.present = str(int(sent) + 1)
        metadata = {"name": "a", "resourceVersion": self.present}
        return Receipt(self.present, "uid", body=orjson.dumps({"metadata": metadata}))

    def echo(self, version: str, **changed: Any) -> None:
        """Let the store hear of a version."""
        whole = orjson.dumps({"metadata": {"name": "a", "resourceVersion": version}})
        self.store.put(A, Entry(Seen(version), "uid", version, full_object=whole))


async def update_it(key: Key, view: View, writer: Writer, settings: Any) -> Outcome:
    """Write the object as it was read."""
    whole = view.of(NODE, Seen).whole("a")
    assert whole is not None
    await writer.update(NODE, whole)
    return Done()


async def delete_it(key: Key, view: View, writer: Writer, settings: Any) -> Outcome:
    """Delete the object while it is there."""
    if view.of(NODE, Seen).get("a") is not None:
        await writer.delete(NODE, A)
    return Done()


@pytest.fixture
async def server(rig: Rig) -> Server:
    """Give a server wired into the rig."""
    server = Server()
    rig.sender, rig.stores = server, {(NODE, Seen): server.store}
    rig.permissions = frozenset({Permission(NODE, "update"), Permission(NODE, "delete")})
    return server


async def test_a_conflict_waits_for_another_version(rig: Rig, server: Server) -> None:
    """The retry begins when the store shows something newer, not after 5 ms (D-14)."""
    rig.queue.add(A, CAUSE)
    async with rig.working(update_it):
        await asyncio.sleep(0.5)
        assert server.verbs == ["update"]
        server.echo("11")
        await asyncio.sleep(0.01)
    assert server.verbs == ["update", "update"]
    assert [record.outcome for record in rig.syncs.records] == ["error", "done"]


async def test_a_conflict_holds_a_key_for_a_second_at_most(rig: Rig, server: Server) -> None:
    """A store that does not move does not stop the retries (D-14)."""
    rig.queue.add(A, CAUSE)
    async with rig.working(update_it):
        await asyncio.sleep(1.1)
    assert server.verbs == ["update", "update"]


async def test_a_conflict_with_what_the_store_has_since_seen(rig: Rig, server: Server) -> None:
    """When the newer version came while the request ran, only the back-off counts."""
    rig.queue.add(A, CAUSE)
    async with rig.working(update_it):
        await asyncio.sleep(0.001)
        server.echo("11")
        await asyncio.sleep(0.01)
    assert server.verbs == ["update", "update"]


async def test_a_deleted_object_is_not_deleted_again(rig: Rig, server: Server) -> None:
    """A key queued before the deletion's event waits for it and finds nothing to do."""
    rig.queue.add(A, CAUSE)
    async with rig.working(delete_it):
        await asyncio.sleep(0.01)
        rig.queue.add(A, CAUSE)
        await asyncio.sleep(0.3)
        assert len(rig.syncs.records) == 1
        server.store.delete(A)
        await asyncio.sleep(0.01)
    assert server.verbs == ["delete"]
    assert len(rig.syncs.records) == 2


async def test_a_deletion_that_finalizers_hold_up_is_seen(rig: Rig, server: Server) -> None:
    """The answer has the version with the deletion; that one shows it, none before (F-7)."""
    server.deletion = Receipt("12", "uid")
    rig.queue.add(A, CAUSE)
    async with rig.working(delete_it):
        await asyncio.sleep(0.01)
        rig.queue.add(A, CAUSE)
        server.echo("11")
        await asyncio.sleep(0.01)
        assert len(rig.syncs.records) == 1
        server.echo("12")
        await asyncio.sleep(0.01)
    assert len(rig.syncs.records) == 2


async def test_a_change_by_somebody_else_is_no_deletion(rig: Rig, server: Server) -> None:
    """A version between what was read and the deletion does not show that it is gone (F-7)."""
    rig.queue.add(A, CAUSE)
    async with rig.working(delete_it):
        await asyncio.sleep(0.01)
        rig.queue.add(A, CAUSE)
        server.echo("11")
        await asyncio.sleep(0.3)
        assert len(rig.syncs.records) == 1
        server.store.delete(A)
        await asyncio.sleep(0.01)
    assert server.verbs == ["delete"]


async def test_a_namesake_shows_that_the_first_is_gone(rig: Rig, server: Server) -> None:
    """The store has lost the deleted uid when it shows another object of that name (F-7)."""
    rig.queue.add(A, CAUSE)
    async with rig.working(delete_it):
        await asyncio.sleep(0.01)
        rig.queue.add(A, CAUSE)
        server.store.put(A, Entry(Seen(), "another uid", "14"))
        await asyncio.sleep(0.01)
        assert server.verbs == ["delete", "delete"]
