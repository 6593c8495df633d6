"""The resourceclaim controller in the harness, with objects, keys and requests in few words."""

from typing import Any

import msgspec
from plugins.resourceclaim.objects import Manifest

from kcm_host.api import ApiError, Conflict, Key
from kcm_host_resourceclaim import ResourceClaims
from kcm_host_resourceclaim.api_version import api_for_version
from kcm_host_resourceclaim.models.claim import Claim
from kcm_host_resourceclaim.models.pod import POD, POD_GROUPS
from kcm_host_resourceclaim.settings import ClaimSettings
from kcm_host_testing.harness import ControllerHarness

#: Both PodGroup switches.
GROUPS: dict[str, Any] = {"genericWorkload": True, "workloadClaims": True}


class ClaimCluster(ControllerHarness):
    """
    The controller with these settings between these objects; `at_start`: what it has queued.

    `claims` and `groups` are the served versions of ResourceClaims and PodGroups.
    """

    def __init__(
        self,
        *objects: Manifest,
        claims: str = "v1",
        groups: str = "v1beta1",
        **settings: Any,
    ) -> None:
        self.controller = ResourceClaims(ClaimSettings.model_validate(settings))
        api = api_for_version(claims, ClaimSettings(), None)
        kinds = [POD, *(each for each in POD_GROUPS if each.version == groups)]
        kinds += [api.claims, api.templates] if claims else []
        super().__init__(self.controller, served=kinds)
        self.kinds = {kind.resource: kind for kind in kinds}
        for each in objects:
            self.place(each)
        self.start()
        self.at_start = self.queued()

    def place(self, manifest: Manifest) -> list[str]:
        """Put an object and return the keys that this queues."""
        self.enqueued.clear()
        body = {name: value for name, value in manifest.items() if name != "resource"}
        self.put(self.kinds[manifest["resource"]], body)
        return self.queued()

    def remove(self, resource: str, name: str) -> list[str]:
        """Delete an object and return the keys that this queues."""
        self.enqueued.clear()
        self.delete(self.kinds[resource], f"ns/{name}")
        return self.queued()

    def add_created(self, manifest: Manifest) -> None:
        """Add a claim to those that the controller has created, newer than any in the cache."""
        created = msgspec.convert(manifest, Claim)
        key = Key(manifest["metadata"]["name"], "ns")
        self.controller._state.created.add(key, created, "99999")

    def queued(self) -> list[str]:
        """Return the keys that were queued since the last call."""
        keys = sorted({str(key) for key in self.enqueued})
        self.enqueued.clear()
        return keys

    def sent_by(self, kind: str, name: str) -> list[str]:
        """Sync one key and return what was sent, as `create resourceclaims`."""
        before = len(self.writes)
        self.sync(Key(name, "ns", kind))
        return self.sent(before)

    def sent_until_idle(self) -> list[str]:
        """Sync all queued keys and return what was sent."""
        before = len(self.writes)
        self.run_until_idle()
        return self.sent(before)

    def sent(self, since: int = 0) -> list[str]:
        """Return what was sent."""
        parts = ((each, f"/{each.subresource}".rstrip("/")) for each in self.writes[since:])
        return [f"{each.verb} {each.kind.resource}{part}" for each, part in parts]

    def asked_for(self) -> list[str]:
        """Return the objects that were read from the server."""
        return [f"{each.kind.resource}/{each.key.name}" for each in self.reads]

    def messages(self) -> list[str]:
        """Return the Events as `Pod p: message`."""
        return [f"{each.kind.name} {each.key.name}: {each.message}" for each in self.events]

    def stored(self, resource: str, name: str) -> Manifest:
        """Return an object."""
        return self.get(self.kinds[resource], f"ns/{name}")

    def names(self, resource: str = "resourceclaims") -> list[str]:
        """Return the names of all objects of a kind."""
        return [key.rpartition("/")[2] for key in self.objects(self.kinds[resource])]

    def recorded(self, name: str = "p", of: str = "pods") -> dict[str, str]:
        """Return the claims that are recorded for a pod or PodGroup: entry -> claim."""
        records = self.stored(of, name)["status"].get("resourceClaimStatuses", [])
        return {each["name"]: each["resourceClaimName"] for each in records}

    def consumers(self, name: str = "c") -> list[Manifest]:
        """Return the consumers of a claim."""
        found: list[Manifest] = self.stored("resourceclaims", name)["status"].get("reservedFor", [])
        return found

    def series(self, name: str) -> dict[tuple[str, ...], float]:
        """Return the series of a metric: values of the labels -> value."""
        (found,) = [one for one in self.metrics() if name in one.name]
        return {tuple(labels.values()): value for labels, value in found.series}


def refused(status: int, reason: str, message: str = "no") -> ApiError:
    """Return an error response as the host words it."""
    text = f"POST resourceclaims in 'ns': {status} {reason}: {message}"
    kind = Conflict if status == 409 else ApiError
    return kind(text, status=status, reason=reason, server_message=message)
