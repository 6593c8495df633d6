"""A status write is stored by the real server, and its response is lost."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eventually import eventually
from kubernetes import client
from plugins.granted_roles import binding
from plugins.resourcequota.quota_server import CONTROLLER, ROLE, USER, QuotaNamespace, pod_manifest
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.etcd import Etcd
from kcm_host_testing.faults import Cut, Fault, Point, Stall
from kcm_host_testing.proxy import FaultProxy

#: Only deletions may be subtracted in this test.
SETTINGS = {"settleTime": "10m", "resyncPeriod": "0s"}


@pytest.fixture(scope="module")
def server(etcd: Etcd, kube_binaries: Path) -> Iterator[ApiServer]:
    """Return a server on which no other controller counts quotas."""
    with ApiServer(etcd, binaries=kube_binaries, users=[USER]) as server:
        rbac: Any = client.RbacAuthorizationV1Api(server.client())
        rbac.create_cluster_role_binding(binding("quota", user=USER, role=ROLE))
        yield server


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Stall(Point.ANSWER), id="no answer until the call is given up"),
        pytest.param(Cut(Point.ANSWER), id="the connection is cut, and the request sent again"),
    ],
)
def test_admission_admits_no_more_after_a_lost_response(server: ApiServer, fault: Fault) -> None:
    """
    What a stored write subtracted is not subtracted again when admission raises `used`.

    F-5: the usage is kept for a request in progress, here one whose object is never created.
    """
    config = {"controllers": {CONTROLLER: {"settings": SETTINGS}}}
    with (
        FaultProxy(server) as proxy,
        RunningHost(config, kubeconfig=proxy.kubeconfig(USER)) as host,
    ):
        place = QuotaNamespace(server)
        place.quota("pods", limit="5")
        place.wait_until({"pods": 0})
        for number in range(5):
            place.pod(f"p{number}")
        rule = proxy.add(fault, method="PUT", path=f"{place.name}/resourcequotas", times=1)
        place.delete_pod("p0")
        place.wait_until({"pods": 4})
        rule.wait_until_hit()
        eventually(lambda: _has_failed_and_ended(host), "the write is given up", timeout_seconds=90)
        with pytest.raises(client.ApiException, match="AlreadyExists"):
            place.core.create_namespaced_pod(place.name, pod_manifest("p1"))
        place.delete_pod("p1")
        eventually(lambda: place.used() != {"pods": 5}, "what went is taken off")
        place.wait_until_quiet()
        assert place.used() == {"pods": 4}


def _has_failed_and_ended(host: RunningHost) -> bool:
    """Return whether the sync without a response has failed and a later one has succeeded."""
    queue = host.controller(CONTROLLER)["queue"]
    # A waiting key may be the end of the settle time of an earlier increase.
    busy = queue["depth"] or queue["processing"] or queue["failing"]
    return bool(host.log("sync failed")) and not busy
