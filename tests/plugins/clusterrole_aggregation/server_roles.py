"""ClusterRoles of a real server, for tests of the aggregation."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from kubernetes import client

from kcm_host_testing.api_server import ApiServer

PATH = "/apis/rbac.authorization.k8s.io/v1/clusterroles"

Manifest = Mapping[str, Any]


def rule(resource: str, *verbs: str) -> dict[str, Any]:
    """Return a rule about one resource of the core group; to get it when no verb is given."""
    return {"verbs": list(verbs) or ["get"], "apiGroups": [""], "resources": [resource]}


def manifest(
    name: str,
    *rules: Manifest,
    labels: Mapping[str, str] | None = None,
    selectors: Sequence[Manifest] | None = None,
) -> dict[str, Any]:
    """Return the manifest of a role; with selectors it is aggregated."""
    made: dict[str, Any] = {"metadata": {"name": name, "labels": dict(labels or {})}}
    made["rules"] = list(rules) or None
    if selectors is not None:
        made["aggregationRule"] = {"clusterRoleSelectors": list(selectors)}
    return made


class AggregatedRole:
    """A role with a name that no other test uses, and a source of its rules."""

    def __init__(self, server: ApiServer) -> None:
        self._rbac: Any = client.RbacAuthorizationV1Api(server.client())
        self.name = f"t{secrets.token_hex(4)}"

    def create(self, *rules: Manifest) -> None:
        """Create the source with these rules, then the aggregated role."""
        own = {self.name: "x"}
        self._rbac.create_cluster_role(manifest(f"{self.name}-source", *rules, labels=own))
        self._rbac.create_cluster_role(manifest(self.name, selectors=[{"matchLabels": own}]))

    def read(self) -> Any:
        """Return the role as the server has it; None if it does not exist."""
        found = self._rbac.list_cluster_role(field_selector=f"metadata.name={self.name}").items
        return found[0] if found else None

    def resources(self) -> list[str]:
        """Return the resources of its rules."""
        return [name for rule in self.read().rules or () for name in rule.resources]

    def delete(self) -> None:
        """Delete it, but not its source."""
        self._rbac.delete_cluster_role(self.name)

    def clean(self) -> None:
        """Delete it and its source."""
        for each in self._rbac.list_cluster_role().items:
            if each.metadata.name.startswith(self.name):
                self._rbac.delete_cluster_role(each.metadata.name)
