"""The servicecidrs controller in the harness, with its objects and writes in few words."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from kcm_host.api import Kind
from kcm_host_servicecidrs import ServiceCidrs
from kcm_host_servicecidrs.models import FINALIZER, IP_ADDRESS, SERVICE_CIDR
from kcm_host_testing.harness import START_TIME, ControllerHarness, RecordedWrite

#: The controller's clock is so far after the whole second at which the harness begins.
FRACTION = timedelta(microseconds=678_900)
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
        at = START_TIME - timedelta(seconds=deleted)
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


class Cluster(ControllerHarness):
    """The controller between these objects; `at_start`: the keys that it has queued first."""

    def __init__(
        self,
        cidrs: Mapping[str, Manifest] | None = None,
        addresses: Mapping[str, Manifest] | None = None,
    ) -> None:
        super().__init__(lambda harness: ServiceCidrs(lambda: harness.now + FRACTION))
        for kind, objects in ((SERVICE_CIDR, cidrs), (IP_ADDRESS, addresses)):
            for name, body in (objects or {}).items():
                self._place(kind, name, body)
        self.start()
        self.at_start = self.queued()

    def put_cidr(self, name: str, body: Manifest) -> list[str]:
        """Put a ServiceCIDR and return the keys that this queues."""
        return self._place(SERVICE_CIDR, name, body)

    def put_address(self, name: str, body: Manifest) -> list[str]:
        """Put an IPAddress and return the keys that this queues."""
        return self._place(IP_ADDRESS, name, body)

    def drop(self, name: str, kind: Kind = IP_ADDRESS) -> list[str]:
        """Delete an object and its finalizers; return the keys that its end queues."""
        if self.get(kind, name)["metadata"].get("finalizers"):
            self.delete(kind, name)
            self.enqueued.clear()
            self.patch(kind, name, {"metadata": {"finalizers": None}})
        else:
            self.enqueued.clear()
            self.delete(kind, name)
        return self.queued()

    def queued(self) -> list[str]:
        """Return the names of the keys that were queued since the last call."""
        names = sorted(key.name for key in self.enqueued)
        self.enqueued.clear()
        return names

    def written(self) -> list[tuple[str, str]]:
        """Return the name and the sort of each write since the last call."""
        found = [(each.key.name, sort_of(each)) for each in self.writes]
        self.writes.clear()
        return found

    def _place(self, kind: Kind, name: str, body: Manifest) -> list[str]:
        self.enqueued.clear()
        self.put(kind, {**body, "metadata": {**body.get("metadata", {}), "name": name}})
        return self.queued()


def sort_of(write: RecordedWrite) -> str:
    """Name a write; an error when it is none that this controller makes."""
    assert write.kind == SERVICE_CIDR
    if write.verb == "patch":
        assert (write.subresource, write.body in (ADD, REMOVE)) == ("", True)
        return FIN_PLUS if write.body == ADD else FIN_MINUS
    where = (write.verb, write.subresource, write.field_manager)
    assert where == ("apply", "status", "service-cidr-controller")
    (condition,) = write.body["status"]["conditions"]
    assert condition.pop("lastTransitionTime")
    assert condition in (IS_READY, IS_TERMINATING)
    return STATUS_T if condition == IS_READY else STATUS_F
