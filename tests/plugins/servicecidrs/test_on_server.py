"""What the controller sends to a real server, and with which permissions."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from eventually import eventually
from kubernetes import client
from plugins.conftest import CIDR_USER
from plugins.granted_roles import granted
from plugins.proxied_host import proxied_host
from plugins.servicecidrs.cidr_cluster import IS_READY

from kcm_host_servicecidrs.models import FINALIZER
from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import Answer

CONTROLLER, GROUP = "servicecidrs", "networking.k8s.io"
PATH = f"/apis/{GROUP}/v1/servicecidrs"
NUMBERS = itertools.count(1)


def rule(group: str, resource: str, *verbs: str) -> dict[str, object]:
    """Return one rule of a role."""
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


READS = [rule(GROUP, "servicecidrs", "list", "watch"), rule(GROUP, "ipaddresses", "list", "watch")]
WRITES = [rule(GROUP, "servicecidrs", "patch"), rule(GROUP, "servicecidrs/status", "patch")]
EVENTS = [rule("", "events", "create", "patch")]


class Cidr:
    """A ServiceCIDR of a server, with a name and a range that no other test uses."""

    def __init__(self, server: ApiServer) -> None:
        self._net: Any = client.NetworkingV1Api(server.client())
        self._core: Any = client.CoreV1Api(server.client())
        number = next(NUMBERS)
        self.name = f"n{number}"
        spec = {"cidrs": [f"10.{number}.0.0/24"]}
        body: Any = {"metadata": {"name": self.name}, "spec": spec}
        self._net.create_service_cidr(body)

    def is_complete(self) -> bool:
        """Return whether it has the finalizer and is ready."""
        found = self._net.read_service_cidr(self.name)
        conditions = found.status.conditions or ()
        finalizers = found.metadata.finalizers or ()
        return FINALIZER in finalizers and any(one.status == "True" for one in conditions)

    def event_counts(self) -> list[int]:
        """Return how often each Event about it was written."""
        about = f"involvedObject.kind=ServiceCIDR,involvedObject.name={self.name}"
        events = self._core.list_namespaced_event("default", field_selector=about).items
        return [one.count for one in events]

    def clean(self) -> None:
        """Delete it, without a controller."""
        self._net.patch_service_cidr(self.name, {"metadata": {"finalizers": None}})
        self._net.delete_service_cidr(self.name)


@pytest.fixture
def cidr(plugin_server: ApiServer) -> Iterator[Cidr]:
    """A new ServiceCIDR; it is deleted at the end."""
    cidr = Cidr(plugin_server)
    yield cidr
    cidr.clean()


def test_a_new_one_gets_finalizer_and_condition(plugin_server: ApiServer, cidr: Cidr) -> None:
    """
    First the one, then the other, by two patches of one sync; the controller's own role is enough.

    SC-T2, SC-3, SC-6, SC-70 to SC-75, SC-81 to SC-85, SC-98, SC-110.
    """
    with proxied_host(plugin_server, CONTROLLER, user=CIDR_USER) as (proxy, _):
        eventually(cidr.is_complete, "it is complete")
        finalizer, status = proxy.requests(
            path=f"^{PATH}/{cidr.name}(/status)?$", when=lambda one: one.method != "GET"
        )
        assert {one.status for one in proxy.requests()} == {200}
    assert (finalizer.path, finalizer.query) == (f"{PATH}/{cidr.name}", {})
    assert finalizer.headers["content-type"] == "application/strategic-merge-patch+json"
    assert json.loads(finalizer.body) == {"metadata": {"finalizers": [FINALIZER]}}
    assert status.path == f"{PATH}/{cidr.name}/status"
    assert status.query == {"fieldManager": "service-cidr-controller", "force": "true"}
    assert status.headers["content-type"] == "application/apply-patch+yaml"
    body = json.loads(status.body)
    (condition,) = body["status"].pop("conditions")
    assert condition.pop("lastTransitionTime").endswith("Z")
    assert condition == IS_READY
    assert body == {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": cidr.name},
        "status": {},
    }


def test_few_verbs_are_needed_and_no_more(plugin_server: ApiServer, cidr: Cidr) -> None:
    """Without them writes are refused and retried; with them all is done (SC-T25, SC-110)."""
    with (
        granted(plugin_server, "nobody", READS) as grant,
        proxied_host(plugin_server, CONTROLLER, user="nobody") as (proxy, host),
    ):
        failures = eventually(lambda: host.log("sync failed", key=cidr.name), "a refusal")
        assert "cannot patch resource" in failures[0]["error"]
        broken = Answer(500, b"{}", {"Content-Type": "application/json"})
        proxy.add(broken, path=f"/{cidr.name}/status$", times=2)
        grant([*READS, *WRITES, *EVENTS])
        eventually(cidr.is_complete, "it is complete")
        eventually(lambda: cidr.event_counts() == [2], "two failures")
