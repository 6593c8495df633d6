"""ServiceCIDRs and addresses of a real server, and what a host does to them, for tests."""

import itertools
import json
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from eventually import eventually
from kubernetes import client
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import Request
from kcm_host_testing.proxy import FaultProxy

#: The user that may do what the controller's own role allows.
USER = "servicecidrs"
ROLE = "system:controller:service-cidrs-controller"
CONTROLLER = "servicecidrs"
PATH = "/apis/networking.k8s.io/v1/servicecidrs"
FINALIZER = "networking.k8s.io/service-cidr-finalizer"
#: The servers of these tests serve both families; the tests' own ranges lie elsewhere.
DUAL_STACK = ["--service-cluster-ip-range=10.0.0.0/24,fd00::/112"]

READY = ("True", "", "Kubernetes Service CIDR is ready")
IN_THE_WAY = (
    "There are still IPAddresses referencing the ServiceCIDR, "
    "please remove them or create a new ServiceCIDR"
)
TERMINATING = ("False", "Terminating", IN_THE_WAY)
#: Writes as the tests note them, instead of their bodies.
FIN_PLUS, FIN_MINUS, STATUS_T, STATUS_F = "fin+", "fin-", "status T", "status F"

_numbers = itertools.count(1)


class Net:
    """A part of both address spaces that no other test uses: 10.n.0.0/16 and fd00:n::/32."""

    def __init__(self) -> None:
        number = next(_numbers)
        assert number < 256, "there are no more ranges"
        self.v4 = f"10.{number}.0"
        self.v6 = f"fd00:{number:x}:"
        self.name = f"n{number}-{secrets.token_hex(2)}"

    def __str__(self) -> str:
        return self.name


class ServerRanges:
    """The ServiceCIDRs, Services and IPAddresses of a server."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.net: Any = client.NetworkingV1Api(server.client())
        self.core: Any = client.CoreV1Api(server.client())

    def create(self, name: str, *cidrs: str, finalizers: Sequence[str] = ()) -> None:
        """Create a ServiceCIDR."""
        metadata = {"name": name, "finalizers": list(finalizers)}
        self.net.create_service_cidr({"metadata": metadata, "spec": {"cidrs": list(cidrs)}})

    def change(self, name: str, **fields: Any) -> str:
        """Merge fields into a ServiceCIDR and return its new version."""
        return str(self.net.patch_service_cidr(name, fields).metadata.resource_version)

    def set_finalizers(self, name: str, *finalizers: str) -> None:
        """Replace the finalizers of a ServiceCIDR."""
        changes = [{"op": "replace", "path": "/metadata/finalizers", "value": list(finalizers)}]
        self.net.patch_service_cidr(name, changes)

    def delete(self, *names: str) -> None:
        """Delete ServiceCIDRs."""
        for name in names:
            self.net.delete_service_cidr(name)

    def read(self, name: str) -> dict[str, Any] | None:
        """Return a ServiceCIDR as the server has it; None when there is none."""
        try:
            answer = self.net.read_service_cidr(name, _preload_content=False)
        except client.ApiException as error:
            if error.status != 404:
                raise
            return None
        found: dict[str, Any] = json.loads(answer.data)
        return found

    def finalizers(self, name: str) -> list[str]:
        """Return the finalizers of a ServiceCIDR."""
        metadata = (self.read(name) or {}).get("metadata", {})
        found: list[str] = metadata.get("finalizers", [])
        return found

    def condition(self, name: str) -> dict[str, Any]:
        """Return the Ready condition of a ServiceCIDR, empty if there is none."""
        found = self.read(name) or {}
        conditions = found.get("status", {}).get("conditions", [])
        return next((one for one in conditions if one["type"] == "Ready"), {})

    def ready_condition(self, name: str) -> tuple[str, ...]:
        """Return status, reason and message of the Ready condition."""
        condition = self.condition(name)
        return tuple(condition.get(field, "") for field in ("status", "reason", "message"))

    def is_complete(self, name: str) -> bool:
        """Return whether it has the finalizer and is ready."""
        return FINALIZER in self.finalizers(name) and self.ready_condition(name) == READY

    def create_service(self, address: str) -> str:
        """Create a Service with this address, retried until it is allocated; return its name."""
        name = f"s{secrets.token_hex(4)}"
        spec = {"clusterIP": address, "ports": [{"port": 80}]}
        spec["ipFamilies"] = ["IPv6" if ":" in address else "IPv4"]
        refusal = ""

        def created() -> bool:
            nonlocal refusal
            try:
                self.core.create_namespaced_service(
                    "default", {"metadata": {"name": name}, "spec": spec}
                )
            except client.ApiException as error:
                refusal = str(error.body)
                return False
            return True

        eventually(created, f"a Service gets {address}")
        return name

    def delete_services(self, *services: str) -> None:
        """Delete Services, and their addresses with them."""
        for name in services:
            self.core.delete_namespaced_service(name, "default")

    def events(self, name: str) -> list[Any]:
        """Return the Events about a ServiceCIDR."""
        selector = f"involvedObject.kind=ServiceCIDR,involvedObject.name={name}"
        return list(self.core.list_namespaced_event("default", field_selector=selector).items)


class CidrCluster(ServerRanges):
    """The ranges of a server watched by a host, and the requests of the host."""

    def __init__(self, server: ApiServer, proxy: FaultProxy, host: RunningHost) -> None:
        super().__init__(server)
        self.proxy = proxy
        self.host = host
        self._touches = itertools.count()
        self.marker = f"marker-{secrets.token_hex(4)}"
        self.create(self.marker, f"{Net().v4}.0/24")

    def requests(self, name: str) -> list[Request]:
        """Return the host's writes to one ServiceCIDR, its status included, in order."""
        path = f"^{PATH}/{name}(/status)?$"
        return self.proxy.requests(path=path, when=lambda one: one.method != "GET")

    def written(self, name: str) -> list[str]:
        """Return the kinds of these writes, refused ones included."""
        return [sort_of(request) for request in self.requests(name)]

    def touch(self) -> str:
        """Make a change that the controller does not read, and return its version."""
        text = str(next(self._touches))
        return self.change(self.marker, metadata={"annotations": {"touched": text}})

    def wait_until_idle(self) -> dict[str, Any]:
        """Wait until the host is idle; not possible during a grace period."""
        return self.host.wait_until_settled(CONTROLLER, "servicecidrs", self.touch)

    def wait_until_complete(self, *names: str) -> None:
        """Wait until these have the finalizer and are ready."""
        for name in names:
            eventually(partial(self.is_complete, name), f"{name} is complete")


def sort_of(request: Request) -> str:
    """Name a write; an error when it is none that this controller makes."""
    assert request.method == "PATCH"
    body = json.loads(request.body)
    if request.path.endswith("/status"):
        (condition,) = body["status"]["conditions"]
        state = tuple(condition[field] for field in ("status", "reason", "message"))
        return {READY: STATUS_T, TERMINATING: STATUS_F}[state]
    add = {"metadata": {"finalizers": [FINALIZER]}}
    remove = {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
    assert body in (add, remove)
    return FIN_PLUS if body == add else FIN_MINUS


@contextmanager
def cidr_host(server: ApiServer, *, user: str = USER) -> Iterator[CidrCluster]:
    """Run a host with this controller alone, behind a proxy of its own."""
    config: Any = {"controllers": {CONTROLLER: {}}}
    with (
        FaultProxy(server) as proxy,
        RunningHost(config, kubeconfig=proxy.kubeconfig(user)) as host,
    ):
        yield CidrCluster(server, proxy, host)
