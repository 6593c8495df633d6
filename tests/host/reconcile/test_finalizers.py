"""Adding and removing one finalizer never touches those of others, nor another object."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from host.reconcile.worker_rig import CONFIG_MAP, NODE, MakeSender, RecordingSender, failing
from host.runtime.definitions import Definitions

from kcm_host.api import ApiError, Conflict, Key, Kind, NotFound, Permission, Verb
from kcm_host.reconcile.sender import LiveSender
from kcm_host.reconcile.writer import SyncWriter
from kcm_host_testing.api_server import ApiServer

WEBSITE = Kind(group="finalizers.example", version="v1", name="Website", resource="websites")
PERMISSIONS = frozenset(Permission(kind=kind, verb="patch") for kind in (NODE, CONFIG_MAP, WEBSITE))
OURS, THEIRS = "acme.example/ours", "acme.example/theirs"


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that a plugin declares."""

    name: str
    namespace: str = ""
    uid: str = ""
    finalizers: tuple[str, ...] | None = None


NODE_A = Metadata(name="a", uid="u1")


def writer_of(sender: Any) -> SyncWriter:
    """Return a writer that may patch, and nothing else."""
    return SyncWriter("ttl", sender, PERMISSIONS)


def operations(sender: RecordingSender) -> list[tuple[str, str, Any]]:
    """Return the operations of the one write."""
    (write,) = sender.writes
    assert write.content_type == "application/json-patch+json"
    return [(one["op"], one["path"], one["value"]) for one in json.loads(write.body)]


@pytest.mark.parametrize("present", [None, (), (THEIRS,)])
async def test_adding_tests_what_was_read(present: tuple[str, ...] | None) -> None:
    """The write names the uid and all finalizers that were read, none as null."""
    sender = RecordingSender()
    metadata = msgspec.structs.replace(NODE_A, finalizers=present)
    assert await writer_of(sender).ensure_finalizer(NODE, metadata, OURS)
    assert operations(sender) == [
        ("test", "/metadata/uid", "u1"),
        ("test", "/metadata/finalizers", list(present) if present else None),
        ("add", "/metadata/finalizers", [*(present or ()), OURS]),
    ]


async def test_removing_keeps_the_others() -> None:
    """The finalizers of others are written as they were read, in their order."""
    sender = RecordingSender()
    metadata = msgspec.structs.replace(NODE_A, finalizers=(OURS, THEIRS))
    assert await writer_of(sender).release_finalizer(NODE, metadata, OURS)
    assert operations(sender) == [
        ("test", "/metadata/uid", "u1"),
        ("test", "/metadata/finalizers", [OURS, THEIRS]),
        ("replace", "/metadata/finalizers", [THEIRS]),
    ]


async def test_nothing_to_do_sends_nothing() -> None:
    """Adding what is there, and removing what is not, return False without a request."""
    sender = RecordingSender()
    writer = writer_of(sender)
    has = msgspec.structs.replace(NODE_A, finalizers=(THEIRS, OURS))
    assert not await writer.ensure_finalizer(NODE, has, OURS)
    assert not await writer.release_finalizer(NODE, NODE_A, OURS)
    assert sender.writes == []


async def test_metadata_without_uid_is_refused() -> None:
    """Without the uid another object of this name could be changed; the error says what to do."""
    sender = RecordingSender()
    with pytest.raises(ValueError, match="'a' has no uid; declare 'uid: str' in its model"):
        await writer_of(sender).ensure_finalizer(NODE, Metadata(name="a"), OURS)
    assert sender.writes == []


async def test_a_release_of_what_is_gone_is_no_error() -> None:
    """An object that does not exist any more needs no release; adding to it is an error."""
    writer = writer_of(RecordingSender(failing(NotFound("no", status=404))))
    has = msgspec.structs.replace(NODE_A, finalizers=(OURS,))
    assert await writer.release_finalizer(NODE, has, OURS)
    with pytest.raises(NotFound):
        await writer.ensure_finalizer(NODE, NODE_A, OURS)


class Objects:
    """The object `one` of one kind on a real server, as somebody else handles it."""

    def __init__(self, kind: Kind, namespace: str, sender: LiveSender) -> None:
        self.kind = kind
        self._key = Key("one", namespace)
        verbs: tuple[Verb, ...] = ("create", "get", "patch", "delete")
        permissions = frozenset(Permission(kind=kind, verb=verb) for verb in verbs)
        self._writer = SyncWriter("other", sender, permissions)

    async def create(self, *finalizers: str) -> Metadata:
        """Create the object, and return its metadata."""
        body = {"metadata": {"name": "one", "finalizers": list(finalizers)}}
        await self._writer.create(self.kind, body, namespace=self._key.namespace)
        return await self.read()

    async def read(self) -> Metadata:
        """Return the metadata of the object, with an empty name if it is gone."""
        found = await self._writer.read(self.kind, self._key)
        return msgspec.convert(found["metadata"] if found else {"name": ""}, Metadata)

    async def set(self, *finalizers: str) -> None:
        """Replace the finalizers."""
        body = {"metadata": {"finalizers": list(finalizers) or None}}
        await self._writer.patch(self.kind, self._key, body)

    async def delete(self) -> None:
        """Delete the object."""
        await self._writer.delete(self.kind, self._key)


@pytest.fixture(scope="module")
def websites(api_server: ApiServer) -> Iterator[None]:
    """A custom kind: once, because one of the same name could still be being deleted."""
    definitions = Definitions(api_server, WEBSITE.group)
    definitions.create(WEBSITE.name)
    try:
        definitions.create_objects(WEBSITE.name, "default", "served")
        yield
    finally:
        definitions.delete_all()


@pytest.fixture(params=[CONFIG_MAP, WEBSITE], ids=["built-in", "custom"])
async def objects(
    request: Any, live: MakeSender, namespace: str, websites: None
) -> AsyncIterator[Objects]:
    """Objects of a built-in and of a custom kind."""
    made = Objects(request.param, namespace, live("other"))
    yield made
    with suppress(NotFound):
        await made.set()
        await made.delete()


async def test_a_finalizer_comes_and_goes(objects: Objects, live: MakeSender) -> None:
    """With and without finalizers of others, on built-in and custom kinds."""
    writer, kind = writer_of(live()), objects.kind
    assert await writer.ensure_finalizer(kind, await objects.create(), OURS)
    assert (await objects.read()).finalizers == (OURS,)
    assert not await writer.ensure_finalizer(kind, await objects.read(), OURS)
    await objects.set(OURS, THEIRS)
    assert await writer.release_finalizer(kind, await objects.read(), OURS)
    assert (await objects.read()).finalizers == (THEIRS,)
    assert await writer.ensure_finalizer(kind, await objects.read(), OURS)
    assert (await objects.read()).finalizers == (THEIRS, OURS)


@pytest.mark.parametrize("before", [(), (THEIRS,)], ids=["none", "one"])
async def test_finalizers_that_came_meanwhile_stay(
    objects: Objects, live: MakeSender, before: tuple[str, ...]
) -> None:
    """Somebody adds a finalizer after the read: a conflict, and nothing is lost."""
    writer, read = writer_of(live()), await objects.create(*before)
    await objects.set(*before, "acme.example/new")
    with pytest.raises(Conflict, match="others than those that were read"):
        await writer.ensure_finalizer(objects.kind, read, OURS)
    assert (await objects.read()).finalizers == (*before, "acme.example/new")


async def test_another_object_of_the_name_is_not_touched(
    objects: Objects, live: MakeSender
) -> None:
    """The object was deleted and created again: a conflict for both methods."""
    writer, read = writer_of(live()), await objects.create()
    await objects.delete()
    await objects.create(OURS)
    with pytest.raises(Conflict, match="another object of this name"):
        await writer.ensure_finalizer(objects.kind, read, THEIRS)
    old = msgspec.structs.replace(read, finalizers=(OURS,))
    with pytest.raises(Conflict, match="another object of this name"):
        await writer.release_finalizer(objects.kind, old, OURS)
    assert (await objects.read()).finalizers == (OURS,)


async def test_an_object_that_is_deleted_gets_none(objects: Objects, live: MakeSender) -> None:
    """The server refuses new finalizers of such an object, and its release removes it."""
    writer = writer_of(live())
    await objects.create(OURS)
    await objects.delete()
    read = await objects.read()
    with pytest.raises(ApiError, match="no new finalizers can be added") as refusal:
        await writer.ensure_finalizer(objects.kind, read, THEIRS)
    assert refusal.value.status == 422
    assert not isinstance(refusal.value, Conflict)
    assert await writer.release_finalizer(objects.kind, read, OURS)
    assert (await objects.read()).name == ""
    assert await writer.release_finalizer(objects.kind, read, OURS)
