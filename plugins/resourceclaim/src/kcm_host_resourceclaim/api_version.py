"""The API versions and features in use from one start of the controller to the next."""

from dataclasses import dataclass

from kcm_host.api import Discovery, Kind
from kcm_host_resourceclaim.models.pod import POD_GROUPS
from kcm_host_resourceclaim.settings import ClaimSettings

VERSIONS = ("v1", "v1beta2", "v1beta1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedApi:
    """The kinds to read and write, claims and templates in one version, and the features."""

    claims: Kind
    templates: Kind
    #: None: the feature is off, or the kind is not served (RC-88).
    groups: Kind | None
    workload_claims: bool
    admin_access: bool
    prioritized_list: bool


def api_for_version(version: str, settings: ClaimSettings, groups: Kind | None) -> ServedApi:
    """Return the kinds of one version of resource.k8s.io, with the features of `settings`."""
    groups = groups if settings.generic_workload else None
    return ServedApi(
        claims=Kind(
            group="resource.k8s.io",
            version=version,
            name="ResourceClaim",
            resource="resourceclaims",
        ),
        templates=Kind(
            group="resource.k8s.io",
            version=version,
            name="ResourceClaimTemplate",
            resource="resourceclaimtemplates",
        ),
        groups=groups,
        workload_claims=settings.workload_claims and groups is not None,
        admin_access=settings.admin_access,
        prioritized_list=settings.prioritized_list,
    )


def newest_served_api(settings: ClaimSettings, discovery: Discovery) -> ServedApi | None:
    """Return the newest version that serves claims and templates; None when none does (RC-85)."""
    groups = discovery.first_served(*POD_GROUPS) if settings.generic_workload else None
    for version in VERSIONS:
        api = api_for_version(version, settings, groups)
        if discovery.serves(api.claims) and discovery.serves(api.templates):
            return api
    return None
