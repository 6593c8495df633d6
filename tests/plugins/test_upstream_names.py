"""The names by which operators of kube-controller-manager know the controllers and their work."""

from collections.abc import Iterator
from typing import Any

import pytest
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.proxy import FaultProxy

CONFIG: dict[str, Any] = {
    "controllers": {"ttl-controller": {}, "clusterrole-aggregation-controller": {}}
}


@pytest.fixture(scope="module")
def proxy(plugin_server: ApiServer) -> Iterator[FaultProxy]:
    """What stands between host and server."""
    with FaultProxy(plugin_server) as running:
        yield running


@pytest.fixture(scope="module")
def host(proxy: FaultProxy) -> Iterator[RunningHost]:
    """A host with both controllers under their long names."""
    with RunningHost(CONFIG, kubeconfig=proxy.kubeconfig()) as running:
        yield running


def test_long_names_are_accepted(host: RunningHost) -> None:
    """They mean the short ones; five workers each unless said otherwise (TTL-1, 3, CRA-1, 2)."""
    controllers = {one["name"]: one["workers"] for one in host.status()["controllers"]}
    assert controllers == {"clusterrole-aggregation": 5, "ttl": 5}


def test_work_queues_keep_their_metric_names(host: RunningHost) -> None:
    """Dashboards made for the reference find them (TTL-4, CRA-4)."""
    metrics = host.metrics()
    assert 'workqueue_depth{name="ttlcontroller"}' in metrics
    assert 'workqueue_depth{name="ClusterRoleAggregator"}' in metrics


def test_all_objects_are_followed_slim(host: RunningHost, proxy: FaultProxy) -> None:
    """One watch of each kind without selector; of nodes only metadata is sent (TTL-6, CRA-5)."""
    watches = {one.path: one for one in proxy.requests(when=lambda request: request.watch)}
    assert set(watches) == {
        "/api/v1/nodes",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    }
    for watch in watches.values():
        assert watch.query.keys().isdisjoint({"labelSelector", "fieldSelector"})
    assert host.stream("nodes")["metadataOnly"] is True
    assert "PartialObjectMetadata" in watches["/api/v1/nodes"].headers["accept"]
