"""What is read of a resource claim, reduced to the devices it may take."""

import sys
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec.structs import force_setattr

from kcm_host.api import Kind

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
