"""From what a sync wants to say to the request that says it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from kcm_host.api.errors import HostError
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.writes import Write
from kcm_host.client.rest import JSON

STRATEGIC_MERGE = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

#: Fields that are `msgspec.Raw` are sent as they are.
encode = msgspec.json.Encoder().encode


def patch(kind: Kind, key: Key, body: Mapping[str, Any], subresource: str) -> Write:
    """See `Writer.patch`."""
    return Write(kind, key, "patch", encode(body), STRATEGIC_MERGE, subresource)


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
    """See `Writer.apply`; with `uid` the server refuses it unless that very object is there."""
    name = {"name": key.name, **({"namespace": key.namespace} if key.namespace else {})}
    of = {"uid": uid} if uid else {}
    whole = {**_of_kind(kind, body), "metadata": {**of, **body.get("metadata", {}), **name}}
    query = (("fieldManager", field_manager), *((("force", "true"),) if force else ()))
    return Write(kind, key, "patch", encode(whole), APPLY, subresource, query)


def create(kind: Kind, body: Mapping[str, Any], namespace: str) -> Write:
    """See `Writer.create`."""
    metadata = body.get("metadata", {})
    key = Key(metadata.get("name") or metadata.get("generateName", ""), namespace)
    whole = encode(_of_kind(kind, body))
    return Write(kind, key, "create", whole, JSON, whole=True)


def update(kind: Kind, whole: Mapping[str, Any], subresource: str) -> Write:
    """See `Writer.update`; raises `HostError` for an object that would overwrite any version."""
    metadata = whole.get("metadata", {})
    if not metadata.get("resourceVersion"):
        raise HostError(
            f"update of a '{kind}' without resourceVersion; change what Objects.whole gave, "
            "so that nothing newer is overwritten"
        )
    key = Key(metadata.get("name", ""), metadata.get("namespace", ""))
    body = encode(_of_kind(kind, whole))
    return Write(kind, key, "update", body, JSON, subresource, whole=True)


def delete(kind: Kind, key: Key, *, uid: str, version: str) -> Write:
    """See `Writer.delete`."""
    wanted = {"uid": uid, "resourceVersion": version}
    preconditions = {name: value for name, value in wanted.items() if value}
    if not preconditions:
        return Write(kind, key, "delete")
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
    return Write(kind, key, "delete", encode(options), JSON)


def read(kind: Kind, key: Key) -> Write:
    """See `Writer.read`."""
    return Write(kind, key, "get", whole=True)


def _of_kind(kind: Kind, body: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.name, **body}
