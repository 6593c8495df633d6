"""
The fields read of ResourceClaims and ResourceClaimTemplates; writes keep all others.

Also whom a claim belongs to, and the values under which claims are indexed.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from kcm_host.api import Key
from kcm_host_resourceclaim.models.pod import SCHEDULING_GROUP, Pod, PodGroup

FINALIZER = "resource.kubernetes.io/delete-protection"
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
EXTENDED_RESOURCE = "resource.kubernetes.io/extended-resource-claim"
#: The server refuses more.
MAX_CONSUMERS = 256


class ExactDeviceRequest(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A request without alternatives, as v1 and v1beta2 write it."""

    admin_access: bool | None = None


class DeviceSubRequest(msgspec.Struct, frozen=True, gc=False):
    """One alternative of a prioritized list; none of its fields is read."""


class DeviceRequest(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One request for devices."""

    exactly: ExactDeviceRequest | None = None
    #: The place of the field in v1beta1; the other versions never write it here (RC-41).
    admin_access: bool | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceClaim(msgspec.Struct, frozen=True, gc=False):
    """All requests of one claim."""

    requests: tuple[DeviceRequest, ...] = ()


class ClaimSpec(msgspec.Struct, frozen=True, gc=False):
    """The spec of a claim, also inside a template."""

    devices: DeviceClaim = DeviceClaim()

    @property
    def has_admin_access(self) -> bool:
        """True when a request asks for admin access; alternatives cannot ask for it (RC-41)."""
        return any(
            request.admin_access or (request.exactly and request.exactly.admin_access)
            for request in self.devices.requests
        )

    @property
    def has_prioritized_list(self) -> bool:
        """True when a request has alternatives."""
        return any(request.first_available for request in self.devices.requests)


class TemplateMetadata(msgspec.Struct, frozen=True, gc=False):
    """The labels and annotations of claims made from a template."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class TemplateSpec(msgspec.Struct, frozen=True):
    """
    The metadata and spec of claims made from a template.

    The spec is passed on as the server wrote it (RC-87): parameters of drivers may be nested
    deeper than an encoder allows, and their numbers must keep their text.
    """

    metadata: TemplateMetadata = TemplateMetadata()
    spec: msgspec.Raw = msgspec.Raw(b"{}")

    def __post_init__(self) -> None:
        # A copy: the decoded value would keep the whole page of the list in memory.
        force_setattr(self, "spec", self.spec.copy())


class Template(msgspec.Struct, frozen=True):
    """A ResourceClaimTemplate; its own metadata is not used (RC-44)."""

    spec: TemplateSpec = TemplateSpec()

    def claim_spec(self) -> ClaimSpec:
        """Return the fields read of the claims' spec; raises `msgspec.ValidationError`."""
        return _decode_claim_spec(self.spec.spec)


class OwnerReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One owner reference."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None

    @property
    def is_controlling_pod(self) -> bool:
        """True when the owner is a pod, and the claim was made for it."""
        return bool(self.controller) and self.api_version == "v1" and self.kind == "Pod"

    @property
    def is_pod_group(self) -> bool:
        """True when the owner is a PodGroup, in any version."""
        return self.kind == "PodGroup" and self.api_version.startswith(f"{SCHEDULING_GROUP}/")


class Annotations(msgspec.Struct, frozen=True, gc=False):
    """The annotations that name the reason why a claim exists."""

    pod_claim_name: str = msgspec.field(name=POD_CLAIM_NAME, default="")
    extended_resource: str = msgspec.field(name=EXTENDED_RESOURCE, default="")


class ClaimMetadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The metadata of a claim."""

    uid: str = ""
    deletion_timestamp: str | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    annotations: Annotations = Annotations()


class Consumer(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One entry of `status.reservedFor`."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""

    @property
    def is_pod(self) -> bool:
        """True for a pod; `pods` of another API group are another kind (RC-57)."""
        return not self.api_group and self.resource == "pods"

    @property
    def is_pod_group(self) -> bool:
        """True for a PodGroup."""
        return self.api_group == SCHEDULING_GROUP and self.resource == "podgroups"


class Allocation(msgspec.Struct, frozen=True, gc=False):
    """The allocation of a claim; none of its fields is read."""


class ClaimStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The allocation and the consumers of a claim."""

    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A ResourceClaim."""

    metadata: ClaimMetadata = ClaimMetadata()
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def uid(self) -> str:
        """The UID."""
        return self.metadata.uid

    @property
    def deleting(self) -> bool:
        """True when the deletion of the claim was requested."""
        return self.metadata.deletion_timestamp is not None

    @property
    def has_finalizer(self) -> bool:
        """True when the claim has the finalizer that the scheduler adds."""
        return FINALIZER in self.metadata.finalizers

    @property
    def allocated(self) -> bool:
        """True when devices are allocated."""
        return self.status.allocation is not None

    @property
    def consumers(self) -> tuple[Consumer, ...]:
        """The pods and other objects that the claim is reserved for."""
        return self.status.reserved_for

    @property
    def accepts_consumers(self) -> bool:
        """True when the server would accept one more consumer (D-9)."""
        return self.allocated and not self.deleting and len(self.consumers) < MAX_CONSUMERS

    @property
    def pod_claim_name(self) -> str:
        """The entry of a pod or PodGroup that the claim was made for; empty for none."""
        return self.metadata.annotations.pod_claim_name

    @property
    def controller(self) -> OwnerReference | None:
        """The controlling owner."""
        owners = self.metadata.owner_references
        return next((owner for owner in owners if owner.controller), None)

    @property
    def owning_pod(self) -> OwnerReference | None:
        """The pod that the claim was made for; None when it was made for none (1.4)."""
        owners = self.metadata.owner_references
        return next((owner for owner in owners if owner.is_controlling_pod), None)


def with_decoded_status(full: dict[str, Any]) -> dict[str, Any]:
    """Return a full claim whose status is a dict of raw fields, with its consumers as a list."""
    status: dict[str, Any] = dict(_decode_status(full.get("status", b"{}")))
    if "reservedFor" in status:
        status["reservedFor"] = _decode_consumers(status["reservedFor"])
    return {**full, "status": status}


def is_for_pod(claim: Claim, pod: Pod, *, workload_claims: bool) -> bool:
    """
    Return whether a claim of the pod's namespace was made for the pod, or for its PodGroup.

    The UID of the PodGroup is not compared, because the pod does not contain it.
    """
    controller = claim.controller
    if controller is None:
        return False
    if controller.uid == pod.uid:
        return True
    return workload_claims and controller.is_pod_group and controller.name == pod.pod_group_name


def is_for_group(claim: Claim, group: PodGroup) -> bool:
    """Return whether a claim of the PodGroup's namespace was made for it."""
    return claim.controller is not None and claim.controller.uid == group.uid


def owner_value(namespace: str, uid: str) -> str:
    """Return the index value of the claims of one owner."""
    return f"{namespace}/{uid}"


def owner_values(key: Key, claim: Claim) -> Iterable[str]:
    """
    Return the index values of a claim by owner: its controlling pods, and its PodGroup.

    One index for both kinds (RC-10, RC-14): no two objects have one UID.
    """
    values = {
        owner_value(key.namespace, owner.uid)
        for owner in claim.metadata.owner_references
        if owner.is_controlling_pod
    }
    controller = claim.controller
    if controller is not None and controller.is_pod_group:
        values.add(owner_value(key.namespace, controller.uid))
    return values


def pod_reference(key: Key) -> str:
    """Return the index value of the claims with a consumer or owning pod of this name."""
    return f"pods/{key}"


def group_reference(key: Key) -> str:
    """Return the index value of the claims with a consuming PodGroup of this name."""
    return f"podgroups/{key}"


def reference_values(key: Key, claim: Claim) -> Iterable[str]:
    """
    Return the index values of a claim by reference: its consumers and its owning pod.

    By name, not by UID: whether a consumer was deleted or replaced follows from the object that has
    its name now (RC-57, RC-62). Whether a pod names the claim in its spec does not matter.
    """
    values = set()
    for consumer in claim.consumers:
        if consumer.is_pod:
            values.add(pod_reference(Key(consumer.name, key.namespace)))
        elif consumer.is_pod_group:
            values.add(group_reference(Key(consumer.name, key.namespace)))
    owner = claim.owning_pod
    if owner is not None:
        values.add(pod_reference(Key(owner.name, key.namespace)))
    return values


_decode_claim_spec = msgspec.json.Decoder(ClaimSpec).decode
_decode_status = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_consumers = msgspec.json.Decoder(list[msgspec.Raw]).decode
