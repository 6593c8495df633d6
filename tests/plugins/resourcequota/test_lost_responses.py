"""A status write is stored by the real server, and its response is lost."""

import pytest
from eventually import eventually
from kubernetes import client
from plugins.proxied_host import proxied_host
from plugins.resourcequota.quota_server import CONTROLLER, USER, QuotaNamespace, pod_manifest
from plugins.tables import row
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import Cut, Fault, Point, Stall

#: Only deletions may be subtracted in this test.
SETTINGS = {"settleTime": "10m", "resyncPeriod": "0s"}


@pytest.mark.parametrize(
    "fault",
    [
        row("no answer until the call is given up", Stall(Point.ANSWER)),
        row("the connection is cut, and the request sent again", Cut(Point.ANSWER)),
    ],
)
def test_admission_admits_no_more_after_a_lost_response(
    quota_server: ApiServer, fault: Fault
) -> None:
    """
    What a stored write subtracted is not subtracted again when admission raises `used`.

    F-5: the usage is kept for a request in progress, here one whose object is never created.
    """
    with proxied_host(quota_server, CONTROLLER, user=USER, **SETTINGS) as (proxy, host):
        place = QuotaNamespace(quota_server)
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
