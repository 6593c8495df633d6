"""The servicecidrs controller on stores in memory, with its writes recorded."""

import json
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from view_stores import stores_of

from kcm_host.api import Change, HostError, Key, Kind, Outcome, Watch, WriteResponse
from kcm_host.informer import decoder
from kcm_host.informer.cache_view import CacheView
from kcm_host.informer.shared_informer import SharedInformer
from kcm_host_servicecidrs import ServiceCidrs
from kcm_host_servicecidrs.models import FINALIZER, SERVICE_CIDR

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_900, tzinfo=UTC)
ADD = {"metadata": {"finalizers": [FINALIZER]}}
REMOVE = {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
IS_READY = {
    "type": "Ready",
    "status": "True",
    "reason": "",
    "message": "Kubernetes Service CIDR is ready",
}
IS_TERMINATING = {
    "type": "Ready",
    "status": "False",
    "reason": "Terminating",
    "message": "There are still IPAddresses referencing the ServiceCIDR, "
    "please remove them or create a new ServiceCIDR",
}
#: Writes as the tests note them, instead of their bodies.
FIN_PLUS, FIN_MINUS, STATUS_T, STATUS_F = "fin+", "fin-", "status T", "status F"

Manifest = Mapping[str, Any]


def cidr(
    *ranges: str,
    deleted: float | None = None,
    ready: Manifest | None = IS_READY,
    finalizers: Sequence[str] = (FINALIZER,),
) -> dict[str, Any]:
    """Return a ServiceCIDR, complete unless said otherwise; deleted so many seconds ago."""
    made: dict[str, Any] = {"metadata": {"finalizers": list(finalizers)}}
    if deleted is not None:
        at = NOW.replace(microsecond=0) - timedelta(seconds=deleted)
        made["metadata"]["deletionTimestamp"] = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    made["spec"] = {"cidrs": list(ranges)}
    made["status"] = {"conditions": [ready] if ready else []}
    return made


def address(family: str = "IPv4", manager: str = "ipallocator.k8s.io") -> dict[str, Any]:
    """Return an IPAddress."""
    labels = {
        "ipaddress.kubernetes.io/managed-by": manager,
        "ipaddress.kubernetes.io/ip-family": family,
    }
    return {"metadata": {"labels": labels}}


#: One address within 10.0.0.0/24.
SEVEN = {"10.0.0.7": address()}


class Stream:
    """The objects of one kind, delivered to one watch, with the keys that it queues."""

    def __init__(self, watch: Watch[Any]) -> None:
        self.watch = watch
        self.informer = SharedInformer(watch.kind)
        self.queued: list[str] = []
        self.view: CacheView
        self.informer.add_event_handler(watch.model, self)

    def on_change(self, change: Change[Any]) -> None:
        """Queue what the controller says, as the host does."""
        wanted = self.watch.keys(change, self.view)
        self.queued += [one.name for one in wanted if isinstance(one, Key)]

    def on_synced(self) -> None:
        """Do nothing: the keys of the initial objects are queued already."""

    def relist(self, objects: Mapping[str, Manifest]) -> None:
        """Read a complete list."""
        self.informer.init()
        for name, body in objects.items():
            line = self.line("ADDED", name, body)
            self.informer.init_apply("ADDED", line, decoder.decode_event(line).object)
        for _ in self.informer.init_done():
            pass

    def deliver(self, kind: str, name: str, body: Manifest) -> list[str]:
        """Deliver one event and return the keys queued for it."""
        self.queued.clear()
        line = self.line(kind, name, body)
        self.informer.apply(kind, line, decoder.decode_event(line).object)
        return sorted(self.queued)

    def line(self, kind: str, name: str, body: Manifest) -> bytes:
        """Return one line of the watch."""
        head = {"name": name, "uid": name, "resourceVersion": "7"}
        whole = {**body, "metadata": {**head, **body.get("metadata", {})}}
        return json.dumps({"type": kind, "object": whole}).encode()


class Cluster:
    """One controller between two streams and the writes it makes, at a fixed time."""

    def __init__(
        self,
        cidrs: Mapping[str, Manifest] | None = None,
        addresses: Mapping[str, Manifest] | None = None,
    ) -> None:
        self.controller = ServiceCidrs(lambda: NOW)
        self.cidrs, self.addresses = map(Stream, self.controller.kcm_watches())
        stores = {
            (stream.watch.kind, stream.watch.model): stream.informer.typed_informer(
                stream.watch.model
            ).store
            for stream in (self.cidrs, self.addresses)
        }
        self.cidrs.view = self.addresses.view = self.view = CacheView(
            "servicecidrs", stores_of("servicecidrs", stores)
        )
        #: Name and sort of each write, the last status applied, Events, and answers to give.
        self.written: list[tuple[str, str]] = []
        self.applied: dict[str, Any] = {}
        self.events: list[tuple[str, str, str, bool, str]] = []
        self.answers: deque[HostError] = deque()
        self.cidrs.relist(cidrs or {})
        self.addresses.relist(addresses or {})

    async def sync(self, name: str = "a") -> Outcome:
        """Sync one key with the present caches."""
        return await self.controller.kcm_sync(Key(name), self.view, self)

    def status(self) -> Mapping[str, Any]:
        """Return the controller's part of the status page."""
        return self.controller.kcm_status(self.view)

    async def patch(
        self,
        kind: Kind,
        key: Key,
        body: Mapping[str, Any],
        *,
        type: str = "merge",  # noqa: A002 - as `Writer.patch`
        subresource: str = "",
    ) -> WriteResponse:
        """Note a change of the finalizers."""
        assert (kind, type, subresource) == (SERVICE_CIDR, "strategic", "")
        sort = {json.dumps(ADD): FIN_PLUS, json.dumps(REMOVE): FIN_MINUS}[json.dumps(body)]
        return self._note(key.name, sort)

    async def apply(
        self,
        kind: Kind,
        key: Key,
        body: Mapping[str, Any],
        *,
        field_manager: str,
        force: bool = True,
        subresource: str = "",
    ) -> WriteResponse:
        """Note a status apply."""
        where = (kind, field_manager, force, subresource)
        assert where == (SERVICE_CIDR, "service-cidr-controller", True, "status")
        (condition,) = body["status"]["conditions"]
        self.applied = dict(condition)
        state = {k: v for k, v in condition.items() if k != "lastTransitionTime"}
        assert state in (IS_READY, IS_TERMINATING)
        return self._note(key.name, STATUS_T if state == IS_READY else STATUS_F)

    def event(
        self,
        kind: Kind,
        key: Key,
        *,
        reason: str,
        message: str,
        warning: bool = True,
        component: str = "",
    ) -> None:
        """Note an Event."""
        assert kind == SERVICE_CIDR
        self.events.append((key.name, reason, message, warning, component))

    async def create(
        self, kind: Kind, body: Mapping[str, Any], *, namespace: str = ""
    ) -> dict[str, Any]:
        raise NotImplementedError(f"{kind} {body} {namespace}")

    async def update(
        self, kind: Kind, whole: Mapping[str, Any], *, subresource: str = ""
    ) -> dict[str, Any]:
        raise NotImplementedError(f"{kind} {whole} {subresource}")

    async def delete(self, kind: Kind, key: Key, *, uid: str = "", version: str = "") -> None:
        raise NotImplementedError(f"{kind} {key} {uid} {version}")

    async def read(self, kind: Kind, key: Key) -> dict[str, Any] | None:
        raise NotImplementedError(f"{kind} {key}")

    def _note(self, name: str, sort: str) -> WriteResponse:
        self.written.append((name, sort))
        if self.answers:
            raise self.answers.popleft()
        return WriteResponse()
