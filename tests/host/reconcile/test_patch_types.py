"""The three types of patches: what is sent, what is refused, and what a real server does."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from host.reconcile.live_senders import MakeSender
from host.reconcile.worker_rig import NODE, A, RecordingSender
from host.runtime.definitions import Definitions
from kubernetes import client as official

from kcm_host.api import ApiError, Key, Kind, Permission
from kcm_host.reconcile.writer import SyncWriter
from kcm_host_testing.api_server import ApiServer

CRON_TAB = Kind(group="patch.example", version="v1", name="CronTab", resource="crontabs")
CONFIG_MAP = Kind(group="", version="v1", name="ConfigMap", resource="configmaps")
PERMISSIONS = frozenset(
    Permission(kind=kind, verb="patch") for kind in (NODE, CRON_TAB, CONFIG_MAP)
)
REPLACE = [{"op": "add", "path": "/data", "value": {"b": "2"}}]


def writer_of(sender: Any) -> SyncWriter:
    """Return a writer that may patch."""
    return SyncWriter("ttl", sender, PERMISSIONS)


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


@pytest.fixture
def cron_tabs(api_server: ApiServer) -> Iterator[Definitions]:
    """A custom kind, with one object."""
    definitions = Definitions(api_server, CRON_TAB.group)
    definitions.create(CRON_TAB.name)
    try:
        definitions.create_objects(CRON_TAB.name, "default", "one")
        yield definitions
    finally:
        definitions.delete_all()


async def test_a_custom_resource_is_patched(
    live: MakeSender, api_server: ApiServer, cron_tabs: Definitions
) -> None:
    """Custom resources take the default type; the server refuses a strategic patch (F-60)."""
    writer, one = writer_of(live()), Key("one", "default")
    await writer.patch(CRON_TAB, one, {"metadata": {"labels": {"seen": "yes"}}})
    objects: Any = official.CustomObjectsApi(api_server.client())
    name = (CRON_TAB.group, "v1", "default", "crontabs", "one")
    stored = objects.get_namespaced_custom_object(*name)
    assert stored["metadata"]["labels"] == {"seen": "yes"}
    with pytest.raises(ApiError) as refusal:
        await writer.patch(CRON_TAB, one, {}, type="strategic")
    assert refusal.value.status == 415


async def test_types_differ_in_what_they_do(
    live: MakeSender, api_server: ApiServer, namespace: str
) -> None:
    """A merge patch keeps the other entries of a mapping, operations replace it (F-60)."""
    core: Any = official.CoreV1Api(api_server.client())
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "one"}, "data": {"a": "1"}})
    writer, one = writer_of(live()), Key("one", namespace)
    await writer.patch(CONFIG_MAP, one, {"data": {"c": "3"}})
    assert core.read_namespaced_config_map("one", namespace).data == {"a": "1", "c": "3"}
    await writer.patch(CONFIG_MAP, one, REPLACE, type="json")
    assert core.read_namespaced_config_map("one", namespace).data == {"b": "2"}
