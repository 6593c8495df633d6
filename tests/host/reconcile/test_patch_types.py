"""The three types of patches: what is sent, what is refused, and what a real server does."""

import asyncio
import json
from typing import Any

import pytest
from host.reconcile.worker_rig import CONFIG_MAP, NODE, A, MakeSender, RecordingSender
from host.runtime.definitions import Definitions

from kcm_host.api import ApiError, Key, Kind, Permission, Verb
from kcm_host.reconcile.writer import SyncWriter

REPLACE = [{"op": "add", "path": "/data", "value": {"b": "2"}}]


def writer_of(sender: Any, kind: Kind = NODE) -> SyncWriter:
    """Return a writer that may patch and read a kind."""
    verbs: tuple[Verb, ...] = ("patch", "get")
    return SyncWriter("ttl", sender, frozenset(Permission(kind=kind, verb=verb) for verb in verbs))


@pytest.mark.parametrize(
    ("options", "body", "content_type"),
    [
        ({}, {"a": 1}, "application/merge-patch+json"),
        ({"type": "merge"}, {"a": 1}, "application/merge-patch+json"),
        ({"type": "strategic"}, {"a": 1}, "application/strategic-merge-patch+json"),
        ({"type": "json"}, REPLACE, "application/json-patch+json"),
    ],
    ids=["default", "merge", "strategic", "json"],
)
async def test_each_type_is_sent_as_its_content_type(
    options: dict[str, Any], body: Any, content_type: str
) -> None:
    """A patch is a merge patch unless the author names another type; the body is sent as it is."""
    sender = RecordingSender()
    await writer_of(sender).patch(NODE, A, body, **options)
    (write,) = sender.writes
    assert (write.content_type, json.loads(write.body)) == (content_type, body)


async def test_another_type_is_refused() -> None:
    """A wrong type names the three right ones, and nothing is sent (F-60)."""
    sender = RecordingSender()
    wrong: Any = "apply"
    with pytest.raises(ValueError, match=r"patch of type 'apply'; use 'merge', .* writer.apply"):
        await writer_of(sender).patch(NODE, A, {}, type=wrong)
    assert sender.writes == []


@pytest.mark.parametrize(
    ("patch_type", "body", "sentence"),
    [
        ("json", {"a": 1}, "type 'json' is a list of operations, not a dict"),
        ("merge", REPLACE, "type 'merge' is a dict of the changed fields, not a list"),
        ("strategic", REPLACE, "type 'strategic' is a dict of the changed fields, not a list"),
    ],
)
async def test_a_body_of_another_type_is_refused(patch_type: Any, body: Any, sentence: str) -> None:
    """A body that does not fit its type is an error before anything is sent (F-60)."""
    sender = RecordingSender()
    with pytest.raises(TypeError, match=sentence):
        await writer_of(sender).patch(NODE, A, body, type=patch_type)
    assert sender.writes == []


async def test_a_custom_resource_is_patched(
    live: MakeSender, definitions: Definitions, namespace: str
) -> None:
    """Custom resources take the default type; the server refuses a strategic patch (F-60)."""
    definitions.create("CronTab")
    await asyncio.to_thread(definitions.create_objects, "CronTab", namespace, "one")
    kind = Kind(group=definitions.group, version="v1", name="CronTab", resource="crontabs")
    writer, one = writer_of(live(), kind), Key("one", namespace)
    await writer.patch(kind, one, {"metadata": {"labels": {"seen": "yes"}}})
    stored = await writer.read(kind, one)
    assert stored is not None
    assert stored["metadata"]["labels"] == {"seen": "yes"}
    with pytest.raises(ApiError) as refusal:
        await writer.patch(kind, one, {}, type="strategic")
    assert refusal.value.status == 415


async def test_types_differ_in_what_they_do(live: MakeSender, core: Any, namespace: str) -> None:
    """A merge patch keeps the other entries of a mapping, operations replace it (F-60)."""
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "one"}, "data": {"a": "1"}})
    writer, one = writer_of(live(), CONFIG_MAP), Key("one", namespace)
    await writer.patch(CONFIG_MAP, one, {"data": {"c": "3"}})
    assert core.read_namespaced_config_map("one", namespace).data == {"a": "1", "c": "3"}
    await writer.patch(CONFIG_MAP, one, REPLACE, type="json")
    assert core.read_namespaced_config_map("one", namespace).data == {"b": "2"}
