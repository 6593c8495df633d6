"""A range of service addresses is kept while somebody uses it."""

from typing import Any

from kubernetes import client as kube
from telling import step, tell, wait_for

NAME = "demo-range"


def play(api: Any) -> None:
    """Use an address of a new range, delete the range, then free the address."""
    core: Any = kube.CoreV1Api(api)
    networking: Any = kube.NetworkingV1Api(api)
    step("servicecidrs: a new range of service addresses becomes ready")
    spec = {"metadata": {"name": NAME}, "spec": {"cidrs": ["10.200.0.0/28"]}}
    networking.create_service_cidr(spec)
    tell(wait_for(lambda: _ready(networking, "True")))
    step("servicecidrs: it is deleted while a service uses 10.200.0.5; the deletion waits")
    core.create_namespaced_service(
        "default",
        {
            "metadata": {"name": "demo"},
            "spec": {"clusterIP": "10.200.0.5", "ports": [{"port": 80}]},
        },
    )
    networking.delete_service_cidr(NAME)
    tell(wait_for(lambda: _ready(networking, "False")))
    step("servicecidrs: the service goes, and ten seconds after its deletion the range too")
    core.delete_namespaced_service("demo", "default")
    tell(wait_for(lambda: _gone(networking)))


def _ready(networking: Any, status: str) -> str | None:
    conditions = networking.read_service_cidr(NAME).status.conditions or []
    found = next((one for one in conditions if one.type == "Ready"), None)
    if found is None or found.status != status:
        return None
    return f"{NAME} Ready={found.status}: {found.message}"


def _gone(networking: Any) -> str | None:
    names = [one.metadata.name for one in networking.list_service_cidr().items]
    return f"left: {', '.join(names)}" if NAME not in names else None
