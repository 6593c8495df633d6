"""The fields read of Pods and PodGroups."""

import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol

import msgspec
from msgspec.structs import force_setattr

from kcm_host.api import Kind

POD = Kind(group="", version="v1", name="Pod", resource="pods")
SCHEDULING_GROUP = "scheduling.k8s.io"
#: The fields read here are the same in all of these versions (RC-88).
POD_GROUPS = tuple(
    Kind(group=SCHEDULING_GROUP, version=version, name="PodGroup", resource="podgroups")
    for version in ("v1beta1", "v1alpha3", "v1alpha2")
)
TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})


class PodClaim(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One entry of `spec.resourceClaims`: the name of a claim, or of a template for one."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodClaimStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One entry of `status.resourceClaimStatuses`; no claim name means that none is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class ResolvedClaim(msgspec.Struct, frozen=True, gc=False):
    """The claim name of an entry; a `generated` claim must have the right owner to be used."""

    claim: str
    generated: bool


class Unresolved(Enum):
    """The reason why an entry has no claim name."""

    #: The status says that no claim is needed.
    NOT_NEEDED = "not needed"
    NOT_CREATED = "not created"
    #: Neither claim nor template is named: a field that only newer versions have.
    UNSUPPORTED = "unsupported"


class ClaimOwner(Protocol):
    """A pod or PodGroup: its entries, and the claims recorded for them."""

    @property
    def resource_claims(self) -> Sequence[PodClaim]:
        """The entries of `spec.resourceClaims`."""

    @property
    def resource_claim_statuses(self) -> Sequence[PodClaimStatus]:
        """The entries of `status.resourceClaimStatuses`."""


def resolve_claim(
    pod_claim: PodClaim, statuses: Sequence[PodClaimStatus]
) -> ResolvedClaim | Unresolved:
    """Return the claim name of an entry; of several statuses with one name the first counts."""
    if pod_claim.resource_claim_name is not None:
        return ResolvedClaim(pod_claim.resource_claim_name, generated=False)
    if pod_claim.resource_claim_template_name is None:
        return Unresolved.UNSUPPORTED
    for status in statuses:
        if status.name == pod_claim.name:
            name = status.resource_claim_name
            return Unresolved.NOT_NEEDED if name is None else ResolvedClaim(name, generated=True)
    return Unresolved.NOT_CREATED


def referenced_claims(owner: ClaimOwner) -> tuple[str, ...]:
    """Return the claim names of the entries, each once, in order (RC-8, RC-11)."""
    if not owner.resource_claims:
        return ()
    statuses = owner.resource_claim_statuses
    resolved = [resolve_claim(pod_claim, statuses) for pod_claim in owner.resource_claims]
    names = [each.claim for each in resolved if isinstance(each, ResolvedClaim)]
    return tuple(dict.fromkeys(names))


def referenced_templates(owner: ClaimOwner) -> tuple[str, ...]:
    """Return the template names of the entries, each once, in order (RC-9, RC-12)."""
    if not owner.resource_claims:
        return ()
    names = [pod_claim.resource_claim_template_name for pod_claim in owner.resource_claims]
    return tuple(dict.fromkeys([name for name in names if name is not None]))


def statuses_to_apply(
    statuses: Sequence[PodClaimStatus], new: Mapping[str, str]
) -> list[dict[str, str]]:
    """
    Return the full list for a status apply: the recorded claims and the new ones, sorted (RC-42).

    The list is complete because the server removes every name that an apply leaves out.
    """
    names = {
        status.name: status.resource_claim_name
        for status in reversed(statuses)
        if status.resource_claim_name is not None
    }
    return [
        {"name": name, "resourceClaimName": claim}
        for name, claim in sorted({**names, **new}.items())
    ]


class Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The metadata of a pod or PodGroup."""

    uid: str = ""
    deletion_timestamp: str | None = None


class SchedulingGroup(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The reference of a pod to its PodGroup."""

    pod_group_name: str | None = None


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The node of a pod and the claims that it needs."""

    node_name: str = ""
    resource_claims: tuple[PodClaim, ...] = ()
    scheduling_group: SchedulingGroup | None = None

    def __post_init__(self) -> None:
        # A cluster has far fewer nodes than pods: one string for all pods of a node.
        force_setattr(self, "node_name", sys.intern(self.node_name))


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The phase of a pod and the claims recorded for it."""

    phase: str = ""
    resource_claim_statuses: tuple[PodClaimStatus, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "phase", sys.intern(self.phase))


class Pod(msgspec.Struct, frozen=True, gc=False):
    """A Pod. Most pods have no claims, so little is read of each."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def uid(self) -> str:
        """The UID."""
        return self.metadata.uid

    @property
    def resource_claims(self) -> tuple[PodClaim, ...]:
        """The entries of `spec.resourceClaims`."""
        return self.spec.resource_claims

    @property
    def resource_claim_statuses(self) -> tuple[PodClaimStatus, ...]:
        """The entries of `status.resourceClaimStatuses`."""
        return self.status.resource_claim_statuses

    @property
    def pod_group_name(self) -> str | None:
        """The name of the pod's PodGroup; None when it belongs to none."""
        return self.spec.scheduling_group.pod_group_name if self.spec.scheduling_group else None

    @property
    def scheduled(self) -> bool:
        """True when the pod has a node."""
        return bool(self.spec.node_name)

    @property
    def deleting(self) -> bool:
        """True when the deletion of the pod was requested."""
        return self.metadata.deletion_timestamp is not None

    @property
    def terminal(self) -> bool:
        """True when the pod has succeeded or failed."""
        return self.status.phase in TERMINAL_PHASES

    @property
    def done(self) -> bool:
        """
        True when the pod will never use its claims again.

        A pod that is being deleted still uses them while it has a node: the node may be running it.
        """
        return self.terminal or (self.deleting and not self.scheduled)


class PodGroupSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The claims that the pods of a PodGroup share."""

    resource_claims: tuple[PodClaim, ...] = ()


class PodGroupStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The claims recorded for a PodGroup."""

    resource_claim_statuses: tuple[PodClaimStatus, ...] = ()


class PodGroup(msgspec.Struct, frozen=True, gc=False):
    """A PodGroup."""

    metadata: Metadata = Metadata()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()

    @property
    def uid(self) -> str:
        """The UID."""
        return self.metadata.uid

    @property
    def deleting(self) -> bool:
        """True when the deletion of the PodGroup was requested."""
        return self.metadata.deletion_timestamp is not None

    @property
    def resource_claims(self) -> tuple[PodClaim, ...]:
        """The entries of `spec.resourceClaims`."""
        return self.spec.resource_claims

    @property
    def resource_claim_statuses(self) -> tuple[PodClaimStatus, ...]:
        """The entries of `status.resourceClaimStatuses`."""
        return self.status.resource_claim_statuses
