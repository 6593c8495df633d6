"""The fields read of Pods and PodGroups."""

import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol

import msgspec
from msgspec.structs import force_setattr

from kcm_host.api import Kind


class Entry(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One entry of `spec.resourceClaims`: a claim by its name, or a template for one."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class Recorded(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One element of `status.resourceClaimStatuses`: the claim that an entry got, or None."""

    name: str = ""
    resource_claim_name: str | None = None


class Named(msgspec.Struct, frozen=True, gc=False):
    """The entry stands for this claim; a `generated` one counts only if it has the right owner."""

    claim: str
    generated: bool


class Unnamed(Enum):
    """The entry stands for no claim, or for none yet."""

    #: It was decided earlier that no claim is needed.
    SKIPPED = "skipped"
    NOT_CREATED = "not created"
    #: Neither name nor template: a field that only newer versions know.
    UNSUPPORTED = "unsupported"


class Holder(Protocol):
    """What pods and PodGroups have in common: entries, and the claims recorded for them."""

    @property
    def entries(self) -> Sequence[Entry]:
        """Its `spec.resourceClaims`."""

    @property
    def recorded(self) -> Sequence[Recorded]:
        """Its `status.resourceClaimStatuses`."""


def resolve(entry: Entry, recorded: Sequence[Recorded]) -> Named | Unnamed:
    """Say which claim an entry stands for; of several records of one name the first counts."""
    if entry.resource_claim_name is not None:
        return Named(entry.resource_claim_name, generated=False)
    if entry.resource_claim_template_name is None:
        return Unnamed.UNSUPPORTED
    for record in recorded:
        if record.name == entry.name:
            name = record.resource_claim_name
            return Unnamed.SKIPPED if name is None else Named(name, generated=True)
    return Unnamed.NOT_CREATED


def claim_names(holder: Holder) -> tuple[str, ...]:
    """Give the claims that the entries stand for, each once, in order (RC-8, RC-11)."""
    if not holder.entries:
        return ()
    resolved = (resolve(entry, holder.recorded) for entry in holder.entries)
    return tuple(dict.fromkeys(each.claim for each in resolved if isinstance(each, Named)))


def template_names(holder: Holder) -> tuple[str, ...]:
    """Give the templates that the entries name, each once, in order (RC-9, RC-12)."""
    if not holder.entries:
        return ()
    names = (entry.resource_claim_template_name for entry in holder.entries)
    return tuple(dict.fromkeys(name for name in names if name is not None))


def records_to_apply(recorded: Sequence[Recorded], new: Mapping[str, str]) -> list[dict[str, str]]:
    """
    Give the whole list for a status apply: what is recorded, under the new names, sorted (RC-42).

    All of it, because a name that an apply leaves out is removed by the server.
    """
    names = {
        record.name: record.resource_claim_name
        for record in reversed(recorded)
        if record.resource_claim_name is not None
    }
    return [
        {"name": name, "resourceClaimName": claim}
        for name, claim in sorted({**names, **new}.items())
    ]


POD = Kind("", "v1", "Pod", "pods")
TERMINAL = frozenset({"Succeeded", "Failed"})


class Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Who a pod or PodGroup is, and whether it is being deleted."""

    uid: str = ""
    deletion_timestamp: str | None = None


class SchedulingGroup(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The PodGroup a pod belongs to."""

    pod_group_name: str | None = None


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Where a pod runs and which claims it needs."""

    node_name: str = ""
    resource_claims: tuple[Entry, ...] = ()
    scheduling_group: SchedulingGroup | None = None

    def __post_init__(self) -> None:
        # A cluster has far fewer nodes than pods: one string for all pods of a node.
        force_setattr(self, "node_name", sys.intern(self.node_name))


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How far a pod is, and the claims it got."""

    phase: str = ""
    resource_claim_statuses: tuple[Recorded, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "phase", sys.intern(self.phase))


class Pod(msgspec.Struct, frozen=True, gc=False):
    """A pod, as far as claims are concerned."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def uid(self) -> str:
        """Its UID."""
        return self.metadata.uid

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Its `spec.resourceClaims`."""
        return self.spec.resource_claims

    @property
    def recorded(self) -> tuple[Recorded, ...]:
        """Its `status.resourceClaimStatuses`."""
        return self.status.resource_claim_statuses

    @property
    def group_name(self) -> str | None:
        """The name of its PodGroup; None when it belongs to none."""
        return self.spec.scheduling_group.pod_group_name if self.spec.scheduling_group else None

    @property
    def scheduled(self) -> bool:
        """Whether it has a node."""
        return bool(self.spec.node_name)

    @property
    def deleting(self) -> bool:
        """Whether somebody asked for its deletion."""
        return self.metadata.deletion_timestamp is not None

    @property
    def terminal(self) -> bool:
        """Whether it has ended for good."""
        return self.status.phase in TERMINAL

    @property
    def done(self) -> bool:
        """
        Whether it will never use its claims again.

        A pod that is being deleted still does while it has a node: that may be running it.
        """
        return self.terminal or (self.deleting and not self.scheduled)


GROUP = "scheduling.k8s.io"
#: The fields read here are the same in all of them (RC-88).
POD_GROUPS = tuple(
    Kind(GROUP, version, "PodGroup", "podgroups") for version in ("v1beta1", "v1alpha3", "v1alpha2")
)


class PodGroupSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Which claims the pods of a group share."""

    resource_claims: tuple[Entry, ...] = ()


class PodGroupStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The claims that a group got."""

    resource_claim_statuses: tuple[Recorded, ...] = ()


class PodGroup(msgspec.Struct, frozen=True, gc=False):
    """A PodGroup, as far as claims are concerned."""

    metadata: Metadata = Metadata()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()

    @property
    def uid(self) -> str:
        """Its UID."""
        return self.metadata.uid

    @property
    def deleting(self) -> bool:
        """Whether somebody asked for its deletion."""
        return self.metadata.deletion_timestamp is not None

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Its `spec.resourceClaims`."""
        return self.spec.resource_claims

    @property
    def recorded(self) -> tuple[Recorded, ...]:
        """Its `status.resourceClaimStatuses`."""
        return self.status.resource_claim_statuses
