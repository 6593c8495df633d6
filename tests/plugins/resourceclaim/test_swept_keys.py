"""Which objects the slow sweep of the host takes for keys."""

import pytest

from kcm_host.api import Key
from kcm_host_resourceclaim.api_version import api_for_version
from kcm_host_resourceclaim.cache import State
from kcm_host_resourceclaim.models.pod import POD, POD_GROUPS
from kcm_host_resourceclaim.plugin import watches_for
from kcm_host_resourceclaim.settings import Settings

OBJECT = Key("a", "ns")


@pytest.mark.parametrize("workload_claims", [False, True])
def test_pods_claims_and_groups_with_claims_are_swept(*, workload_claims: bool) -> None:
    """A sync of a PodGroup would make claims, so none is swept without the switch (F-52)."""
    settings = Settings(genericWorkload=True, workloadClaims=workload_claims)
    api = api_for_version("v1", settings, POD_GROUPS[0])
    found = {
        watch.kind: watch.resync(OBJECT).kind if watch.resync is not None else ""
        for watch in watches_for(api, State())
    }
    assert found == {
        POD: "pod",
        api.claims: "claim",
        api.templates: "",
        POD_GROUPS[0]: "podgroup" if workload_claims else "",
    }
