"""Quotas on a real server, and a host that runs the quota controller."""

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from eventually import eventually
from kubernetes import client
from running_host import RunningHost

from kcm_host.api import Quantity
from kcm_host_testing.api_server import ApiServer

CONTROLLER = "resourcequota"
USER = "quota"
#: The role that the server creates for this controller.
ROLE = "system:controller:resourcequota-controller"
AGENT = "kcm-host/"
Manifest = dict[str, Any]


@contextmanager
def quota_host(server: ApiServer, *, user: str = USER, **settings: str) -> Iterator[RunningHost]:
    """Run a host with the quota controller alone."""
    config = {"controllers": {CONTROLLER: {"settings": settings}}}
    with RunningHost(config, kubeconfig=server.kubeconfig(user)) as host:
        yield host


def core_of(server: ApiServer) -> Any:
    """Return a client of the core group."""
    return client.CoreV1Api(server.client())


class QuotaNamespace:
    """A new namespace of a real server, with the operations of tests."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.core = core_of(server)
        self.name = f"quota-{secrets.token_hex(4)}"
        self.core.create_namespace({"metadata": {"name": self.name}})
        # Pods are rejected without it, and no controller creates it.
        self.core.create_namespaced_service_account(self.name, {"metadata": {"name": "default"}})

    def quota(self, *names: str, name: str = "q", limit: str = "100", **spec: Any) -> str:
        """Create a quota for these names."""
        body = {"metadata": {"name": name}, "spec": {"hard": dict.fromkeys(names, limit), **spec}}
        self.core.create_namespaced_resource_quota(self.name, body)
        return name

    def status(self, name: str = "q") -> Manifest:
        """Return the status of a quota, as the server has it."""
        answer = self.core.read_namespaced_resource_quota(name, self.name, _preload_content=False)
        found: Manifest = json.loads(answer.data).get("status") or {}
        return found

    def used(self, name: str = "q") -> dict[str, float]:
        """Return `status.used` in numbers."""
        texts: Mapping[str, str] = self.status(name).get("used") or {}
        return {each: Quantity.parse(text).nano / Quantity.NANO for each, text in texts.items()}

    def wait_until(self, used: Mapping[str, float], name: str = "q") -> None:
        """Wait until `status.used` is equal to `used`; names may have dots and slashes."""
        found: dict[str, float] = {}

        def is_equal() -> bool:
            found.clear()
            found.update(self.used(name))
            return found == used

        try:
            eventually(is_equal, f"{name} has {used}")
        except AssertionError as error:
            raise AssertionError(f"{error}; it has {found}") from None

    def pod(self, name: str) -> None:
        """
        Create a pod.

        Retry when the quota changes too often for admission, which gives up after three attempts.
        """
        while True:
            try:
                self.core.create_namespaced_pod(self.name, pod_manifest(name))
            except client.ApiException as error:
                if json.loads(error.body or "{}").get("reason") != "Conflict":
                    raise
            else:
                return

    def delete_pod(self, name: str) -> None:
        """Delete a pod at once."""
        self.core.delete_namespaced_pod(name, self.name, grace_period_seconds=0)

    def wait_until_quiet(self) -> None:
        """Wait until the controller has not written anything for a second."""
        mark = self.server.audit.mark()
        self.server.audit.wait_until_quiet(1.0, timeout_seconds=60, user_agent=AGENT, since=mark)


def pod_manifest(name: str, **fields: Any) -> Manifest:
    """Return a pod that requests one tenth of a CPU."""
    resources = {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "200m"}}
    container = {"name": "c", "image": "example.com/image", "resources": resources}
    spec = {"containers": [container], "automountServiceAccountToken": False, **fields}
    return {"metadata": {"name": name}, "spec": spec}


def widgets(group: str) -> Manifest:
    """Return the definition of a custom resource."""
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
