"""Which versions and features one start of the controller works with."""

from dataclasses import dataclass

from kcm_host.api import Discovery, Kind
from kcm_host_resourceclaim.models.pod import POD_GROUPS
from kcm_host_resourceclaim.settings import Settings

VERSIONS = ("v1", "v1beta2", "v1beta1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """The kinds to read and write, all claims in one version, and the features in force."""

    claims: Kind
    templates: Kind
    #: None: the feature is off, or not served (RC-88).
    groups: Kind | None
    group_claims: bool
    admin_access: bool
    prioritized_list: bool


def api_of(version: str, settings: Settings, groups: Kind | None) -> Api:
    """Give the kinds of one version of resource.k8s.io, and the features that `settings` allow."""
    groups = groups if settings.generic_workload else None
    return Api(
        claims=Kind("resource.k8s.io", version, "ResourceClaim", "resourceclaims"),
        templates=Kind(
            "resource.k8s.io", version, "ResourceClaimTemplate", "resourceclaimtemplates"
        ),
        groups=groups,
        group_claims=settings.workload_claims and groups is not None,
        admin_access=settings.admin_access,
        prioritized_list=settings.prioritized_list,
    )


def served_api(settings: Settings, discovery: Discovery) -> Api | None:
    """Give the newest version that has both claims and templates; None when none has (RC-85)."""
    groups = discovery.first_served(*POD_GROUPS) if settings.generic_workload else None
    for version in VERSIONS:
        api = api_of(version, settings, groups)
        if discovery.serves(api.claims) and discovery.serves(api.templates):
            return api
    return None
