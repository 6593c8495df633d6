"""An API server in memory, in the place of the host's client: its watches tell what there is."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from kcm_host.api import Kind
from kcm_host.client.auth.connection import Connection
from kcm_host.client.http.lines import HandleLine
from kcm_host.client.http.messages import Response
from kcm_host.client.rest import ConditionalResponse, collection

INITIAL_END = {"k8s.io/initial-events-end": "true"}
#: So many kinds are there of which quotas count the objects, beside those that have a place here.
CUSTOM_KINDS = 45
#: Per namespace: a quota, two pods, a claim, and six objects of the custom kinds.
PER_NAMESPACE = 10

POD = Kind(group="", version="v1", name="Pod", resource="pods")
NODE = Kind(group="", version="v1", name="Node", resource="nodes", namespaced=False)
QUOTA = Kind(group="", version="v1", name="ResourceQuota", resource="resourcequotas")
CLAIM = Kind(group="resource.k8s.io", version="v1", name="ResourceClaim", resource="resourceclaims")
CUSTOM = [
    Kind(group="acme.example", version="v1", name=f"Thing{n}", resource=f"things{n}")
    for n in range(CUSTOM_KINDS)
]
KINDS = (
    POD,
    NODE,
    QUOTA,
    CLAIM,
    *CUSTOM,
    Kind(group="", version="v1", name="Service", resource="services"),
    Kind(group="", version="v1", name="PersistentVolumeClaim", resource="persistentvolumeclaims"),
    Kind(
        group="rbac.authorization.k8s.io",
        version="v1",
        name="ClusterRole",
        resource="clusterroles",
        namespaced=False,
    ),
    Kind(
        group="networking.k8s.io",
        version="v1",
        name="ServiceCIDR",
        resource="servicecidrs",
        namespaced=False,
    ),
    Kind(
        group="networking.k8s.io",
        version="v1",
        name="IPAddress",
        resource="ipaddresses",
        namespaced=False,
    ),
    Kind(
        group="resource.k8s.io",
        version="v1",
        name="ResourceClaimTemplate",
        resource="resourceclaimtemplates",
    ),
    Kind(
        group="resource.k8s.io",
        version="v1",
        name="DeviceClass",
        resource="deviceclasses",
        namespaced=False,
    ),
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
    ) -> AsyncIterator["ObjectsInMemory"]:
        """See `Client.watch`."""
        lines = []
        if ("sendInitialEvents", "true") in query:
            kind = next(one for one in KINDS if collection(one, "") == path)
            end = {"resourceVersion": "1", "annotations": INITIAL_END}
            lines = [*self._lines.get(path, ()), _event("BOOKMARK", kind, end)]
        yield ObjectsInMemory(lines)


class ObjectsInMemory:
    """An open watch: these lines, and then nothing ever."""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = iter(lines)

    async def for_each(self, handle: HandleLine) -> int:
        """See `kcm_host.client.rest.Watch`."""
        for count, line in enumerate(self._lines, 1):
            if handle(line):
                return count
        await asyncio.Event().wait()
        raise AssertionError("an event that nobody sets")


def _lines(objects: int, namespaces: int) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for kind, metadata, more in _objects(objects, namespaces):
        whole = {"resourceVersion": "1", "uid": f"{kind.resource}-{len(found)}", **metadata}
        found.setdefault(collection(kind, ""), []).append(_event("ADDED", kind, whole, more=more))
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
