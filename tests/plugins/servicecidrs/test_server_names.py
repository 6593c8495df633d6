"""The names by which operators of kube-controller-manager know the controller and its queue."""

from typing import Any

import pytest
from plugins.servicecidrs.server_cidrs import USER, CidrCluster
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer


@pytest.mark.parametrize("name", ["service-cidr-controller", "service-cidrs-controller"])
def test_long_names_are_accepted(cidr_server: ApiServer, name: str) -> None:
    """They mean the short one; five workers unless said otherwise (SC-1, SC-2, SC-4)."""
    config: Any = {"controllers": {name: {}}}
    with RunningHost(config, kubeconfig=cidr_server.kubeconfig(USER)) as host:
        assert host.controller("servicecidrs")["workers"] == 5


def test_the_work_queue_keeps_its_metric_name(cluster: CidrCluster) -> None:
    """Dashboards made for the reference find it, under a name of long ago (SC-5)."""
    assert 'workqueue_depth{name="ipaddresses"}' in cluster.host.metrics()


def test_of_addresses_only_metadata_is_fetched(cluster: CidrCluster) -> None:
    """One watch of each kind, without selector (SC-9)."""
    watches = {one.path: one for one in cluster.proxy.requests(when=lambda one: one.watch)}
    assert {path.rpartition("/")[2] for path in watches} == {"servicecidrs", "ipaddresses"}
    for watch in watches.values():
        assert watch.query.keys().isdisjoint({"labelSelector", "fieldSelector"})
    assert cluster.host.stream("ipaddresses")["metadataOnly"] is True
    assert cluster.host.stream("servicecidrs")["metadataOnly"] is False
