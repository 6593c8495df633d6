"""The resourceclaim controller with the host's own stores and a server in memory."""

import copy
import itertools
import json
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from plugins.resourceclaim.objects import Manifest
from view_stores import stores_of

from kcm_host.api import (
    AnyWatch,
    ApiError,
    Change,
    Conflict,
    Done,
    Key,
    Kind,
    NotFound,
    Outcome,
    Resource,
    WriteResponse,
)
from kcm_host.api.objects import raw_object
from kcm_host.informer.cache_view import CacheView
from kcm_host.informer.decoder import ModelDecoder
from kcm_host.informer.store import Entry, Store
from kcm_host_resourceclaim import ResourceClaims
from kcm_host_resourceclaim.settings import ClaimSettings

NAME = "resourceclaim"
#: Both PodGroup switches, in the newest version.
GROUPS = {"genericWorkload": True, "workloadClaims": True}


class Served:
    """What a server of these versions serves."""

    def __init__(self, claims: Iterable[str], groups: Iterable[str]) -> None:
        self.known = {
            *(
                (one, each)
                for one in claims
                for each in ("resourceclaims", "resourceclaimtemplates")
            ),
            *((one, "podgroups") for one in groups),
        }

    def serves(self, kind: Kind) -> bool:
        return (kind.version, kind.resource) in self.known

    def first_served(self, *kinds: Kind) -> Kind | None:
        return next((kind for kind in kinds if self.serves(kind)), None)

    def resources(self) -> list[Resource]:
        raise NotImplementedError("the controller asks for kinds by name")


class ClaimCluster:
    """
    One controller, its queue and its requests.

    `put` changes the server and the stores. The controller writes to the server alone;
    `deliver_events` updates the stores, and `sync_until_idle` syncs until nothing is queued.
    """

    def __init__(
        self,
        *objects: Manifest,
        claims: Iterable[str] = ("v1",),
        groups: Iterable[str] = ("v1beta1",),
        **on: Any,
    ) -> None:
        self.settings = ClaimSettings.model_validate(on)
        self.controller = ResourceClaims(self.settings)
        watches = self.controller.kcm_watches(Served(claims, groups))
        self.watches: dict[str, AnyWatch] = {watch.kind.resource: watch for watch in watches}
        self.stores = {resource: _store(watch) for resource, watch in self.watches.items()}
        by_model = {(w.kind, w.model): self.stores[r] for r, w in self.watches.items()}
        self.view = CacheView(NAME, stores_of(NAME, by_model))
        self.server: dict[tuple[str, Key], Manifest] = {}
        self.queue: dict[Key, None] = {}
        #: What was sent: verb, resource (with subresource), body or name; reads are apart.
        self.sent: list[tuple[str, str, Any]] = []
        self.reads: list[str] = []
        self.events: list[str] = []
        #: Errors to answer the next writes with, None for success.
        self.answers: deque[Exception | None] = deque()
        #: What the last sync of `sync` gave.
        self.outcome: Outcome = Done()
        self._numbers = itertools.count(1)
        for each in objects:
            self.put(each, initial=True)
        self._queue(self.controller.kcm_synced(self.view))
        self.at_start = self.take_keys()

    def put(self, manifest: Manifest, *, initial: bool = False) -> list[str]:
        """Put an object on the server and into its store; return the keys that this queues."""
        resource, key = self.set(manifest)
        return self._show(resource, key, initial=initial)

    def set(self, manifest: Manifest) -> tuple[str, Key]:
        """Put an object on the server alone."""
        made = copy.deepcopy(manifest)
        resource = made.pop("resource")
        metadata = made["metadata"]
        metadata["resourceVersion"] = str(next(self._numbers))
        key = Key(metadata["name"], metadata["namespace"])
        self.server[resource, key] = made
        return resource, key

    def put_undecodable(self, resource: str, name: str, namespace: str = "ns") -> None:
        """Put an undecodable object into the store, as its only version."""
        found = Entry(None, f"u-{name}", str(next(self._numbers)), undecodable=True)
        assert self.stores[resource].put(Key(name, namespace), found) is None

    def remove_from_store(self, resource: str, name: str, namespace: str = "ns") -> None:
        """Remove an object from its store alone: the store lags behind the server."""
        self.stores[resource].delete(Key(name, namespace))

    def remove(self, resource: str, name: str, namespace: str = "ns") -> list[str]:
        """Remove an object from server and store; return the keys that this queues."""
        self.server.pop((resource, Key(name, namespace)), None)
        return self._show(resource, Key(name, namespace))

    def deliver_events(self) -> None:
        """Deliver all changes on the server to the stores."""
        for resource, store in self.stores.items():
            stored = {key for key, _ in store.items()}
            there = {key for of, key in self.server if of == resource}
            for key in sorted(stored | there, key=str):
                if store.resource_version_of(key) != self._version(resource, key):
                    self._show(resource, key)

    def get(self, resource: str, name: str, namespace: str = "ns") -> Manifest:
        """Return an object as the server has it."""
        return self.server[resource, Key(name, namespace)]

    def take_keys(self) -> list[str]:
        """Return the queued keys and clear the queue."""
        keys, self.queue = sorted(map(str, self.queue)), {}
        return keys

    async def sync(self, kind: str, name: str, namespace: str = "ns") -> list[str]:
        """Sync one key and return what was sent, in short words."""
        before = len(self.sent)
        self.outcome = await self.controller.kcm_sync(Key(name, namespace, kind), self.view, self)
        return self.verbs(before)

    async def sync_until_idle(self) -> list[str]:
        """Sync until nothing is queued and the stores are current; return what was sent."""
        before = len(self.sent)
        for _ in range(100):
            self.deliver_events()
            if not self.queue:
                return self.verbs(before)
            key = next(iter(self.queue))
            del self.queue[key]
            await self.controller.kcm_sync(key, self.view, self)
        raise AssertionError(f"it never comes to an end: {self.verbs(before)[-10:]}")

    def verbs(self, since: int = 0) -> list[str]:
        """Return what was sent as `create resourceclaims`."""
        return [f"{verb} {what}" for verb, what, _ in self.sent[since:]]

    def metrics(self, name: str) -> dict[tuple[str, ...], float]:
        """Return the series of a metric of the controller: values of the labels -> value."""
        (found,) = [one for one in self.controller.kcm_metrics() if name in one.name]
        return {tuple(labels.values()): value for labels, value in found.series}

    # The writer that syncs get.

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
        assert (field_manager, force, subresource) == ("ResourceClaimController", True, "status")
        assert set(body) == {"status"}
        assert set(body["status"]) == {"resourceClaimStatuses"}
        self._record("apply", f"{kind.resource}/status", body["status"]["resourceClaimStatuses"])
        found = self._found(kind, key)
        found.setdefault("status", {}).update(copy.deepcopy(body["status"]))
        return WriteResponse(resource_version=self._bump(found))

    async def create(self, kind: Kind, body: Mapping[str, Any], *, namespace: str = "") -> Manifest:
        made: Manifest = {"apiVersion": kind.api_version, **json.loads(msgspec.json.encode(body))}
        self._record("create", kind.resource, copy.deepcopy(made))
        metadata = made["metadata"]
        metadata["name"] = f"{metadata.pop('generateName')}{next(self._numbers):05}"
        metadata.update(namespace=namespace, uid=f"u-{metadata['name']}")
        self.set({"resource": kind.resource, **made})
        return _raw(self.server[kind.resource, Key(metadata["name"], namespace)])

    async def update(
        self, kind: Kind, whole: Mapping[str, Any], *, subresource: str = ""
    ) -> Manifest:
        what = f"{kind.resource}/{subresource}" if subresource else kind.resource
        sent = json.loads(msgspec.json.encode(whole))
        self._record("update", what, sent)
        metadata = sent["metadata"]
        key = Key(metadata["name"], metadata["namespace"])
        found = self._found(kind, key)
        if metadata["resourceVersion"] != found["metadata"]["resourceVersion"]:
            raise Conflict("the object has been modified", status=409, reason="Conflict")
        if subresource:
            found["status"] = copy.deepcopy(sent["status"])
        else:
            found["metadata"] = copy.deepcopy(metadata)
        self._bump(found)
        if "deletionTimestamp" in found["metadata"] and not found["metadata"].get("finalizers"):
            del self.server[kind.resource, key]
        return _raw(found)

    async def delete(self, kind: Kind, key: Key, *, uid: str = "", version: str = "") -> None:
        assert (uid, version) == ("", ""), "without preconditions"
        self._record("delete", kind.resource, key.name)
        found = self._found(kind, key)
        if found["metadata"].get("finalizers"):
            found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self._bump(found)
        else:
            del self.server[kind.resource, key]

    async def read(self, kind: Kind, key: Key) -> Manifest | None:
        self.reads.append(f"{kind.resource}/{key.name}")
        if self.answers and isinstance(self.answers[0], Exception):
            raise self.answers.popleft()  # type: ignore[misc] # just looked at
        found = self.server.get((kind.resource, key))
        return _raw(found) if found is not None else None

    async def patch(self, *_: Any, **__: Any) -> WriteResponse:
        raise NotImplementedError("the controller sends no patches")

    def event(self, kind: Kind, key: Key, **fields: Any) -> None:
        assert fields.pop("reason") == "FailedResourceClaimCreation"
        assert fields.pop("component") == "resource_claim"
        assert fields.get("warning", True)
        self.events.append(f"{kind.name} {key.name}: {fields['message']}")

    def _record(self, verb: str, what: str, body: Any) -> None:
        self.sent.append((verb, what, body))
        answer = self.answers.popleft() if self.answers else None
        if answer is not None:
            raise answer

    def _found(self, kind: Kind, key: Key) -> Manifest:
        found = self.server.get((kind.resource, key))
        if found is None:
            raise NotFound(f"{kind} '{key}' not found", status=404, reason="NotFound")
        return found

    def _bump(self, found: Manifest) -> str:
        found["metadata"]["resourceVersion"] = version = str(next(self._numbers))
        return version

    def _version(self, resource: str, key: Key) -> str | None:
        found = self.server.get((resource, key))
        return found["metadata"]["resourceVersion"] if found else None

    def _show(self, resource: str, key: Key, *, initial: bool = False) -> list[str]:
        """Update one store and queue the keys that follow."""
        store, found = self.stores[resource], self.server.get((resource, key))
        if found is None:
            change = store.delete(key, resource_version=str(next(self._numbers)))
        else:
            change = store.put(key, _entry(self.watches[resource], found))
            if change is not None:
                change = msgspec.structs.replace(change, initial=initial)
        return self._queue(self._keys(resource, change))

    def _keys(self, resource: str, change: Change[Any] | None) -> Iterable[Any]:
        return self.watches[resource].keys(change, self.view) if change is not None else ()

    def _queue(self, wanted: Iterable[Any]) -> list[str]:
        keys = list(dict.fromkeys(wanted))
        self.queue.update(dict.fromkeys(keys))
        return sorted(map(str, keys))


def refused(status: int, reason: str, message: str = "no") -> ApiError:
    """Return an error answer as the host words it."""
    text = f"POST resourceclaims in 'ns': {status} {reason}: {message}"
    kind = Conflict if status == 409 else ApiError
    return kind(text, status=status, reason=reason, server_message=message)


def _raw(found: Manifest) -> Manifest:
    return raw_object(json.dumps(found).encode())


def _store(watch: AnyWatch) -> Store[Any]:
    store: Store[Any] = Store(watch.kind)
    store.keep_full_objects = watch.full_object
    for name, function in watch.indexes.items():
        store.add_index(NAME, name, function, _fail)
    return store


def _fail(_key: Key, error: BaseException) -> None:
    raise AssertionError("an index function must not raise") from error


def _entry(watch: AnyWatch, found: Manifest) -> Entry[Any]:
    text = json.dumps(found).encode()
    metadata = found["metadata"]
    model = ModelDecoder(watch.model).decode_object(text)
    return Entry(model, metadata["uid"], metadata["resourceVersion"], full_object=text)
