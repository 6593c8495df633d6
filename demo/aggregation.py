"""A cluster role is made of others."""

from typing import Any

from kubernetes import client as kube
from telling import step, tell, wait_for

LABEL = "demo.kcm-host.example/aggregate-to-reader"
WANTED = {"widgets", "gadgets"}


def play(api: Any) -> None:
    """Aggregate two roles, then damage the result by hand."""
    rbac: Any = kube.RbacAuthorizationV1Api(api)
    step("clusterrole-aggregation: a role collects the rules of two labelled roles")
    selectors = [{"matchLabels": {LABEL: "true"}}]
    whole = {"clusterRoleSelectors": selectors}
    rbac.create_cluster_role({"metadata": {"name": "demo-reader"}, "aggregationRule": whole})
    for resource in sorted(WANTED):
        rules = [{"apiGroups": ["demo.example"], "resources": [resource], "verbs": ["get"]}]
        metadata = {"name": f"demo-{resource}", "labels": {LABEL: "true"}}
        rbac.create_cluster_role({"metadata": metadata, "rules": rules})
    tell(f"demo-reader may get {wait_for(lambda: _resources(rbac))}")
    step("clusterrole-aggregation: somebody empties the role by hand; it is filled again")
    rbac.patch_cluster_role("demo-reader", {"rules": []})
    tell(f"demo-reader may get {wait_for(lambda: _resources(rbac))}")


def _resources(rbac: Any) -> str | None:
    """Return the resources of the aggregated role once it has the wanted ones."""
    rules = rbac.read_cluster_role("demo-reader").rules or []
    found = [resource for rule in rules for resource in rule.resources]
    return ", ".join(found) if set(found) == WANTED else None
