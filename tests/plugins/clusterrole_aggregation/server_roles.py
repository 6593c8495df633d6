"""ClusterRoles of a real server and what a host with the aggregation does to them, for tests."""

import itertools
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kubernetes import client
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import Request
from kcm_host_testing.proxy import FaultProxy

#: The user of the plugins' server that may do what the controller's own role allows.
USER = "aggregation"
CONTROLLER = "clusterrole-aggregation"
PATH = "/apis/rbac.authorization.k8s.io/v1/clusterroles"

Manifest = Mapping[str, Any]


def rule(resource: str, *verbs: str) -> dict[str, Any]:
    """Return a rule about one resource of the core group; to get it when no verb is given."""
    return {"verbs": list(verbs) or ["get"], "apiGroups": [""], "resources": [resource]}


R1, R2 = rule("pods"), rule("nodes")


class Roles:
    """The ClusterRoles of a server, what a host applied, and what it says about itself."""

    def __init__(self, server: ApiServer, proxy: FaultProxy, host: RunningHost) -> None:
        self.server = server
        self.proxy = proxy
        self.host = host
        self._rbac: Any = client.RbacAuthorizationV1Api(server.client())
        self._numbers = itertools.count()
        self.marker = f"marker-{secrets.token_hex(4)}"
        self.create(self.marker)

    def create(
        self,
        name: str,
        *rules: Manifest,
        labels: Mapping[str, str] | None = None,
        selectors: Sequence[Manifest] | None = None,
    ) -> None:
        """Create a role; with selectors it is aggregated."""
        self._rbac.create_cluster_role(manifest(name, *rules, labels=labels, selectors=selectors))

    def change(self, name: str, **fields: Any) -> str:
        """Merge fields into a role and return its new version."""
        return str(self._rbac.patch_cluster_role(name, fields).metadata.resource_version)

    def delete(self, *names: str) -> None:
        """Delete roles."""
        for name in names:
            self._rbac.delete_cluster_role(name)

    def exists(self, name: str) -> bool:
        """Return whether the server has such a role."""
        try:
            self.read(name)
        except client.ApiException as error:
            if error.status != 404:
                raise
            return False
        return True

    def read(self, name: str) -> dict[str, Any]:
        """Return a role as the server has it."""
        answer = self._rbac.read_cluster_role(name, _preload_content=False)
        found: dict[str, Any] = json.loads(answer.data)
        return found

    def rules(self, name: str) -> list[dict[str, Any]]:
        """Return the rules of a role, none when they are null."""
        return self.read(name).get("rules") or []

    def owners(self, name: str) -> dict[tuple[str, str], Any]:
        """Return who owns which fields of a role: (manager, operation) -> fields."""
        managed = self.read(name)["metadata"]["managedFields"]
        return {(one["manager"], one["operation"]): one["fieldsV1"] for one in managed}

    def applies(self, name: str = "[^/]+") -> list[Request]:
        """Return the host's writes to one role, or to all, whatever their method."""
        return self.proxy.requests(path=f"{PATH}/{name}$", when=lambda one: one.method != "GET")

    def touch(self) -> str:
        """Make a change that the controller does not read, and return its version."""
        text = str(next(self._numbers))
        return self.change(self.marker, metadata={"annotations": {"touched": text}})

    def wait_until_idle(self) -> dict[str, Any]:
        """Wait until the host is idle, also after the events of its own writes."""
        return self.host.wait_until_settled(CONTROLLER, "clusterroles", self.touch)


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


def delete_roles(server: ApiServer, prefix: str) -> None:
    """Delete all roles whose names begin with `prefix`."""
    rbac: Any = client.RbacAuthorizationV1Api(server.client())
    for role in rbac.list_cluster_role().items:
        if role.metadata.name.startswith(prefix):
            rbac.delete_cluster_role(role.metadata.name)


@contextmanager
def aggregation_host(server: ApiServer, *, user: str = USER, workers: int = 5) -> Iterator[Roles]:
    """Run a host with the aggregation alone, behind a proxy of its own."""
    config = {"controllers": {CONTROLLER: {"workers": workers}}}
    with (
        FaultProxy(server) as proxy,
        RunningHost(config, kubeconfig=proxy.kubeconfig(user)) as host,
    ):
        roles = Roles(server, proxy, host)
        yield roles
        roles.delete(roles.marker)
