"""The requests of `Writer` methods, as `Write` values."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kcm_host.api.errors import HostError
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.writes import FinalizerMetadata, PatchType, Write
from kcm_host.client.rest import JSON

PATCHES: dict[PatchType, str] = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}
APPLY = "application/apply-patch+yaml"

#: Fields of type `msgspec.Raw` are sent unchanged.
encode = msgspec.json.Encoder().encode


def patch(
    kind: Kind,
    key: Key,
    body: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    patch_type: PatchType = "merge",
    subresource: str = "",
) -> Write:
    """See `Writer.patch`."""
    if patch_type not in PATCHES:
        raise ValueError(
            f"patch of type {patch_type!r}; use 'merge', 'strategic' (kinds of Kubernetes itself "
            "only) or 'json'; for server-side apply, use writer.apply"
        )
    # Checked here, where the error can name the argument that is wrong.
    if isinstance(body, Mapping) == (patch_type == "json"):
        form = "a list of operations" if patch_type == "json" else "a dict of the changed fields"
        raise TypeError(
            f"the body of a patch of type '{patch_type}' is {form}, not a {type(body).__name__}"
        )
    return Write(
        kind=kind,
        key=key,
        verb="patch",
        body=encode(body),
        content_type=PATCHES[patch_type],
        subresource=subresource,
    )


def apply(
    kind: Kind,
    key: Key,
    body: Mapping[str, Any],
    *,
    field_manager: str,
    force: bool,
    subresource: str,
    uid: str = "",
) -> Write:
    """See `Writer.apply`; with `uid` the server refuses it when no object with that uid exists."""
    name = {"name": key.name, **({"namespace": key.namespace} if key.namespace else {})}
    # Before the metadata of the body, which may name another uid on purpose.
    precondition = {"uid": uid} if uid else {}
    metadata = {**precondition, **body.get("metadata", {}), **name}
    full = {**_with_kind(kind, body), "metadata": metadata}
    query = (("fieldManager", field_manager), *((("force", "true"),) if force else ()))
    return Write(
        kind=kind,
        key=key,
        verb="patch",
        body=encode(full),
        content_type=APPLY,
        subresource=subresource,
        query=query,
    )


def create(kind: Kind, body: Mapping[str, Any], namespace: str) -> Write:
    """See `Writer.create`."""
    metadata = body.get("metadata", {})
    key = Key(metadata.get("name") or metadata.get("generateName", ""), namespace)
    return Write(
        kind=kind,
        key=key,
        verb="create",
        body=encode(_with_kind(kind, body)),
        content_type=JSON,
        full_object=True,
    )


def update(kind: Kind, full: Mapping[str, Any], subresource: str) -> Write:
    """See `Writer.update`; raises `HostError` for an object without resourceVersion."""
    metadata = full.get("metadata", {})
    if not metadata.get("resourceVersion"):
        raise HostError(
            f"update of a '{kind}' without resourceVersion; change the object of "
            "Objects.full_object, so that nothing newer is overwritten"
        )
    key = Key(metadata.get("name", ""), metadata.get("namespace", ""))
    body = encode(_with_kind(kind, full))
    return Write(
        kind=kind,
        key=key,
        verb="update",
        body=body,
        content_type=JSON,
        subresource=subresource,
        full_object=True,
    )


def delete(kind: Kind, key: Key, *, uid: str, resource_version: str) -> Write:
    """See `Writer.delete`."""
    given = {"uid": uid, "resourceVersion": resource_version}
    preconditions = {name: value for name, value in given.items() if value}
    if not preconditions:
        return Write(kind=kind, key=key, verb="delete")
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
    return Write(kind=kind, key=key, verb="delete", body=encode(options), content_type=JSON)


def read(kind: Kind, key: Key) -> Write:
    """See `Writer.read`."""
    return Write(kind=kind, key=key, verb="get", full_object=True)


def _with_kind(kind: Kind, body: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.name, **body}


Operations = list[dict[str, Any]]


def addition(metadata: FinalizerMetadata, finalizer: str) -> Operations:
    """Return the operations that add a finalizer, none if the object has it."""
    present = metadata.finalizers or ()
    if finalizer in present:
        return []
    # Written as a whole, because an object without finalizers has no list to append to.
    return [*_tests(metadata), _operation("add", "finalizers", [*present, finalizer])]


def removal(metadata: FinalizerMetadata, finalizer: str) -> Operations:
    """Return the operations that remove a finalizer, none if the object does not have it."""
    present = metadata.finalizers or ()
    if finalizer not in present:
        return []
    remaining = [one for one in present if one != finalizer]
    return [*_tests(metadata), _operation("replace", "finalizers", remaining)]


def _tests(metadata: FinalizerMetadata) -> Operations:
    if not metadata.uid:
        raise ValueError(
            f"the metadata of '{metadata.name}' has no uid; declare 'uid: str' in its model, so "
            "that no other object of this name is changed"
        )
    # The API server takes null for a field that does not exist.
    finalizers = list(metadata.finalizers) if metadata.finalizers else None
    return [_operation("test", "uid", metadata.uid), _operation("test", "finalizers", finalizers)]


def _operation(name: str, field: str, value: object) -> dict[str, Any]:
    return {"op": name, "path": f"/metadata/{field}", "value": value}
