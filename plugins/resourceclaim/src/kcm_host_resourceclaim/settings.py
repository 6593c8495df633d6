"""The settings: the feature gates of the API server on which the controller depends."""

from typing import Self

from pydantic import Field, model_validator

from kcm_host.api import Invalid, Settings


class ClaimSettings(Settings):
    """The settings of the resourceclaim controller; each should equal that of the API server."""

    admin_access: bool = Field(
        default=True, description="Make claims that ask for admin access (DRAAdminAccess)."
    )
    prioritized_list: bool = Field(
        default=True, description="Make claims with 'firstAvailable' (DRAPrioritizedList)."
    )
    generic_workload: bool = Field(
        default=False, description="Look up the PodGroup of a pod (GenericWorkload)."
    )
    workload_claims: bool = Field(
        default=False,
        description="Make and reserve claims for PodGroups (DRAWorkloadResourceClaims).",
    )

    @model_validator(mode="after")
    def _claims_need_groups(self) -> Self:
        if self.workload_claims and not self.generic_workload:
            raise Invalid(
                "'workloadClaims' does nothing without 'genericWorkload'",
                "set 'genericWorkload: true' too, or remove 'workloadClaims'",
            )
        return self
