"""The objects of all served kinds, changed by requests as an API server changes them."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from datetime import datetime
from typing import Any, NamedTuple

from kcm_host.api import Key, Kind
from kcm_host_testing.harness.errors import HarnessError, Refused, needs_server
from kcm_host_testing.harness.patches import (
    Appliers,
    Object,
    is_builtin,
    json_patch,
    merge_patch,
    strategic_patch,
)

#: Called after each change with the kind, and the object before and after it. After a removal the
#: object before it has the version of the removal.
OnChange = Callable[[Kind, Object | None, Object | None], None]

#: What a server sets itself: a request cannot change it.
_SYSTEM_FIELDS = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)
_PRECONDITIONS = ("uid", "resourceVersion")
_OMITTED_IF_EMPTY = ("labels", "annotations", "finalizers", "ownerReferences")


class Written(NamedTuple):
    """The object after a request, and whether the request has created or removed it."""

    body: Object
    is_created: bool = False
    is_removed: bool = False


class Objects:
    """
    The objects, with versions over all kinds that grow with each change.

    `put` and `remove` are for tests and skip all rules; every other method raises `Refused` where
    a server responds with an error, and `HarnessError` where the result depends on the schema.
    """

    def __init__(self, now: Callable[[], datetime], on_change: OnChange) -> None:
        self._now = now
        self._on_change = on_change
        self._version = 100
        self._objects: dict[Kind, dict[Key, Object]] = {}
        self._appliers: dict[str, Appliers] = {}

    def of(self, kind: Kind) -> dict[Key, Object]:
        """Return the objects of a kind, which must not be changed."""
        return self._objects.get(kind, {})

    def get(self, kind: Kind, key: Key) -> Object:
        """Return a copy of an object; raise `Refused` if it does not exist."""
        return deepcopy(self._present(kind, key))

    def put(self, kind: Kind, manifest: Mapping[str, Any]) -> Key:
        """Create an object or replace it, its status included; what is given is kept."""
        body = deepcopy(dict(manifest))
        meta = body["metadata"] = dict(body.get("metadata") or {})
        if not meta.get("name") or bool(meta.get("namespace")) != kind.namespaced:
            needs = "a name and a namespace" if kind.namespaced else "a name and no namespace"
            raise HarnessError(f"a {kind.name} has {needs} in its metadata, found {meta!r}")
        key = Key(meta["name"], meta.get("namespace", ""))
        present = self.of(kind).get(key)
        defaults = present["metadata"] if present is not None else self._new_metadata()
        for name in _SYSTEM_FIELDS:
            if name in defaults:
                meta.setdefault(name, defaults[name])
        self._store(kind, key, present, wanted=_with_kind(kind, body))
        return key

    def remove(self, kind: Kind, key: Key) -> None:
        """Remove an object at once, whatever its finalizers are."""
        present = self._present(kind, key)
        del self._objects[kind][key]
        self._appliers.pop(present["metadata"]["uid"], None)
        gone = {**present["metadata"], "resourceVersion": self._next_version()}
        self._on_change(kind, {**present, "metadata": gone}, None)

    def create(self, kind: Kind, body: Object, namespace: str) -> Written:
        """Create an object; its metadata has `name` or `generateName`."""
        if kind.namespaced != bool(namespace):
            raise Refused(405, "MethodNotAllowed", "the server does not allow this method")
        meta = body["metadata"] = dict(body.get("metadata") or {})
        if meta.get("resourceVersion"):
            text = "resourceVersion should not be set on objects to be created"
            raise Refused(400, "BadRequest", text)
        if meta.get("namespace", namespace) != namespace:
            text = "the namespace of the provided object does not match the request"
            raise Refused(400, "BadRequest", text)
        if not meta.get("name") and not meta.get("generateName"):
            raise Refused(422, "Invalid", f"{kind.name} is invalid: metadata.name is required")
        meta["name"] = meta.get("name") or f"{meta['generateName']}{self._version + 1:05d}"
        if namespace:
            meta["namespace"] = namespace
        key = Key(meta["name"], namespace)
        if key in self.of(kind):
            raise Refused(409, "AlreadyExists", f'{kind} "{key.name}" already exists')
        for name in _SYSTEM_FIELDS:
            meta.pop(name, None)
        meta |= self._new_metadata()
        body.pop("status", None)
        return Written(self._store(kind, key, None, wanted=_with_kind(kind, body)), is_created=True)

    def update(self, kind: Kind, key: Key, body: Object, subresource: str) -> Written:
        """Replace an object or its status."""
        return self._change(kind, key, body, subresource=subresource)

    def merge(self, kind: Kind, key: Key, patch: Object, subresource: str = "") -> Written:
        """Change an object by a merge patch."""
        wanted = merge_patch(self._present(kind, key), patch)
        return self._change(kind, key, wanted, subresource=subresource)

    def patch_json(
        self, kind: Kind, key: Key, operations: list[Object], subresource: str
    ) -> Written:
        """Change an object by a JSON patch."""
        wanted = json_patch(self._present(kind, key), operations)
        return self._change(kind, key, wanted, subresource=subresource)

    def patch_strategic(self, kind: Kind, key: Key, patch: Object, subresource: str) -> Written:
        """Change an object by a strategic merge patch, which custom resources do not support."""
        present = self._present(kind, key)
        if not is_builtin(kind.group):
            text = "the body of the request was in an unknown format"
            raise Refused(415, "UnsupportedMediaType", text)
        return self._change(
            kind, key, strategic_patch(present, patch, group=kind.group), subresource=subresource
        )

    def apply(
        self, kind: Kind, key: Key, body: Object, *, manager: str, force: bool, subresource: str
    ) -> Written:
        """Change an object by a server-side apply, or create it."""
        meta = dict(body.get("metadata") or {})
        given = {name: meta.pop(name) for name in _PRECONDITIONS if name in meta}
        fields = {name: value for name, value in body.items() if name not in ("apiVersion", "kind")}
        if subresource == "status":
            fields = {"status": fields.get("status") or {}}
        elif subresource:
            raise needs_server(f"an apply of the subresource {subresource!r}")
        else:
            fields.pop("status", None)
        fields["metadata"] = {
            name: value for name, value in meta.items() if name not in ("name", "namespace")
        }
        as_manager: dict[str, Any] = {"manager": f"{manager}/{subresource}", "force": force}
        appliers = Appliers(kind.group)
        if key not in self.of(kind) and not subresource:
            if "uid" in given:
                raise _conflict(kind, key)
            wanted = appliers.apply({"metadata": {"name": key.name}}, fields, **as_manager)
            created = self.create(kind, wanted, key.namespace)
            self._appliers[created.body["metadata"]["uid"]] = appliers
            return created
        present = self._present(kind, key)
        self._check(kind, key, given)
        appliers = self._appliers.setdefault(present["metadata"]["uid"], appliers)
        wanted = appliers.apply(present, fields, **as_manager)
        return self._change(kind, key, wanted, subresource=subresource)

    def delete(self, kind: Kind, key: Key, preconditions: Mapping[str, str]) -> Written:
        """Delete an object; one with finalizers stays until the last of them is removed."""
        present = self._present(kind, key)
        self._check(kind, key, preconditions)
        if not present["metadata"].get("finalizers"):
            self.remove(kind, key)
            return Written(present, is_removed=True)
        wanted = deepcopy(present)
        if "deletionTimestamp" not in wanted["metadata"]:
            wanted["metadata"] |= {"deletionTimestamp": self._stamp()}
            wanted["metadata"]["deletionGracePeriodSeconds"] = 0
            wanted["metadata"]["generation"] += 1
        return Written(self._store(kind, key, present, wanted=wanted))

    def _change(self, kind: Kind, key: Key, wanted: Object, subresource: str) -> Written:
        """Store what a request wants to make of an object, under the rules of a server."""
        present = self._present(kind, key)
        self._check(kind, key, wanted.get("metadata") or {})
        if subresource == "status":
            wanted = self._only_status(present, wanted)
        elif subresource:
            raise needs_server(f"a write of the subresource {subresource!r}")
        else:
            wanted = self._without_status(present, wanted)
        if wanted["metadata"].get("deletionTimestamp") and not wanted["metadata"].get("finalizers"):
            self.remove(kind, key)
            # A server responds with the object as it was before its removal.
            return Written(wanted, is_removed=True)
        return Written(self._store(kind, key, present, wanted=wanted))

    def _check(self, kind: Kind, key: Key, preconditions: Mapping[str, Any]) -> None:
        meta = self._present(kind, key)["metadata"]
        if any(preconditions.get(name) not in (None, "", meta[name]) for name in _PRECONDITIONS):
            raise _conflict(kind, key)

    @staticmethod
    def _only_status(present: Object, wanted: Object) -> Object:
        ignored = ("resourceVersion", *_SYSTEM_FIELDS)
        before, after = (
            {name: value for name, value in each["metadata"].items() if name not in ignored}
            for each in (present, wanted)
        )
        if before != after:
            raise needs_server("a write of the status with other metadata than the object has")
        result = {name: value for name, value in present.items() if name != "status"}
        return result | ({"status": wanted["status"]} if "status" in wanted else {})

    @staticmethod
    def _without_status(present: Object, wanted: Object) -> Object:
        old, new = present["metadata"], dict(wanted.get("metadata") or {})
        if (new.get("name"), new.get("namespace")) != (old["name"], old.get("namespace")):
            text = "the name of the object does not match the name on the URL"
            raise Refused(400, "BadRequest", text)
        for name in ("resourceVersion", *_SYSTEM_FIELDS):
            new.pop(name, None)
            if name in old:
                new[name] = old[name]
        added = set(new.get("finalizers") or ()) - set(old.get("finalizers") or ())
        if added and "deletionTimestamp" in old:
            text = f"no new finalizers can be added if the object is being deleted: {added}"
            raise Refused(422, "Invalid", text)
        result = {**wanted, "metadata": new}
        result.pop("status", None)
        kept = ("apiVersion", "kind", "status")
        result |= {name: present[name] for name in kept if name in present}
        if _spec(result) != _spec(present):
            new["generation"] = old.get("generation", 0) + 1
        return result

    def _store(self, kind: Kind, key: Key, present: Object | None, wanted: Object) -> Object:
        meta = wanted["metadata"]
        for name in _OMITTED_IF_EMPTY:
            if name in meta and not meta[name]:
                del meta[name]
        if present is not None:
            meta["resourceVersion"] = present["metadata"]["resourceVersion"]
            if wanted == present:
                return deepcopy(present)
        meta["resourceVersion"] = self._next_version()
        self._objects.setdefault(kind, {})[key] = wanted
        self._on_change(kind, present, wanted)
        return deepcopy(wanted)

    def _present(self, kind: Kind, key: Key) -> Object:
        found = self.of(kind).get(key)
        if found is None:
            raise Refused(404, "NotFound", f'{kind} "{key.name}" not found')
        return found

    def _new_metadata(self) -> Object:
        number = self._version + 1
        uid = f"00000000-0000-4000-8000-{number:012d}"
        return {"uid": uid, "creationTimestamp": self._stamp(), "generation": 1}

    def _next_version(self) -> str:
        self._version += 1
        return str(self._version)

    def _stamp(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%SZ")


def _spec(body: Object) -> Object:
    """Return the part of an object whose changes are counted by its generation."""
    return {name: value for name, value in body.items() if name not in ("metadata", "status")}


def _with_kind(kind: Kind, body: Object) -> Object:
    return {**body, "apiVersion": kind.api_version, "kind": kind.name}


def _conflict(kind: Kind, key: Key) -> Refused:
    text = f'Operation cannot be fulfilled on {kind} "{key.name}": the object has been modified'
    return Refused(409, "Conflict", text)
