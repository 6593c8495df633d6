"""The fields read of ResourceClaims and ResourceClaimTemplates."""

from typing import Any

import msgspec
from msgspec.structs import force_setattr

from kcm_host_resourceclaim.models.pod import GROUP


class Exactly(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A request without alternatives, as v1 and v1beta2 write it."""

    admin_access: bool | None = None


class Alternative(msgspec.Struct, frozen=True, gc=False):
    """One of several alternatives; only that it is there counts."""


class Request(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One request for devices."""

    exactly: Exactly | None = None
    #: Where v1beta1 has it; the other versions never write it here (RC-41).
    admin_access: bool | None = None
    first_available: tuple[Alternative, ...] = ()


class Devices(msgspec.Struct, frozen=True, gc=False):
    """All requests of one claim."""

    requests: tuple[Request, ...] = ()


class ClaimSpec(msgspec.Struct, frozen=True, gc=False):
    """The spec of a claim, also inside a template."""

    devices: Devices = Devices()

    @property
    def asks_for_admin_access(self) -> bool:
        """Whether a request itself asks for it; alternatives cannot (RC-41)."""
        return any(
            request.admin_access or (request.exactly and request.exactly.admin_access)
            for request in self.devices.requests
        )

    @property
    def has_alternatives(self) -> bool:
        """Whether a request is a prioritized list."""
        return any(request.first_available for request in self.devices.requests)


_claim_spec = msgspec.json.Decoder(ClaimSpec).decode


class ClaimLabels(msgspec.Struct, frozen=True, gc=False):
    """What the metadata of new claims takes over."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class TemplateSpec(msgspec.Struct, frozen=True):
    """
    What new claims get.

    The claim's spec stays as the server wrote it, for it is only passed on (RC-87): parameters
    of drivers may be nested deeper than an encoder goes, and their numbers keep their text.
    """

    metadata: ClaimLabels = ClaimLabels()
    spec: msgspec.Raw = msgspec.Raw(b"{}")

    def __post_init__(self) -> None:
        # A copy: what was decoded would hold the whole page of the list in memory.
        force_setattr(self, "spec", self.spec.copy())


class Template(msgspec.Struct, frozen=True):
    """A ResourceClaimTemplate; its own metadata never matters (RC-44)."""

    spec: TemplateSpec = TemplateSpec()

    def claim_spec(self) -> ClaimSpec:
        """Give what is read of the spec of new claims; raises `msgspec.ValidationError`."""
        return _claim_spec(self.spec.spec)


FINALIZER = "resource.kubernetes.io/delete-protection"
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
EXTENDED_RESOURCE = "resource.kubernetes.io/extended-resource-claim"
#: The server refuses more.
MOST_CONSUMERS = 256

_status = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_consumers = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Owner(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One owner reference."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None

    @property
    def is_controlling_pod(self) -> bool:
        """Whether the claim was made for a pod: this one."""
        return bool(self.controller) and self.api_version == "v1" and self.kind == "Pod"

    @property
    def is_pod_group(self) -> bool:
        """Whether it is a PodGroup, in whatever version."""
        return self.kind == "PodGroup" and self.api_version.startswith(f"{GROUP}/")


class Annotations(msgspec.Struct, frozen=True, gc=False):
    """The annotations that say why there is a claim."""

    pod_claim_name: str = msgspec.field(name=POD_CLAIM_NAME, default="")
    extended_resource: str = msgspec.field(name=EXTENDED_RESOURCE, default="")


class ClaimMetadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Who a claim is, whom it is for, and what keeps it from being deleted."""

    uid: str = ""
    deletion_timestamp: str | None = None
    owner_references: tuple[Owner, ...] = ()
    finalizers: tuple[str, ...] = ()
    annotations: Annotations = Annotations()


class Consumer(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One element of `status.reservedFor`."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""

    @property
    def is_pod(self) -> bool:
        """Whether it is a pod; `pods` of another group are something else (RC-57)."""
        return not self.api_group and self.resource == "pods"

    @property
    def is_pod_group(self) -> bool:
        """Whether it is a PodGroup."""
        return self.api_group == GROUP and self.resource == "podgroups"


class Allocation(msgspec.Struct, frozen=True, gc=False):
    """The devices that a claim got; only that it got some counts."""


class ClaimStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Whether a claim has devices, and who may use them."""

    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()


def with_status(whole: dict[str, Any]) -> dict[str, Any]:
    """Give a whole claim with its status as a dict of raw fields, and its consumers as a list."""
    status: dict[str, Any] = dict(_status(whole.get("status", b"{}")))
    if "reservedFor" in status:
        status["reservedFor"] = _consumers(status["reservedFor"])
    return {**whole, "status": status}


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A ResourceClaim."""

    metadata: ClaimMetadata = ClaimMetadata()
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def uid(self) -> str:
        """Its UID."""
        return self.metadata.uid

    @property
    def deleting(self) -> bool:
        """Whether somebody asked for its deletion."""
        return self.metadata.deletion_timestamp is not None

    @property
    def protected(self) -> bool:
        """Whether the scheduler's finalizer keeps it."""
        return FINALIZER in self.metadata.finalizers

    @property
    def allocated(self) -> bool:
        """Whether it has devices."""
        return self.status.allocation is not None

    @property
    def consumers(self) -> tuple[Consumer, ...]:
        """Who may use it."""
        return self.status.reserved_for

    @property
    def takes_consumers(self) -> bool:
        """Whether the server would accept one more (D-9)."""
        return self.allocated and not self.deleting and len(self.consumers) < MOST_CONSUMERS

    @property
    def pod_claim_name(self) -> str:
        """The entry of a pod or PodGroup that it was made for; empty when for none."""
        return self.metadata.annotations.pod_claim_name

    @property
    def controller(self) -> Owner | None:
        """The owner that manages it."""
        owners = self.metadata.owner_references
        return next((owner for owner in owners if owner.controller), None)

    @property
    def owning_pod(self) -> Owner | None:
        """The pod it was made for; None when it was made for none (1.4)."""
        owners = self.metadata.owner_references
        return next((owner for owner in owners if owner.is_controlling_pod), None)
