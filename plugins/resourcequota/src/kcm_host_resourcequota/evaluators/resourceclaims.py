"""The evaluator of resource claims."""

import sys
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec.structs import force_setattr

from kcm_host.api import Key, Kind, Quantity, Undecodable, View
from kcm_host_resourcequota.evaluators.base import (
    Contribution,
    Evaluator,
    contribution_of,
    usage_of,
)
from kcm_host_resourcequota.evaluators.extended_resources import (
    IMPLICIT_PREFIX,
    REQUESTS_PREFIX,
    DeviceClasses,
    is_extended_request,
)
from kcm_host_resourcequota.evaluators.pods import POD, Pod

RESOURCE_CLAIM = Kind(
    group="resource.k8s.io", version="v1", name="ResourceClaim", resource="resourceclaims"
)

#: The number that a request for all devices counts as: the most that a claim can get.
MAX_DEVICES_PER_REQUEST = 32

DEVICE_CLASS_INDEX = "class"

_COUNT = "count/resourceclaims.resource.k8s.io"
_CLASS_SUFFIX = ".deviceclass.resource.k8s.io/devices"


class OwnerReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One owner reference of a claim."""

    name: str = ""
    uid: str = ""
    kind: str = ""
    api_version: str = ""
    controller: bool | None = None


class Annotations(msgspec.Struct, frozen=True, gc=False):
    """The annotation of claims that are created for the extended resources of a pod."""

    extended: str = msgspec.field(name="resource.kubernetes.io/extended-resource-claim", default="")


class Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Creation time and owners of a claim."""

    annotations: Annotations | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    creation_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class ExactDeviceRequest(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A request for devices of one class."""

    device_class_name: str = ""
    allocation_mode: str = ""
    count: int = 0

    @property
    def amount(self) -> int:
        """Return the largest possible number of devices; 0 for an unknown mode (RQ-180)."""
        if self.allocation_mode == "All":
            return MAX_DEVICES_PER_REQUEST
        return self.count if self.allocation_mode == "ExactCount" else 0


class DeviceRequest(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A request for devices of one class, or for the first available of several."""

    exactly: ExactDeviceRequest | None = None
    first_available: tuple[ExactDeviceRequest, ...] | None = None


class DeviceClaim(msgspec.Struct, frozen=True, gc=False):
    """All requests of a claim."""

    requests: tuple[DeviceRequest, ...] | None = None


class ClaimSpec(msgspec.Struct, frozen=True, gc=False):
    """The spec of a claim."""

    devices: DeviceClaim | None = None


class DeviceCount(msgspec.Struct, frozen=True, gc=False):
    """The largest possible number of devices of one class."""

    device_class: str
    count: int


class ResourceClaim(msgspec.Struct, frozen=True, gc=False):
    """
    A claim, reduced when it is decoded; `metadata` and `spec` are None afterwards.

    Usage does not depend on allocation, reservation or deletion (RQ-182).
    """

    metadata: Metadata | None = None
    spec: ClaimSpec | None = None
    # The fields from here on are computed; the server never sends them.
    #: Sorted by class, each class once.
    devices: tuple[DeviceCount, ...] = ()
    #: The pod for whose extended resources the claim was created (RQ-190, 1 and 2).
    owner: OwnerReference | None = None
    #: Unix seconds.
    created: float = 0.0

    def __post_init__(self) -> None:
        metadata = self.metadata or Metadata()
        created = metadata.creation_timestamp
        force_setattr(self, "devices", _devices(_requests(self.spec)))
        force_setattr(self, "owner", _owner_pod(metadata))
        force_setattr(self, "created", created.timestamp() if created is not None else 0.0)
        force_setattr(self, "metadata", None)
        force_setattr(self, "spec", None)


def _requests(spec: ClaimSpec | None) -> Iterable[DeviceRequest]:
    devices = spec.devices if spec is not None else None
    return (devices.requests if devices is not None else None) or ()


def _owner_pod(metadata: Metadata) -> OwnerReference | None:
    """Return the pod that controls a claim for extended resources, None for other claims."""
    if metadata.annotations is None or metadata.annotations.extended != "true":
        return None
    owner = next((each for each in metadata.owner_references or () if each.controller), None)
    if owner is None or (owner.kind, owner.api_version) != ("Pod", "v1"):
        return None
    return owner


def _devices(requests: Iterable[DeviceRequest]) -> tuple[DeviceCount, ...]:
    """Return the largest possible number of devices by class over all requests (RQ-179)."""
    counts: dict[str, int] = {}
    for request in requests:
        for name, count in _max_devices(request).items():
            counts[name] = counts.get(name, 0) + count
    return tuple(DeviceCount(sys.intern(name), count) for name, count in sorted(counts.items()))


def _max_devices(request: DeviceRequest) -> dict[str, int]:
    """Return the largest possible numbers of one request by class; none for an unknown form."""
    if request.first_available:
        counts: dict[str, int] = {}
        for each in request.first_available:
            if each.amount > counts.get(each.device_class_name, 0):
                counts[each.device_class_name] = each.amount
        return counts
    if request.exactly is not None:
        return {request.exactly.device_class_name: request.exactly.amount}
    return {}


#: A chunk of this size is split, so that no insertion moves more entries.
CHUNK_SIZE = 512

#: Creation time of a claim in Unix seconds, and its name.
Entry = tuple[float, str]


class SortedClaims:
    """The claims of one pod, sorted; the cost of a change hardly depends on their number."""

    __slots__ = ("_chunks",)

    def __init__(self) -> None:
        #: Sorted lists, none of them empty, in order.
        self._chunks: list[list[Entry]] = []

    @property
    def first(self) -> Entry:
        """Return the oldest claim; of equally old ones the one with the lowest name."""
        return self._chunks[0][0]

    def add(self, entry: Entry) -> None:
        """Add an entry."""
        if not self._chunks:
            self._chunks.append([])
        index = self._chunk_index(entry)
        chunk = self._chunks[index]
        insort(chunk, entry)
        if len(chunk) >= CHUNK_SIZE:
            self._chunks[index : index + 1] = [chunk[: CHUNK_SIZE // 2], chunk[CHUNK_SIZE // 2 :]]

    def remove(self, entry: Entry) -> None:
        """Remove an entry that was added."""
        index = self._chunk_index(entry)
        chunk = self._chunks[index]
        del chunk[bisect_left(chunk, entry)]
        if not chunk:
            del self._chunks[index]

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def _chunk_index(self, entry: Entry) -> int:
        if len(self._chunks) < 2:
            return 0
        return max(bisect_right(self._chunks, entry, key=_first) - 1, 0)


class OldestClaims:
    """
    The oldest claim of each pod, updated by every change of a claim.

    The pod is charged for the devices of this claim, unless its status names another (RQ-193).
    """

    def __init__(self) -> None:
        #: Namespace and uid of a pod -> its claims.
        self._by_pod: dict[tuple[str, str], SortedClaims] = {}
        #: Claim -> its pod, and its entry there.
        self._entries: dict[Key, tuple[tuple[str, str], Entry]] = {}

    def put(self, key: Key, claim: ResourceClaim | None) -> set[Key]:
        """
        Set the present version of a claim, None once it is deleted.

        Return the claims that became the oldest of their pods, or no longer are.
        """
        owner = claim.owner if claim is not None else None
        after = None
        if claim is not None and owner is not None:
            after = ((key.namespace, owner.uid), (claim.created, key.name))
        before = self._entries.get(key)
        if after == before:
            return set()
        pods = {each[0] for each in (before, after) if each is not None}
        old = {self.of_pod(*pod) for pod in pods}
        if before is not None:
            self._remove(key, *before)
        if after is not None:
            self._entries[key] = after
            self._by_pod.setdefault(after[0], SortedClaims()).add(after[1])
        changed = old ^ {self.of_pod(*pod) for pod in pods}
        return {each for each in changed if each is not None}

    def of_pod(self, namespace: str, pod_uid: str) -> Key | None:
        """Return the oldest claim of a pod, None if it has none."""
        claims = self._by_pod.get((namespace, pod_uid))
        return Key(claims.first[1], namespace) if claims is not None else None

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        """Remove all claims."""
        self._by_pod.clear()
        self._entries.clear()

    def _remove(self, key: Key, pod: tuple[str, str], entry: Entry) -> None:
        del self._entries[key]
        claims = self._by_pod[pod]
        claims.remove(entry)
        if not claims:
            del self._by_pod[pod]


def _first(chunk: list[Entry]) -> Entry:
    return chunk[0]


def by_class(_key: Key, claim: ResourceClaim) -> Iterable[str]:
    """Return the device classes of a claim, by which claims are indexed."""
    return [each.device_class for each in claim.devices]


#: The indexes that the watch of resource claims needs, for `claims_of_class`.
INDEXES: Mapping[str, Callable[[Key, ResourceClaim], Iterable[str]]] = {
    DEVICE_CLASS_INDEX: by_class
}


def claims_of_class(view: View, device_class: str) -> list[Key]:
    """Return the claims of all namespaces that request a device class (RQ-B20)."""
    claims = view.of(RESOURCE_CLAIM, ResourceClaim)
    return [key for key, _ in claims.by_index(DEVICE_CLASS_INDEX, device_class)]


class ResourceClaimEvaluator(Evaluator):
    """Computes the usage of resource claims (section 11)."""

    resource = "resourceclaims.resource.k8s.io"
    kind = RESOURCE_CLAIM
    model = ResourceClaim

    def __init__(self, device_classes: DeviceClasses, oldest: OldestClaims) -> None:
        self._device_classes = device_classes
        self._oldest = oldest

    def claims_charged_to(self, namespace: str, versions: Iterable[Pod | None]) -> set[Key]:
        """Return the claims whose devices are charged to some versions of a pod (RQ-B20)."""
        # Most clusters have no claims, and all have pods.
        if not self._oldest:
            return set()
        found = {
            self._oldest.of_pod(namespace, each.uid)
            if each.extended_claim is None
            else Key(each.extended_claim, namespace)
            for each in versions
            if each is not None
        }
        return {key for key in found if key is not None and key in self._oldest}

    def handles(self, name: str) -> bool:
        """
        See `Evaluator.handles`.

        Claims handle names of extended resources that a device class declares, so the result
        changes with the device classes (RQ-170 to RQ-174).
        """
        if name == _COUNT or name.endswith(_CLASS_SUFFIX):
            return True
        extended = is_extended_request(name)
        return extended and self._device_classes.declares(name.removeprefix(REQUESTS_PREFIX))

    def contribution(self, key: Key, obj: ResourceClaim, view: View, now: float) -> Contribution:
        """See `Evaluator.contribution` (RQ-178 to RQ-185)."""
        amounts = {_COUNT: Quantity.NANO}
        for each in obj.devices:
            amounts[each.device_class + _CLASS_SUFFIX] = each.count * Quantity.NANO
        charged = self._charged_to_pod(key, obj, view, now=now)
        for name, nano in self._extended(obj.devices).items():
            uncharged = nano - charged.get(name, 0)
            if uncharged > 0:
                amounts[name] = amounts.get(name, 0) + uncharged
        return contribution_of(usage_of({name: Quantity(nano) for name, nano in amounts.items()}))

    def _extended(self, devices: Iterable[DeviceCount]) -> Mapping[str, int]:
        """
        Return the nano amounts of extended resources, those of a pod included (RQ-183).

        Classes that declare the same extended resource are added up (D-10).
        """
        amounts: dict[str, int] = {}
        for each in devices:
            if not each.device_class:
                continue
            explicit = self._device_classes.explicit_name(each.device_class)
            for extended in (IMPLICIT_PREFIX + each.device_class, explicit):
                if extended:
                    name = REQUESTS_PREFIX + extended
                    amounts[name] = amounts.get(name, 0) + each.count * Quantity.NANO
        return amounts

    def _charged_to_pod(
        self, key: Key, claim: ResourceClaim, view: View, now: float
    ) -> Mapping[str, int]:
        """Return what the pod of a claim is charged for at `now`, in nano (RQ-184, RQ-191)."""
        if claim.owner is None:
            return {}
        pod = _owner_of(claim.owner, key.namespace, view)
        if pod is None:
            return {}
        # The pod has to confirm the claim (RQ-190, RQ-193).
        if key not in self.claims_charged_to(key.namespace, [pod]):
            return {}
        return {name: nano for name, nano, _ in pod.contribution(now).usage}


def _owner_of(owner: OwnerReference, namespace: str, view: View) -> Pod | None:
    """Return the pod of an owner reference, None if there is none with its uid."""
    try:
        pod = view.of(POD, Pod).get(owner.name, namespace)
    except Undecodable:
        return None
    return pod if pod is not None and pod.uid == owner.uid else None
