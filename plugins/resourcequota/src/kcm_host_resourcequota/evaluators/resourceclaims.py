"""The evaluator of resource claims."""

import sys
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec.structs import force_setattr

from kcm_host.api import Key, Kind, Undecodable, View
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
from kcm_host_resourcequota.quantity import NANO, Quantity

RESOURCE_CLAIM = Kind("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims")

#: How many devices one request for all of them is taken for: as many as a claim can get at most.
WORST_CASE = 32


class Owner(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An owner of a claim."""

    name: str = ""
    uid: str = ""
    kind: str = ""
    api_version: str = ""
    controller: bool | None = None


class Annotations(msgspec.Struct, frozen=True, gc=False):
    """Whether a claim was made for a pod's extended resources."""

    extended: str = msgspec.field(name="resource.kubernetes.io/extended-resource-claim", default="")


class Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Since when a claim exists, and whose it is."""

    annotations: Annotations | None = None
    owner_references: tuple[Owner, ...] | None = None
    creation_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class Devices(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Devices of one class."""

    device_class_name: str = ""
    allocation_mode: str = ""
    count: int = 0

    @property
    def amount(self) -> int:
        """How many there may be; a mode of the future counts as none (RQ-180)."""
        if self.allocation_mode == "All":
            return WORST_CASE
        return self.count if self.allocation_mode == "ExactCount" else 0


class Request(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One request, for devices of one class or for the first of several that can be had."""

    exactly: Devices | None = None
    first_available: tuple[Devices, ...] | None = None


class Requests(msgspec.Struct, frozen=True, gc=False):
    """All requests."""

    requests: tuple[Request, ...] | None = None


class ClaimSpec(msgspec.Struct, frozen=True, gc=False):
    """What a claim asks for."""

    devices: Requests | None = None


class DeviceCount(msgspec.Struct, frozen=True, gc=False):
    """How many devices of one class a claim may take."""

    device_class: str
    count: int


class ResourceClaim(msgspec.Struct, frozen=True, gc=False):
    """
    A claim, reduced when it is decoded; `metadata` and `spec` are None from then on.

    Neither allocation nor reservation nor deletion is of interest (RQ-182).
    """

    metadata: Metadata | None = None
    spec: ClaimSpec | None = None
    # The server never sends what follows: it is computed from what it sends.
    #: Sorted by class, each class once.
    devices: tuple[DeviceCount, ...] = ()
    #: The pod whose extended resources the claim says it provides (RQ-190, 1 and 2).
    owner: Owner | None = None
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


def _requests(spec: ClaimSpec | None) -> Iterable[Request]:
    devices = spec.devices if spec is not None else None
    return (devices.requests if devices is not None else None) or ()


def _owner_pod(metadata: Metadata) -> Owner | None:
    """Give the pod that controls the claim, if the claim says to be one for its resources."""
    if metadata.annotations is None or metadata.annotations.extended != "true":
        return None
    owner = next((each for each in metadata.owner_references or () if each.controller), None)
    if owner is None or (owner.kind, owner.api_version) != ("Pod", "v1"):
        return None
    return owner


def _devices(requests: Iterable[Request]) -> tuple[DeviceCount, ...]:
    """Give the devices per class over all requests, the worst case of each (RQ-179)."""
    counts: dict[str, int] = {}
    for request in requests:
        for name, count in _worst_case(request).items():
            counts[name] = counts.get(name, 0) + count
    return tuple(DeviceCount(sys.intern(name), count) for name, count in sorted(counts.items()))


def _worst_case(request: Request) -> dict[str, int]:
    """Give what one request can take of each class; a form of the future takes nothing."""
    if request.first_available:
        most: dict[str, int] = {}
        for each in request.first_available:
            if each.amount > most.get(each.device_class_name, 0):
                most[each.device_class_name] = each.amount
        return most
    if request.exactly is not None:
        return {request.exactly.device_class_name: request.exactly.amount}
    return {}


#: A part that has grown to this size is split, so that no insertion moves more than that.
PART = 512

#: When a claim was created, in Unix seconds, and its name.
Entry = tuple[float, str]


class Ordered:
    """The claims of one pod in order; what a change costs hardly depends on how many they are."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        #: Sorted lists, none of them empty, each before the next.
        self._parts: list[list[Entry]] = []

    @property
    def first(self) -> Entry:
        """The oldest; of several as old the lowest name."""
        return self._parts[0][0]

    def add(self, entry: Entry) -> None:
        """Put one more in its place."""
        if not self._parts:
            self._parts.append([])
        place = self._place(entry)
        part = self._parts[place]
        insort(part, entry)
        if len(part) >= PART:
            self._parts[place : place + 1] = [part[: PART // 2], part[PART // 2 :]]

    def remove(self, entry: Entry) -> None:
        """Take one out that was added."""
        place = self._place(entry)
        part = self._parts[place]
        del part[bisect_left(part, entry)]
        if not part:
            del self._parts[place]

    def __bool__(self) -> bool:
        return bool(self._parts)

    def _place(self, entry: Entry) -> int:
        if len(self._parts) < 2:
            return 0
        return max(bisect_right(self._parts, entry, key=_first) - 1, 0)


class OldestClaims:
    """
    The oldest of the claims that say to belong to each pod, kept up by each claim's change.

    It is the one whose devices its pod is charged for, unless the pod names another (RQ-193).
    """

    def __init__(self) -> None:
        #: Namespace and uid of a pod -> its claims.
        self._of_pod: dict[tuple[str, str], Ordered] = {}
        #: Where each claim is.
        self._places: dict[Key, tuple[tuple[str, str], Entry]] = {}

    def put(self, key: Key, claim: ResourceClaim | None) -> set[Key]:
        """
        Take how a claim is now, None when it has gone.

        Returns the claims that have become the oldest of their pods by this, or are it no more.
        """
        owner = claim.owner if claim is not None else None
        place = None
        if claim is not None and owner is not None:
            place = ((key.namespace, owner.uid), (claim.created, key.name))
        before = self._places.get(key)
        if place == before:
            return set()
        pods = {each[0] for each in (before, place) if each is not None}
        firsts = {self.of(*pod) for pod in pods}
        if before is not None:
            self._remove(key, *before)
        if place is not None:
            self._places[key] = place
            self._of_pod.setdefault(place[0], Ordered()).add(place[1])
        changed = firsts ^ {self.of(*pod) for pod in pods}
        return {each for each in changed if each is not None}

    def of(self, namespace: str, pod_uid: str) -> Key | None:
        """Return the oldest claim of a pod, None if it has none."""
        claims = self._of_pod.get((namespace, pod_uid))
        return Key(claims.first[1], namespace) if claims is not None else None

    def __contains__(self, key: Key) -> bool:
        return key in self._places

    def clear(self) -> None:
        """Forget all claims."""
        self._of_pod.clear()
        self._places.clear()

    def _remove(self, key: Key, pod: tuple[str, str], entry: Entry) -> None:
        del self._places[key]
        claims = self._of_pod[pod]
        claims.remove(entry)
        if not claims:
            del self._of_pod[pod]


def _first(part: list[Entry]) -> Entry:
    return part[0]


BY_CLASS = "class"

_COUNT = "count/resourceclaims.resource.k8s.io"
_CLASS_SUFFIX = ".deviceclass.resource.k8s.io/devices"


def by_class(_key: Key, claim: ResourceClaim) -> Iterable[str]:
    """Index claims by the device classes they mention."""
    return [each.device_class for each in claim.devices]


#: What a watch of resource claims needs, for `claims_of_class`.
INDEXES: Mapping[str, Callable[[Key, ResourceClaim], Iterable[str]]] = {BY_CLASS: by_class}


def claims_of_class(view: View, device_class: str) -> list[Key]:
    """Give the claims, of all namespaces, that mention a device class (RQ-B20)."""
    claims = view.of(RESOURCE_CLAIM, ResourceClaim)
    return [key for key, _ in claims.by_index(BY_CLASS, device_class)]


class ClaimEvaluator(Evaluator):
    """Knows what resource claims use (section 11)."""

    resource = "resourceclaims.resource.k8s.io"
    kind = RESOURCE_CLAIM
    model = ResourceClaim

    def __init__(self, device_classes: DeviceClasses, oldest: OldestClaims) -> None:
        self._device_classes = device_classes
        self._oldest = oldest

    def charged_by(self, pod: Key, states: Iterable[Pod | None]) -> set[Key]:
        """Give the claims whose devices a pod is charged for in these states (RQ-B20)."""
        found = {
            self._oldest.of(pod.namespace, each.uid)
            if each.extended_claim is None
            else Key(each.extended_claim, pod.namespace)
            for each in states
            if each is not None
        }
        return {key for key in found if key is not None and key in self._oldest}

    def serves(self, name: str) -> bool:
        """
        See `Evaluator.serves`.

        Names of extended resources are served while some device class declares them, so the
        answer changes with the device classes (RQ-170 to RQ-174).
        """
        if name == _COUNT or name.endswith(_CLASS_SUFFIX):
            return True
        extended = is_extended_request(name)
        return extended and self._device_classes.declares(name.removeprefix(REQUESTS_PREFIX))

    def contribution(self, key: Key, obj: ResourceClaim, view: View, now: float) -> Contribution:
        """See `Evaluator.contribution` (RQ-178 to RQ-185)."""
        amounts = {_COUNT: NANO}
        for each in obj.devices:
            amounts[each.device_class + _CLASS_SUFFIX] = each.count * NANO
        charged = self._charged_to_pod(key, obj, view, now)
        for name, nano in self._extended(obj.devices).items():
            rest = nano - charged.get(name, 0)
            if rest > 0:
                amounts[name] = amounts.get(name, 0) + rest
        return contribution_of(usage_of({name: Quantity(nano) for name, nano in amounts.items()}))

    def _extended(self, devices: Iterable[DeviceCount]) -> Mapping[str, int]:
        """
        Give the nano amounts under extended names, before a pod's share is taken off (RQ-183).

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
                    amounts[name] = amounts.get(name, 0) + each.count * NANO
        return amounts

    def _charged_to_pod(
        self, key: Key, claim: ResourceClaim, view: View, now: float
    ) -> Mapping[str, int]:
        """Give what the claim's verified pod is charged at `now`, in nano (RQ-184, RQ-191)."""
        if claim.owner is None:
            return {}
        pod = _owner_of(claim.owner, key.namespace, view)
        # Beyond doubt (RQ-190, RQ-193).
        if pod is None or key not in self.charged_by(Key(claim.owner.name, key.namespace), [pod]):
            return {}
        return {name: nano for name, nano, _ in pod.contribution(now).usage}


def _owner_of(owner: Owner, namespace: str, view: View) -> Pod | None:
    """Give the pod that a claim says to belong to, if there is that very one."""
    try:
        pod = view.of(POD, Pod).get(owner.name, namespace)
    except Undecodable:
        return None
    return pod if pod is not None and pod.uid == owner.uid else None
