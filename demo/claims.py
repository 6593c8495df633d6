"""A pod gets the claims that its templates describe."""

from typing import Any

from kubernetes import client as kube
from telling import step, tell, wait_for


def play(api: Any) -> None:
    """Make a pod that needs a device, then let it finish."""
    core: Any = kube.CoreV1Api(api)
    resources: Any = kube.ResourceV1Api(api)
    step("resourceclaim: a pod names a template; a claim is made, and the pod is told its name")
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    resources.create_namespaced_resource_claim_template(
        "default",
        {"metadata": {"name": "one-gpu"}, "spec": {"spec": {"devices": {"requests": [request]}}}},
    )
    core.create_namespaced_pod(
        "default",
        {
            "metadata": {"name": "trainer"},
            "spec": {
                "containers": [{"name": "main", "image": "example.com/trainer"}],
                "resourceClaims": [{"name": "device", "resourceClaimTemplateName": "one-gpu"}],
                "automountServiceAccountToken": False,
            },
        },
    )
    tell(wait_for(lambda: _told(core)))
    step("resourceclaim: the pod is done; its claim goes, although the pod stays")
    core.patch_namespaced_pod_status("trainer", "default", {"status": {"phase": "Succeeded"}})
    tell(wait_for(lambda: _cleared(resources)))


def _told(core: Any) -> str | None:
    found = core.read_namespaced_pod("trainer", "default").status.resource_claim_statuses or []
    names = [f"{one.name} is claim {one.resource_claim_name}" for one in found]
    return f"pod trainer: {names[0]}" if names else None


def _cleared(resources: Any) -> str | None:
    left = resources.list_namespaced_resource_claim("default").items
    return "no claim is left in namespace default" if not left else None
