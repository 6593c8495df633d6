"""What is read of a PodGroup, and nothing more."""

import msgspec

from kcm_host.api import Kind
from kcm_host_resourceclaim.entries import Entry, Recorded
from kcm_host_resourceclaim.pod import Metadata

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
