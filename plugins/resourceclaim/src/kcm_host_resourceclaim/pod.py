"""What is read of a Pod, and nothing more: most pods have no claims and should cost little."""

import sys

import msgspec
from msgspec.structs import force_setattr

from kcm_host.api import Kind
from kcm_host_resourceclaim.entries import Entry, Recorded

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
