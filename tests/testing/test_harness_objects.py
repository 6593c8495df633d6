"""What requests make of the objects of the harness, and what it refuses to guess."""

from datetime import UTC, datetime
from typing import Any

import pytest
from testing.harness_controllers import CONFIG_MAP, WEBSITE, Acting, config_map, permissions

from kcm_host.api import ApiError, Conflict, Key, Kind, NotFound
from kcm_host_testing.harness import ControllerHarness, HarnessError
from kcm_host_testing.harness.errors import Refused
from kcm_host_testing.harness.objects import Objects, Written
from kcm_host_testing.harness.patches import json_patch

A = Key("a", "ns")
POD = Kind(group="", version="v1", name="Pod", resource="pods")


class Place:
    """Objects with a record of their changes."""

    def __init__(self, kind: Kind = POD, **body: Any) -> None:
        self.kind = kind
        self.changes: list[tuple[Any, Any]] = []
        self.objects = Objects(lambda: datetime(2026, 1, 1, tzinfo=UTC), self._on_change)
        meta = {"name": "a", "namespace": "ns", **body.pop("metadata", {})}
        self.objects.put(kind, {"metadata": meta, **body})
        self.changes.clear()

    def _on_change(self, kind: Kind, before: Any, after: Any) -> None:
        self.changes.append((before, after))

    def get(self) -> dict[str, Any]:
        return self.objects.get(self.kind, A)

    def apply(self, manager: str = "me", *, force: bool = True, **body: Any) -> Written:
        return self.objects.apply(self.kind, A, body, manager=manager, force=force, subresource="")

    def strategic(self, **patch: Any) -> dict[str, Any]:
        return self.objects.patch_strategic(self.kind, A, patch, "").body


def test_an_equal_write_is_no_change() -> None:
    """The version stays, and no event comes."""
    place = Place(spec={"a": 1})
    version = place.get()["metadata"]["resourceVersion"]
    written = place.objects.merge(POD, A, {"spec": {"a": 1}})
    assert written.body["metadata"]["resourceVersion"] == version
    assert place.changes == []


def test_the_generation_counts_changes_of_the_spec() -> None:
    """Not those of metadata and status."""
    place = Place(spec={"a": 1})
    place.objects.merge(POD, A, {"metadata": {"labels": {"a": "b"}}})
    place.objects.merge(POD, A, {"status": {"a": 1}}, "status")
    assert place.get()["metadata"]["generation"] == 1
    place.objects.merge(POD, A, {"spec": {"a": 2}})
    assert place.get()["metadata"]["generation"] == 2


def test_the_status_is_kept_apart() -> None:
    """A write of the object leaves the status, and one of the status everything else."""
    place = Place(spec={"a": 1}, status={"b": 1})
    place.objects.merge(POD, A, {"spec": {"a": 2}, "status": {"b": 2}})
    assert (place.get()["spec"], place.get()["status"]) == ({"a": 2}, {"b": 1})
    place.objects.merge(POD, A, {"spec": {"a": 3}, "status": {"b": 3}}, "status")
    assert (place.get()["spec"], place.get()["status"]) == ({"a": 2}, {"b": 3})
    with pytest.raises(HarnessError, match="test this on a server"):
        place.objects.merge(POD, A, {"metadata": {"labels": {"a": "b"}}}, "status")
    with pytest.raises(HarnessError, match="subresource 'scale'"):
        place.objects.merge(POD, A, {"spec": {"a": 3}}, "scale")


def test_an_old_version_or_another_uid_is_a_conflict() -> None:
    """In updates, patches, applies and deletions."""
    place = Place(spec={"a": 1})
    old = place.get()
    place.objects.merge(POD, A, {"spec": {"a": 2}})
    with pytest.raises(Refused, match="has been modified"):
        place.objects.update(POD, A, old, "")
    for name in ("uid", "resourceVersion"):
        with pytest.raises(Refused, match="has been modified"):
            place.objects.merge(POD, A, {"metadata": {name: "7"}})
        with pytest.raises(Refused, match="has been modified"):
            place.apply(metadata={name: "7"}, spec={"a": 3})
        with pytest.raises(Refused, match="has been modified"):
            place.objects.delete(POD, A, {name: "7"})


def test_an_object_with_finalizers_is_marked_and_goes_with_the_last_of_them() -> None:
    """The deletion is a change, the removal of the last finalizer a deletion; none can be added."""
    place = Place(metadata={"finalizers": ["x", "y"]})
    assert not place.objects.delete(POD, A, {}).is_removed
    assert place.get()["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:00Z"
    with pytest.raises(Refused, match="no new finalizers"):
        place.objects.merge(POD, A, {"metadata": {"finalizers": ["x", "z"]}})
    place.objects.merge(POD, A, {"metadata": {"finalizers": ["y"]}})
    assert place.objects.merge(POD, A, {"metadata": {"finalizers": None}}).is_removed
    assert place.changes[-1][1] is None
    with pytest.raises(Refused, match="not found"):
        place.get()


def test_a_strategic_patch_merges_what_is_known() -> None:
    """Maps, finalizers, owner references and conditions."""
    place = Place(metadata={"finalizers": ["x"]}, spec={"a": {"b": 1, "c": 2}})
    patched = place.strategic(
        metadata={"finalizers": ["y"], "ownerReferences": [{"uid": "1", "name": "o"}]},
        spec={"a": {"b": None, "d": 3}},
    )
    assert patched["metadata"]["finalizers"] == ["x", "y"]
    assert patched["spec"] == {"a": {"c": 2, "d": 3}}
    patched = place.strategic(
        metadata={
            "$deleteFromPrimitiveList/finalizers": ["x"],
            "ownerReferences": [{"uid": "2", "name": "p"}],
        }
    )
    assert patched["metadata"]["finalizers"] == ["y"]
    assert [each["uid"] for each in patched["metadata"]["ownerReferences"]] == ["1", "2"]


def test_a_strategic_patch_that_needs_the_schema_is_an_error() -> None:
    """Except where a merged and a replaced list are the same."""
    place = Place(spec={"containers": [{"name": "x"}]})
    place.strategic(spec={"containers": [{"name": "x"}], "volumes": [{"name": "v"}]})
    with pytest.raises(HarnessError, match=r"the list spec\.containers.*depends on the schema"):
        place.strategic(spec={"containers": [{"name": "y"}]})
    with pytest.raises(HarnessError, match=r"'\$retainKeys'.*test this on a server"):
        place.strategic(spec={"$retainKeys": ["a"]})


def test_conditions_are_merged_only_where_all_kinds_of_the_group_do_that() -> None:
    """In the core group they are, by type; in other groups it depends on the schema."""
    patch = {"status": {"conditions": [{"type": "B", "status": "True"}]}}
    status = {"conditions": [{"type": "A", "status": "True"}]}
    place = Place(status=status)
    place.objects.patch_strategic(POD, A, patch, "status")
    assert [each["type"] for each in place.get()["status"]["conditions"]] == ["A", "B"]
    requests = Kind(group="certificates.k8s.io", version="v1", name="C", resource="cs")
    place = Place(requests, status=status)
    with pytest.raises(HarnessError, match="depends on the schema"):
        place.objects.patch_strategic(requests, A, patch, "status")


def test_custom_resources_refuse_a_strategic_patch() -> None:
    """With the status of a server."""
    with pytest.raises(Refused) as raised:
        Place(WEBSITE).strategic(spec={"a": 1})
    assert (raised.value.status, raised.value.reason) == (415, "UnsupportedMediaType")


def test_an_apply_removes_what_its_manager_no_longer_applies() -> None:
    """But neither what others have applied too nor what has changed since."""
    place = Place(spec={"foreign": 1})
    place.apply(spec={"a": 1, "b": {"c": 1}, "d": 1, "e": [1]}, metadata={"labels": {"l": "1"}})
    place.apply("other", spec={"d": 1})
    place.objects.merge(POD, A, {"spec": {"a": 2}})
    place.apply(spec={"e": [2]})
    assert place.get()["spec"] == {"foreign": 1, "a": 2, "d": 1, "e": [2]}
    assert "labels" not in place.get()["metadata"]


def test_an_apply_without_force_does_not_take_fields() -> None:
    """A field that somebody else has set to another value is a conflict."""
    place = Place(spec={"a": 1})
    place.apply(force=False, spec={"a": 1, "b": 1})
    place.objects.merge(POD, A, {"spec": {"a": 3}})
    with pytest.raises(Refused, match=r"\.spec\.a has another owner"):
        place.apply(force=False, spec={"a": 2})
    place.apply(force=True, spec={"a": 2})
    assert place.get()["spec"] == {"a": 2}


def test_an_apply_of_a_foreign_list_needs_the_schema() -> None:
    """Whether it is replaced or merged is not known; its own list of before it may replace."""
    place = Place(spec={"items": [{"name": "x"}]})
    with pytest.raises(HarnessError, match="test this on a server"):
        place.apply(spec={"items": [{"name": "y"}]})


def test_an_apply_creates_an_object_unless_it_names_a_uid() -> None:
    """As a server does it."""
    place = Place()
    place.objects.remove(POD, A)
    with pytest.raises(Refused, match="has been modified"):
        place.apply(metadata={"uid": "7"}, spec={"a": 1})
    assert place.apply(spec={"a": 1}).is_created
    place.apply(spec={})
    assert "spec" not in place.get() or place.get()["spec"] == {}


@pytest.mark.parametrize(
    ("operations", "result"),
    [
        ([{"op": "add", "path": "/a/1", "value": 9}], {"a": [1, 9, 2], "b/c": {}}),
        ([{"op": "add", "path": "/a/-", "value": 9}], {"a": [1, 2, 9], "b/c": {}}),
        ([{"op": "remove", "path": "/a/0"}], {"a": [2], "b/c": {}}),
        ([{"op": "replace", "path": "/b~1c", "value": 1}], {"a": [1, 2], "b/c": 1}),
        ([{"op": "move", "from": "/a/0", "path": "/b~1c/d"}], {"a": [2], "b/c": {"d": 1}}),
        ([{"op": "copy", "from": "/a", "path": "/d"}], {"a": [1, 2], "b/c": {}, "d": [1, 2]}),
        ([{"op": "test", "path": "/a", "value": [1, 2]}], {"a": [1, 2], "b/c": {}}),
        ([{"op": "test", "path": "/a", "value": [1]}], None),
        ([{"op": "remove", "path": "/missing"}], None),
        ([{"op": "add", "path": "/a/7", "value": 1}], None),
        ([{"op": "replace", "path": "/missing", "value": 1}], None),
        ([{"op": "test", "path": "/missing", "value": None}], {"a": [1, 2], "b/c": {}}),
        ([{"op": "odd", "path": "/a"}], None),
    ],
)
def test_json_patches(operations: list[Any], result: Any) -> None:
    """The operations of RFC 6902; one that does not fit is a 422 and changes nothing."""
    target = {"a": [1, 2], "b/c": {}}
    if result is None:
        with pytest.raises(Refused) as raised:
            json_patch(target, operations)
        assert raised.value.status == 422
    else:
        assert json_patch(target, operations) == result
    assert target == {"a": [1, 2], "b/c": {}}


def test_the_writer_gets_the_responses_of_a_server() -> None:
    """Creations with generated names, reads, updates, conflicts and deletions."""
    found: list[Any] = []

    async def sync(key: Key, view: Any, writer: Any) -> None:
        made = await writer.create(
            CONFIG_MAP, {"metadata": {"generateName": "made-"}, "data": {}}, namespace="ns"
        )
        name = Key(made["metadata"]["name"], "ns")
        read = await writer.read(CONFIG_MAP, name)
        assert read["metadata"] == made["metadata"]
        await writer.update(CONFIG_MAP, {**read, "data": {"a": "1"}})
        for write in (
            writer.update(CONFIG_MAP, {**read, "data": {"a": "2"}}),
            writer.create(CONFIG_MAP, config_map(name.name), namespace="ns"),
            writer.delete(CONFIG_MAP, name, uid="another"),
            writer.delete(CONFIG_MAP, Key("unknown", "ns")),
        ):
            with pytest.raises(ApiError) as raised:
                await write
            found.append((type(raised.value), raised.value.reason))
        await writer.delete(CONFIG_MAP, name, uid=made["metadata"]["uid"])
        assert await writer.read(CONFIG_MAP, name) is None

    verbs = permissions("create", "get", "update", "delete")
    harness = ControllerHarness(Acting(sync, writes=verbs))
    harness.sync("ns/a")
    assert found == [
        (Conflict, "Conflict"),
        (Conflict, "AlreadyExists"),
        (Conflict, "Conflict"),
        (NotFound, "NotFound"),
    ]
    assert [write.verb for write in harness.writes if not write.error] == [
        "create",
        "update",
        "delete",
    ]
    assert harness.writes[0].key.name.startswith("made-")
    assert harness.objects(CONFIG_MAP) == {}
    assert [key.name[:5] for key in harness.enqueued] == ["made-"] * 3


def test_what_needs_a_server_is_an_error_also_if_the_sync_catches_it() -> None:
    """The harness never lets a test pass after a request whose result it does not know."""

    async def sync(key: Key, view: Any, writer: Any) -> None:
        try:
            await writer.patch(
                POD, key, {"spec": {"containers": [{"name": "y"}]}}, type="strategic"
            )
        except Exception:  # noqa: BLE001 - that is the mistake
            return

    harness = ControllerHarness(Acting(sync, writes=permissions("patch", kind=POD)))
    harness.put(
        POD, {"metadata": {"name": "a", "namespace": "ns"}, "spec": {"containers": [{"name": "x"}]}}
    )
    with pytest.raises(HarnessError, match="test this on a server"):
        harness.sync("ns/a")
