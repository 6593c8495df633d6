"""The evaluator of services."""

from typing import Any

import pytest
from plugins.resourcequota.quota_objects import Manifest, Namespace, nano
from plugins.tables import row

from kcm_host_resourcequota.evaluators.services import ServiceEvaluator

ALL = ("services", "count/services", "services.nodeports", "services.loadbalancers")


def service(type_: str, *node_ports: int | None, name: str = "s", **spec: Any) -> Manifest:
    """Return a service with these node ports; None is a port without node port."""
    ports = [{"port": 80, **({} if each is None else {"nodePort": each})} for each in node_ports]
    return {
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"type": type_, "ports": ports, **spec},
    }


def without_ports(*node_ports: int | None, name: str = "s") -> Manifest:
    """Return a load balancer without allocation of node ports."""
    return service("LoadBalancer", *node_ports, name=name, allocateLoadBalancerNodePorts=False)


def test_services_handle_these_names() -> None:
    """Four names, without prefixes (RQ-140)."""
    handles = ServiceEvaluator().handles
    assert all(map(handles, ALL))
    assert not any(handles(f"{name}.x") or handles(f"requests.{name}") for name in ALL)


@pytest.mark.parametrize(
    ("obj", "node_ports", "load_balancers"),
    [
        row("ClusterIP", service("ClusterIP", None, None), 0, 0),
        row("RQ-142: unassigned ports", service("NodePort", None, 0, 30000), 3, 0),
        row("RQ-T68: one number twice", service("NodePort", 30053, 30053), 2, 0),
        row("LoadBalancer", service("LoadBalancer", None, None), 2, 1),
        row("allocate", service("LoadBalancer", None, allocateLoadBalancerNodePorts=True), 1, 1),
        row("allocate nothing", without_ports(0, 30001, None), 1, 1),
        row("ExternalName", service("ExternalName"), 0, 0),
        row("RQ-T69: a port left over", service("ClusterIP", 31000), 0, 0),
        row(
            "left over too", service("ClusterIP", 31000, allocateLoadBalancerNodePorts=False), 0, 0
        ),
        row(
            "NodePort has", service("NodePort", None, 0, allocateLoadBalancerNodePorts=False), 2, 0
        ),
        row("a type of the future", service("Foo", 31000), 0, 0),
        row("RQ-142: health check", service("LoadBalancer", 1, healthCheckNodePort=32000), 1, 1),
        row("no spec", {"kind": "Service", "metadata": {"name": "s"}}, 0, 0),
        row("ports null", service("NodePort", ports=None), 0, 0),
    ],
)
def test_the_type_decides_what_a_service_uses(
    obj: Manifest, node_ports: int, load_balancers: int
) -> None:
    """Intended node ports count, and load balancers do (RQ-141, RQ-142)."""
    expected = {"services": 1, "count/services": 1}
    expected |= {"services.nodeports": node_ports, "services.loadbalancers": load_balancers}
    assert Namespace(obj).used(*ALL) == nano(expected)
