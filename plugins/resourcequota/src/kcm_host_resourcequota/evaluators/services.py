"""The evaluator of services."""

import msgspec
from msgspec.structs import force_setattr

from kcm_host.api import Key, Kind, View
from kcm_host_resourcequota.evaluators.base import (
    Contribution,
    Evaluator,
    contribution_of,
    count_usage,
)

SERVICE = Kind(group="", version="v1", name="Service", resource="services")

_COUNT = "count/services"
_SERVICES = "services"
_NODE_PORTS = "services.nodeports"
_LOAD_BALANCERS = "services.loadbalancers"
_NAMES = frozenset({_COUNT, _SERVICES, _NODE_PORTS, _LOAD_BALANCERS})


class Port(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One port; `node_port` is 0 if none is assigned."""

    node_port: int | None = 0


class ServiceSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The type and the ports of a service."""

    type: str = ""
    ports: tuple[Port, ...] | None = None
    allocate_load_balancer_node_ports: bool | None = None


class Service(msgspec.Struct, frozen=True, gc=False):
    """A service, reduced to its contribution when it is decoded; `spec` is None afterwards."""

    spec: ServiceSpec | None = None
    contribution: Contribution = Contribution()  # never sent by the server

    def __post_init__(self) -> None:
        spec = self.spec or ServiceSpec()
        amounts = {
            _COUNT: 1,
            _SERVICES: 1,
            _NODE_PORTS: _node_ports(spec),
            _LOAD_BALANCERS: int(spec.type == "LoadBalancer"),
        }
        force_setattr(self, "contribution", contribution_of(count_usage(amounts)))
        force_setattr(self, "spec", None)


class ServiceEvaluator(Evaluator):
    """Computes the usage of services (section 9)."""

    resource = "services"
    kind = SERVICE
    model = Service

    def handles(self, name: str) -> bool:
        """See `Evaluator.handles` (RQ-140)."""
        return name in _NAMES

    def contribution(self, key: Key, obj: Service, view: View, now: float) -> Contribution:
        """See `Evaluator.contribution` (RQ-141)."""
        return obj.contribution


def _node_ports(spec: ServiceSpec) -> int:
    """Return the number of node ports that a service has or will get (RQ-141, RQ-142)."""
    ports = spec.ports or ()
    if spec.type == "LoadBalancer" and spec.allocate_load_balancer_node_ports is False:
        return sum(1 for each in ports if each.node_port)
    return len(ports) if spec.type in ("NodePort", "LoadBalancer") else 0
