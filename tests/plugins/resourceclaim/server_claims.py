"""Pods and claims of a real server, played without scheduler and kubelet, for tests."""

import copy
import itertools
import json
import secrets
import ssl
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from eventually import eventually
from kubernetes import client
from plugins.proxied_host import proxied_host
from plugins.resourceclaim.objects import Manifest, by_template, claim_spec
from running_host import RunningHost

from kcm_host_resourceclaim.models.claim import FINALIZER
from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import Request
from kcm_host_testing.proxy import FaultProxy

CONTROLLER = "resourceclaim"
DEVICES = {"results": [{"request": "r", "driver": "d.example", "pool": "p", "device": "one"}]}
#: The writes of the controller, as `WatchedClaims.writes` returns them.
CREATE, RECORD = "POST resourceclaims", "PATCH pods/status"
STATUS, MAIN = "PUT resourceclaims/status", "PUT resourceclaims"
DELETE = "DELETE resourceclaims"
JSON_TYPE = "application/json"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
MERGE = "application/merge-patch+json"
#: Metadata alone, for objects that are nested deeper than tests can decode.
SLIM = "application/json;g=meta.k8s.io;v=v1;as=PartialObjectMetadata"


class Claims:
    """One namespace of a server: its objects, and what scheduler, kubelet and users do."""

    def __init__(self, server: ApiServer, *, version: str = "v1", namespace: str = "") -> None:
        self.server = server
        self.version = version
        self.namespace = namespace or f"t{secrets.token_hex(4)}"
        self._api = server.client()
        self._user = "admin"
        self._call("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        self._class()

    def seen_by(self, user: str) -> "Claims":
        """Return the same namespace in the hands of another user."""
        seen = copy.copy(self)
        seen._user = user
        return seen

    # Objects as users make them.

    def template(self, name: str = "t", *, metadata: Manifest | None = None, **spec: Any) -> None:
        """Create a template."""
        body = {"metadata": metadata or {}, "spec": claim_spec(**spec)}
        self.create("resourceclaimtemplates", {"metadata": {"name": name}, "spec": body})

    def pod(self, name: str = "p", *entries: Manifest, node: str = "", **spec: Any) -> Manifest:
        """Create a pod, with one entry `res` if none is given; `node`: it is born with one."""
        claims = list(entries or [by_template()])
        container = {"name": "c", "image": "i"}
        if node:
            spec["nodeName"] = node
        body = {"containers": [container], "resourceClaims": claims, **spec}
        return self.create("pods", {"metadata": {"name": name}, "spec": body})

    def plain_pod(self, name: str, **limits: str) -> Manifest:
        """Create a pod on a node, without entries."""
        container = {"name": "c", "image": "i", "resources": {"limits": limits}}
        body = {"containers": [container], "nodeName": "n"}
        return self.create("pods", {"metadata": {"name": name}, "spec": body})

    def claim(
        self,
        name: str = "c",
        *,
        owner: Manifest | None = None,
        annotations: Mapping[str, str] | None = None,
        finalizers: Sequence[str] = (),
    ) -> Manifest:
        """Create a claim; `owner` is the pod that controls it."""
        metadata: Manifest = {"name": name, "annotations": dict(annotations or {})}
        metadata["finalizers"] = list(finalizers)
        if owner is not None:
            named = {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
            metadata["ownerReferences"] = [
                {"apiVersion": "v1", "kind": "Pod", "controller": True, **named}
            ]
        body = {"metadata": metadata, "spec": claim_spec(flat=self.version == "v1beta1")}
        return self.create("resourceclaims", body)

    # What scheduler and kubelet do.

    def allocate(self, name: str, *consumers: Manifest, protected: bool = True) -> None:
        """Allocate a claim and reserve it, as the scheduler does: finalizer first, then status."""
        if protected:
            metadata = self.get("resourceclaims", name)["metadata"]
            finalizers = [*metadata.get("finalizers", []), FINALIZER]
            self.change("resourceclaims", name, metadata={"finalizers": finalizers})
        status: Manifest = {"allocation": {"devices": DEVICES}}
        if consumers:
            status["reservedFor"] = list(consumers)
        self.change("resourceclaims", name, part="status", status=status)

    def phase(self, name: str, phase: str) -> None:
        """Report how far a pod is."""
        self.change("pods", name, part="status", status={"phase": phase})

    # Any object.

    def create(self, resource: str, body: Manifest) -> Manifest:
        """Create an object and return it."""
        return self._call("POST", self.path(resource), body)

    def create_text(self, resource: str, text: str) -> None:
        """Create an object from JSON that no encoder here would write."""
        post_text(self.server, self.path(resource), text, user=self._user)

    def change(self, resource: str, name: str, *, part: str = "", **fields: Any) -> Manifest:
        """Merge fields into an object, or into one `part` of it, and return it."""
        path = self.path(resource, name) + (f"/{part}" if part else "")
        return self._call("PATCH", path, fields, content_type=MERGE)

    def get(self, resource: str, name: str) -> Manifest:
        """Return an object as the server has it."""
        return self._call("GET", self.path(resource, name))

    def all(self, resource: str) -> list[Manifest]:
        """Return all objects of the namespace."""
        found: list[Manifest] = self._call("GET", self.path(resource))["items"]
        return found

    def names(self, resource: str = "resourceclaims") -> set[str]:
        """Return the names of all objects of the namespace."""
        found = self._call("GET", self.path(resource), accept=f"{SLIM}List")
        return {each["metadata"]["name"] for each in found["items"] or ()}

    def delete(self, resource: str, name: str) -> None:
        """Delete an object at once."""
        options = {"gracePeriodSeconds": 0}
        self._call("DELETE", self.path(resource, name), options, accept=SLIM)

    def recorded(self, name: str = "p") -> dict[str, str]:
        """Return the claims recorded for a pod: entry -> claim."""
        records = self.get("pods", name).get("status", {}).get("resourceClaimStatuses", [])
        return {each["name"]: each.get("resourceClaimName") for each in records}

    def made(self, name: str = "p", entries: int = 1) -> dict[str, str]:
        """Return the claims recorded for a pod, as soon as there are so many."""
        return eventually(
            lambda: found if len(found := self.recorded(name)) == entries else None,
            f"the claims of pod {name} are recorded",
        )

    def consumers(self, name: str) -> list[str]:
        """Return the names of a claim's consumers."""
        status = self.get("resourceclaims", name).get("status", {})
        return [each["name"] for each in status.get("reservedFor", [])]

    def label(self, labels: Mapping[str, str]) -> None:
        """Label the namespace."""
        path = f"/api/v1/namespaces/{self.namespace}"
        self._call("PATCH", path, {"metadata": {"labels": dict(labels)}}, content_type=MERGE)

    def events(self) -> list[str]:
        """Return the messages of all events of the namespace."""
        return [each["message"] for each in self.all("events")]

    def discovery(self) -> Manifest:
        """Return what the server says it serves outside the core group."""
        return self._call("GET", "/apis", accept=DISCOVERY)

    def clean(self) -> None:
        """Remove what later hosts would otherwise go on working at."""
        for resource in ("pods", "resourceclaims", "resourceclaimtemplates"):
            for name in self.names(resource):
                # The host is still at work and may be quicker.
                with suppress(client.ApiException):
                    self.delete(resource, name)
                    if resource == "resourceclaims":
                        self.change(resource, name, metadata={"finalizers": None})

    def path(self, resource: str, name: str = "") -> str:
        """Return the path of an object, or of all."""
        core = resource in ("pods", "events")
        group = "/api/v1" if core else f"/apis/resource.k8s.io/{self.version}"
        path = f"{group}/namespaces/{self.namespace}/{resource}"
        return f"{path}/{name}" if name else path

    def _class(self) -> None:
        """Create the device class, which may be there already."""
        path = f"/apis/resource.k8s.io/{self.version}/deviceclasses"
        with suppress(client.ApiException):
            self._call("POST", path, {"metadata": {"name": "d"}, "spec": {}})

    def _call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON_TYPE,
        accept: str = JSON_TYPE,
    ) -> Manifest:
        headers = {"Content-Type": content_type, "Accept": accept}
        headers["Authorization"] = f"Bearer {self.server.token(self._user)}"
        answer = self._api.call_api(method, f"{self.server.url}{path}", headers, body)
        text = answer.read().decode()
        if answer.status >= 400:
            raise client.ApiException(status=answer.status, reason=f"{method} {path}: {text}")
        found: Manifest = json.loads(text)
        return found


def post_text(server: ApiServer, path: str, text: str, *, user: str) -> None:
    """Create an object as a user, from text that no encoder here would write."""
    headers = {"Content-Type": JSON_TYPE, "Authorization": f"Bearer {server.token(user)}"}
    request = urllib.request.Request(f"{server.url}{path}", text.encode(), headers)
    trust = ssl.create_default_context(cafile=str(server.ca_file))
    with urllib.request.urlopen(request, context=trust) as answer:
        assert answer.status == 201


class WatchedClaims(Claims):
    """A namespace watched by a host, behind a proxy that records its requests."""

    def __init__(
        self, server: ApiServer, proxy: FaultProxy, host: RunningHost, *, version: str = "v1"
    ) -> None:
        super().__init__(server, version=version)
        self.proxy = proxy
        self.host = host
        self._numbers = itertools.count()
        self._begin = len(proxy.requests())
        self.claim("marker")

    def requests(self, *methods: str) -> list[Request]:
        """Return the host's requests for this namespace; its writes alone if no method is named."""
        wanted = methods or ("POST", "PUT", "PATCH", "DELETE")
        mine = f"/namespaces/{self.namespace}/"
        return [
            one
            for one in self.proxy.requests()[self._begin :]
            if one.method in wanted and mine in one.path and "/events" not in one.path
        ]

    def writes(self) -> list[str]:
        """Return the host's writes in this namespace, as `PUT resourceclaims/status`."""
        return [f"{one.method} {_what(one.path)}" for one in self.requests()]

    def touch(self) -> str:
        """Make changes that the controller does not read, and return the version of the last."""
        text = str(next(self._numbers))
        marks = {"annotations": {"touched": text}}
        seen = self.change("resourceclaims", "marker", metadata=marks)
        self.host.wait_until_seen("resourceclaims", seen["metadata"]["resourceVersion"])
        if "marker" not in self.names("pods"):
            self.plain_pod("marker")
        version = self.change("pods", "marker", metadata=marks)["metadata"]["resourceVersion"]
        return str(version)

    def wait_until_idle(self) -> dict[str, Any]:
        """Wait until the host is idle, also after the events of its own writes."""
        return self.host.wait_until_settled(CONTROLLER, "pods", self.touch)


def _what(path: str) -> str:
    parts = path.split("/namespaces/")[1].split("/")[1:]
    return "/".join([parts[0], *parts[2:]])


@contextmanager
def claims_host(
    server: ApiServer, *, user: str = "admin", version: str = "v1", **settings: Any
) -> Iterator[Callable[[], WatchedClaims]]:
    """Run a host with the controller alone; yield a function that makes a watched namespace."""
    made: list[WatchedClaims] = []
    with proxied_host(server, CONTROLLER, user=user, **settings) as (proxy, host):

        def begin() -> WatchedClaims:
            made.append(WatchedClaims(server, proxy, host, version=version))
            return made[-1]

        try:
            yield begin
        finally:
            for claims in made:
                claims.clean()


def consumer(pod: Manifest) -> Manifest:
    """Return a pod as the scheduler reserves a claim for it."""
    metadata = pod["metadata"]
    return {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}
