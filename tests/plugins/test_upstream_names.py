"""The names by which operators of kube-controller-manager know the controllers and their work."""

from typing import Any

import pytest
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.proxy import FaultProxy

#: Workers of each controller, as the reference has them unless its flags say otherwise.
WORKERS = {
    **dict.fromkeys(("ttl", "clusterrole-aggregation", "servicecidrs", "resourcequota"), 5),
    "resourceclaim": 50,
}
#: Names for which dashboards of the reference ask.
QUEUES = (
    *("ttlcontroller", "ClusterRoleAggregator", "ipaddresses"),
    *("resource_claim", "resourcequota_primary"),
)
SHARED = ("ttl-controller", "clusterrole-aggregation-controller")
LONG = (*SHARED, "service-cidr-controller", "resourceclaim-controller", "resourcequota-controller")
ALIASES = (*SHARED, "service-cidrs-controller", "resource-claim-controller", "resourcequota")


@pytest.mark.parametrize("names", [LONG, ALIASES], ids=["names", "aliases"])
def test_controllers_go_by_the_names_of_the_reference(
    plugin_server: ApiServer, names: tuple[str, ...]
) -> None:
    """
    Each has its number of workers and its queue, and ends in order.

    TTL-1, 3, TTL-4; CRA-1, CRA-4; SC-1, SC-2, SC-4, SC-5; RC-1, RC-3, RC-6, RC-77; RQ-1 to RQ-3.
    """
    config: dict[str, Any] = {"controllers": {name: {} for name in names}}
    with RunningHost(config, kubeconfig=plugin_server.kubeconfig()) as host:
        found = {one["name"]: one["workers"] for one in host.status()["controllers"]}
        assert found == WORKERS
        assert {f'workqueue_depth{{name="{queue}"}}' for queue in QUEUES} <= host.metrics().keys()
        assert host.stop() == 0


def test_all_objects_are_followed_slim(plugin_server: ApiServer) -> None:
    """Watches have no selectors; of nodes and addresses only metadata (TTL-6, CRA-5, SC-9)."""
    config: dict[str, Any] = {"controllers": {name: {} for name in (*SHARED, "servicecidrs")}}
    with (
        FaultProxy(plugin_server) as proxy,
        RunningHost(config, kubeconfig=proxy.kubeconfig()) as host,
    ):
        watches = proxy.requests(when=lambda request: request.watch)
        slim = {"nodes": True, "clusterroles": False, "servicecidrs": False, "ipaddresses": True}
        assert {one.path.rpartition("/")[2] for one in watches} == set(slim)
        for watch in watches:
            assert watch.query.keys().isdisjoint({"labelSelector", "fieldSelector"})
        assert {name: host.stream(name)["metadataOnly"] for name in slim} == slim
