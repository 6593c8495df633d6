"""The objects that tests put into the quota cluster, with no more in them than they need."""

from collections.abc import Mapping
from typing import Any

from plugins.resourcequota.quota_objects import Manifest


def pod(
    name: str,
    *,
    namespace: str = "a",
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    phase: str = "Running",
    uid: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Manifest:
    """Return a pod with one container."""
    resources = {"requests": dict(requests or {}), "limits": dict(limits or {})}
    made = {"name": name, "namespace": namespace, **(metadata or {})}
    if uid:
        made["uid"] = uid
    containers = [{"name": "c", "resources": resources}]
    return {
        "metadata": made,
        "spec": {"containers": containers, **spec},
        "status": {"phase": phase, **(status or {})},
    }


def named(name: str, namespace: str = "a", **fields: Any) -> Manifest:
    """Return an object of which only the name matters."""
    return {"metadata": {"name": name, "namespace": namespace}, **fields}
