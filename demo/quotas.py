"""A quota shows what is used, and is right again when something goes."""

from typing import Any

from kubernetes import client as kube
from telling import step, tell, wait_for

NAMESPACE = "demo-quota"


def play(api: Any) -> None:
    """Use up a quota, then give some of it back."""
    core: Any = kube.CoreV1Api(api)
    step("resourcequota: a new quota of pods and CPU gets its first numbers")
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    hard = {"pods": "10", "requests.cpu": "2"}
    core.create_namespaced_resource_quota(
        NAMESPACE, {"metadata": {"name": "team"}, "spec": {"hard": hard}}
    )
    tell(wait_for(lambda: _used(core, pods="0", cpu="0")))
    step("resourcequota: three pods come; the API server itself raises the numbers")
    for number in range(3):
        core.create_namespaced_pod(NAMESPACE, _pod(f"worker-{number}"))
    tell(wait_for(lambda: _used(core, pods="3", cpu="750m")))
    step("resourcequota: one pod goes and one is done; the controller lowers the numbers")
    core.delete_namespaced_pod("worker-0", NAMESPACE, grace_period_seconds=0)
    core.patch_namespaced_pod_status("worker-1", NAMESPACE, {"status": {"phase": "Succeeded"}})
    tell(wait_for(lambda: _used(core, pods="1", cpu="250m")))


def _pod(name: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": "250m"}}
    container = {"name": "main", "image": "example.com/worker", "resources": resources}
    spec = {"containers": [container], "automountServiceAccountToken": False}
    return {"metadata": {"name": name}, "spec": spec}


def _used(core: Any, *, pods: str, cpu: str) -> str | None:
    used = core.read_namespaced_resource_quota("team", NAMESPACE).status.used or {}
    if used != {"pods": pods, "requests.cpu": cpu}:
        return None
    return f"used: {pods} of 10 pods, {cpu} of 2 CPU"
