"""A writer sends what the controller declared, and keeps a record of all it sent."""

from collections.abc import Awaitable, Callable

import pytest
from host.reconcile.worker_rig import CONFIG_MAP, NODE, A, RecordingSender

from kcm_host.api import Verb
from kcm_host.api.errors import UndeclaredWrite
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.writes import Permission
from kcm_host.reconcile.writer import SyncWriter

STORED = {"metadata": {"name": "one", "namespace": "team", "resourceVersion": "1"}}


@pytest.fixture
def notebook() -> RecordingSender:
    """A sender that answers every write."""
    return RecordingSender()


def writer(sender: RecordingSender, *permissions: Permission) -> SyncWriter:
    """Return a writer of a controller with these permissions."""
    return SyncWriter("ttl", sender, frozenset(permissions))


@pytest.mark.parametrize(
    "permissions",
    [
        [],
        [Permission(kind=CONFIG_MAP, verb="patch")],
        [Permission(kind=NODE, verb="update")],
        [Permission(kind=NODE, verb="patch", subresource="status")],
        [
            Permission(
                kind=Kind(group="", version="v2", name="Node", resource="nodes", namespaced=False),
                verb="patch",
            )
        ],
    ],
    ids=["nothing", "another kind", "another verb", "a subresource alone", "another version"],
)
async def test_what_is_not_declared_is_refused(
    notebook: RecordingSender, permissions: list[Permission]
) -> None:
    """Kind with its version, verb and subresource all have to be declared; nothing is sent."""
    refusing = writer(notebook, *permissions)
    with pytest.raises(UndeclaredWrite):
        await refusing.patch(NODE, A, {})
    assert (notebook.writes, refusing.records) == ([], [])


VERBS: dict[str, Callable[[SyncWriter], Awaitable[object]]] = {
    "create": lambda writer: writer.create(
        CONFIG_MAP, {"metadata": {"name": "one"}}, namespace="team"
    ),
    "update": lambda writer: writer.update(CONFIG_MAP, STORED),
    "patch": lambda writer: writer.apply(CONFIG_MAP, Key("one", "team"), {}, field_manager="m"),
    "delete": lambda writer: writer.delete(CONFIG_MAP, Key("one", "team")),
    "get": lambda writer: writer.read(CONFIG_MAP, Key("one", "team")),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_each_verb_needs_its_own_permission(notebook: RecordingSender, verb: str) -> None:
    """The message names the line to add, and nothing is sent."""
    verbs: tuple[Verb, ...] = ("create", "update", "patch", "delete", "get")
    others = [Permission(kind=CONFIG_MAP, verb=one) for one in verbs if one != verb]
    with pytest.raises(UndeclaredWrite, match=rf"add Permission\(kind, '{verb}'\)"):
        await VERBS[verb](writer(notebook, *others))
    assert notebook.writes == []


async def test_the_refusal_of_a_subresource_names_it(notebook: RecordingSender) -> None:
    """A permission for the object is none for its status; the message tells the difference."""
    with pytest.raises(UndeclaredWrite) as refusal:
        await writer(notebook, Permission(kind=NODE, verb="patch")).patch(
            NODE, A, {}, subresource="status"
        )
    assert str(refusal.value) == (
        "ttl tried to patch 'nodes/status', which kcm_writes does not declare; add "
        "Permission(kind, 'patch', subresource='status') for that kind to it"
    )
