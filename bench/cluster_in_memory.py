"""An API server in memory, in the place of the host's client: its watches tell what there is."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from kcm_host.api import Kind
from kcm_host.client.auth.connection import Connection
from kcm_host.client.paths import collection
from kcm_host.client.rest import ConditionalResponse, Response

INITIAL_END = {"k8s.io/initial-events-end": "true"}
#: So many kinds are there of which quotas count the objects, beside those that have a place here.
CUSTOM_KINDS = 45
#: Per namespace: a quota, two pods, a claim, and six objects of the custom kinds.
PER_NAMESPACE = 10

POD = Kind("", "v1", "Pod", "pods")
NODE = Kind("", "v1", "Node", "nodes", namespaced=False)
QUOTA = Kind("", "v1", "ResourceQuota", "resourcequotas")
CLAIM = Kind("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims")
CUSTOM = [Kind("acme.example", "v1", f"Thing{n}", f"things{n}") for n in range(CUSTOM_KINDS)]
KINDS = (
    POD,
    NODE,
    QUOTA,
    CLAIM,
    *CUSTOM,
    Kind("", "v1", "Service", "services"),
    Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False),
    Kind("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs", namespaced=False),
    Kind("networking.k8s.io", "v1", "IPAddress", "ipaddresses", namespaced=False),
    Kind("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates"),
    Kind("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", namespaced=False),
)
VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
HARD = {"pods": "100", "requests.cpu": "50", "services": "10"} | {
    f"count/{kind.resource}.{kind.group}": "100" for kind in CUSTOM
}


class ClusterInMemory:
    """
    What a host asks of `Client`; every write succeeds and comes back to nobody.

    `namespaces` have ten objects each; `objects` in all, the rest are nodes.
    """

    def __init__(self, connection: Connection, *, objects: int, namespaces: int) -> None:
        self.connection = connection
        self._lines = _lines(objects, namespaces)

    async def request(self, method: str, path: str, **request: Any) -> Response:
        """See `Client.answer`."""
        return Response(200, await self.call(method, path, **request))

    async def call(self, method: str, path: str, *, body: bytes | None = None, **_: Any) -> bytes:
        """See `Client.call`."""
        sent = json.loads(body) if body and method in {"PUT", "POST"} else {}
        sent.setdefault("metadata", {})["resourceVersion"] = "2"
        return json.dumps(sent).encode()

    async def conditional_get(
        self, path: str, *, etag: str, **_: Any
    ) -> ConditionalResponse | None:
        """See `Client.conditional_get`; answers discovery."""
        core = path == "/api"
        return (
            None
            if etag
            else ConditionalResponse(_discovery([k for k in KINDS if core == (not k.group)]), "1")
        )

    @asynccontextmanager
    async def watch(
        self, path: str, *, query: Sequence[tuple[str, str]], **_: Any
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """See `Client.watch`."""
        yield self._told(path, initial=("sendInitialEvents", "true") in query)

    async def _told(self, path: str, *, initial: bool) -> AsyncIterator[bytes]:
        if initial:
            for line in self._lines.get(path, ()):
                yield line
            kind = next(one for one in KINDS if collection(one, "") == path)
            yield _event("BOOKMARK", kind, {"resourceVersion": "1", "annotations": INITIAL_END})
        await asyncio.Event().wait()


def _lines(objects: int, namespaces: int) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for kind, metadata, more in _objects(objects, namespaces):
        whole = {"resourceVersion": "1", "uid": f"{kind.resource}-{len(found)}", **metadata}
        found.setdefault(collection(kind, ""), []).append(_event("ADDED", kind, whole, more))
    return found


def _objects(
    objects: int, namespaces: int
) -> Iterator[tuple[Kind, dict[str, Any], Mapping[str, Any]]]:
    container = {"name": "c", "resources": {"requests": {"cpu": "10m"}}}
    for number in range(namespaces):
        space = f"ns{number}"
        yield QUOTA, {"name": "quota", "namespace": space}, {"spec": {"hard": HARD}}
        for pod in range(2):
            spec = {"spec": {"containers": [container]}, "status": {"phase": "Running"}}
            yield POD, {"name": f"pod{pod}", "namespace": space}, spec
        yield CLAIM, {"name": "claim", "namespace": space}, {"spec": {}, "status": {}}
        for thing in range(PER_NAMESPACE - 4):
            kind = CUSTOM[(number + thing) % CUSTOM_KINDS]
            yield kind, {"name": f"thing{thing}", "namespace": space}, {}
    for number in range(objects - namespaces * PER_NAMESPACE):
        yield NODE, {"name": f"node{number}"}, {}


def _event(
    sort: str, kind: Kind, metadata: Mapping[str, Any], more: Mapping[str, Any] | None = None
) -> bytes:
    whole = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}
    return json.dumps({"type": sort, "object": {**whole, **(more or {})}}).encode()


def _discovery(kinds: Sequence[Kind]) -> bytes:
    groups: dict[str, list[dict[str, Any]]] = {}
    for kind in kinds:
        resource = {
            "resource": kind.resource,
            "responseKind": {"kind": kind.name},
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "verbs": VERBS,
        }
        groups.setdefault(kind.group, []).append(resource)
    items = [
        {"metadata": {"name": name}, "versions": [{"version": "v1", "resources": resources}]}
        for name, resources in groups.items()
    ]
    return json.dumps({"kind": "APIGroupDiscoveryList", "items": items}).encode()
