"""The objects of an in-memory API server, with versions, finalizers and a log of events."""

import asyncio
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from worlds.merging import merged

from kcm_host.api import Kind

Object = dict[str, Any]
BEGINNING = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Refused(Exception):
    """The server answers with this status and reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Event(msgspec.Struct, frozen=True):
    """One change as watches tell it."""

    version: int
    type: str
    object: Object


class Objects:
    """
    The objects of one kind.

    `log` holds every event, so that a watch can begin at any version. `now` returns the time of
    the server; `next_version` counts over all kinds.
    """

    def __init__(
        self, kind: Kind, now: Callable[[], datetime], next_version: Callable[[], int]
    ) -> None:
        self.kind = kind
        self.log: list[Event] = []
        self.news = asyncio.Event()
        self._now = now
        self._next_version = next_version
        self._objects: dict[tuple[str, str], Object] = {}

    def get(self, name: str, namespace: str = "") -> Object | None:
        """Return a copy of an object, None if there is none."""
        found = self._objects.get((namespace, name))
        return deepcopy(found) if found is not None else None

    def all(self) -> Iterator[Object]:
        """Return a copy of every object."""
        return map(deepcopy, list(self._objects.values()))

    def create(self, body: Object, namespace: str = "") -> Object:
        """Create an object; its metadata holds `name` or `generateName`."""
        made = deepcopy(body)
        meta = made.setdefault("metadata", {})
        version = self._next_version()
        name = meta.setdefault("name", f"{meta.get('generateName', '')}{version}")
        if (namespace, name) in self._objects:
            raise Refused(409, "AlreadyExists")
        if namespace:
            meta["namespace"] = namespace
        meta["uid"] = f"uid-{version}"
        meta["creationTimestamp"] = stamp(self._now())
        made["apiVersion"], made["kind"] = self.kind.api_version, self.kind.name
        return self._store("ADDED", made, version)

    def update(self, body: Object, subresource: str = "") -> Object:
        """Replace an object, or its status; a version that is not the present one is refused."""
        meta = body["metadata"]
        present = self._present(meta["name"], meta.get("namespace", ""))
        if meta.get("resourceVersion") not in (None, present["metadata"]["resourceVersion"]):
            raise Refused(409, "Conflict")
        if meta.get("uid") not in (None, present["metadata"]["uid"]):
            raise Refused(409, "Conflict")
        wanted = deepcopy(present)
        if subresource == "status":
            wanted.pop("status", None)
            wanted.update({k: deepcopy(v) for k, v in body.items() if k == "status"})
        else:
            status = wanted.get("status")
            wanted = deepcopy(body)
            wanted["metadata"] = {**wanted["metadata"], **_identity(present)}
            wanted.pop("status", None)
            if status is not None:
                wanted["status"] = status
        return self._changed(present, wanted)

    def patch(self, name: str, namespace: str, body: Object, subresource: str = "") -> Object:
        """Change an object by a merge; a uid or version in the patch is a precondition."""
        present = self._present(name, namespace)
        meta = body.get("metadata", {})
        for field in ("uid", "resourceVersion"):
            if meta.get(field) not in (None, present["metadata"][field]):
                raise Refused(409, "Conflict")
        fields = {k: v for k, v in body.items() if k in ((subresource,) if subresource else body)}
        return self._changed(present, merged(present, fields))

    def apply(self, name: str, namespace: str, body: Object) -> Object:
        """Change an object by an apply, which creates one that is not there."""
        if (namespace, name) in self._objects:
            return self.patch(name, namespace, body)
        made = deepcopy(body)
        made.setdefault("metadata", {})["name"] = name
        if "uid" in made["metadata"]:
            raise Refused(409, "Conflict")
        return self.create(made, namespace)

    def delete(self, name: str, namespace: str = "", *, uid: str = "", version: str = "") -> Object:
        """Delete an object; one with finalizers stays until the last of them is removed."""
        present = self._present(name, namespace)
        meta = present["metadata"]
        if uid not in ("", meta["uid"]) or version not in ("", meta["resourceVersion"]):
            raise Refused(409, "Conflict")
        if not meta.get("finalizers"):
            return self._remove(present)
        wanted = deepcopy(present)
        wanted["metadata"].setdefault("deletionTimestamp", stamp(self._now()))
        return self._changed(present, wanted)

    def _present(self, name: str, namespace: str) -> Object:
        found = self._objects.get((namespace, name))
        if found is None:
            raise Refused(404, "NotFound")
        return found

    def _changed(self, present: Object, wanted: Object) -> Object:
        meta = wanted["metadata"]
        if "deletionTimestamp" in meta and not meta.get("finalizers"):
            return self._remove(wanted)
        meta["resourceVersion"] = present["metadata"]["resourceVersion"]
        if wanted == present:
            return deepcopy(present)
        return self._store("MODIFIED", wanted, self._next_version())

    def _store(self, type_: str, wanted: Object, version: int) -> Object:
        meta = wanted["metadata"]
        meta["resourceVersion"] = str(version)
        self._objects[meta.get("namespace", ""), meta["name"]] = wanted
        self._tell(Event(version, type_, deepcopy(wanted)))
        return deepcopy(wanted)

    def _remove(self, present: Object) -> Object:
        meta = present["metadata"]
        del self._objects[meta.get("namespace", ""), meta["name"]]
        version = self._next_version()
        gone = deepcopy(present)
        gone["metadata"]["resourceVersion"] = str(version)
        self._tell(Event(version, "DELETED", gone))
        # The answer to the last removal of a finalizer carries the version from before it.
        return deepcopy(present)

    def _tell(self, event: Event) -> None:
        self.log.append(event)
        self.news.set()
        self.news = asyncio.Event()


def stamp(time: datetime) -> str:
    """Return a time as the API server writes it."""
    return time.replace(microsecond=0).strftime("%Y-%m-%dT%H:%M:%SZ")


def at(seconds: float) -> datetime:
    """Return the server's time at so many seconds of the loop's clock."""
    return BEGINNING + timedelta(seconds=seconds)


def _identity(present: Object) -> Object:
    meta = present["metadata"]
    kept = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp")
    return {name: meta[name] for name in kept if name in meta}
