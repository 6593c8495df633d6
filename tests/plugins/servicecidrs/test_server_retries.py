"""Failed writes of the servicecidrs controller, before a real server."""

import pytest
from eventually import eventually
from plugins.servicecidrs.server_cidrs import (
    CONTROLLER,
    FIN_PLUS,
    FINALIZER,
    STATUS_T,
    TERMINATING,
    CidrCluster,
    Net,
    refusal,
)

from kcm_host_testing.faults import Stall

OTHER = "example.com/other"


def waits(cluster: CidrCluster, name: str) -> list[str]:
    """Return the waits that the host announced after failures of one key."""
    return [line["retry_in"] for line in cluster.host.log("sync failed", key=name)]


def statuses(cluster: CidrCluster, name: str) -> list[tuple[str, int | None]]:
    """Return the sort of each write with its answer."""
    return [
        (sort, request.status)
        for sort, request in zip(cluster.written(name), cluster.requests(name), strict=True)
    ]


def test_a_condition_that_cannot_be_written_is_reported(cluster: CidrCluster, own: Net) -> None:
    """One Event, counted once an attempt; waits of 5, 10, 20 ms (T23, SC-10, SC-74, 101, 120)."""
    name = own.name
    cluster.proxy.add(refusal(500), path=f"/{name}/status$", times=3)
    cluster.create(name, f"{own.v4}.0/24")
    cluster.wait_until_complete(name)
    cluster.wait_until_idle()
    answers = [(STATUS_T, 500)] * 3 + [(STATUS_T, 200)]
    assert statuses(cluster, name) == [(FIN_PLUS, 200), *answers]
    assert waits(cluster, name) == ["0.005s", "0.01s", "0.02s"]
    eventually(lambda: [one.count for one in cluster.events(name)] == [3], "an Event counts three")
    (event,) = cluster.events(name)
    found = cluster.read(name)
    assert found is not None
    assert (event.type, event.reason) == ("Warning", "KubernetesServiceCIDRError")
    assert event.message == "The ServiceCIDR Status can not be set to Ready=True"
    assert event.source.component == event.reporting_component == "service-cidr-controller"
    involved = event.involved_object
    assert (involved.api_version, involved.kind) == ("networking.k8s.io/v1", "ServiceCIDR")
    assert (involved.name, involved.uid) == (name, found["metadata"]["uid"])
    assert involved.resource_version


def test_success_resets_the_backoff(cluster: CidrCluster, own: Net) -> None:
    """The next failure waits 5 ms again (SC-T24, SC-100)."""
    name = own.name
    cluster.proxy.add(refusal(500), path=f"/{name}/status$", times=2)
    cluster.create(name, f"{own.v4}.0/24")
    cluster.wait_until_complete(name)
    cluster.wait_until_idle()
    cluster.proxy.add(refusal(500), path=f"/{name}/status$", times=1)
    cluster.set_condition(name, *TERMINATING)
    cluster.wait_until_delivered()
    cluster.wait_until_complete(name)
    cluster.wait_until_idle()
    assert waits(cluster, name) == ["0.005s", "0.01s", "0.005s"]
    assert cluster.host.controller(CONTROLLER)["queue"]["failing"] == {}


@pytest.mark.parametrize("status", [403, 409, 422, 500])
def test_a_finalizer_that_is_refused_ends_the_sync(
    cluster: CidrCluster, own: Net, status: int
) -> None:
    """No status request and no Event before it is there (SC-T25, SC-70, SC-105)."""
    name = own.name
    cluster.proxy.add(refusal(status), path=f"/{name}$", times=2)
    cluster.create(name, f"{own.v4}.0/24")
    cluster.wait_until_complete(name)
    cluster.wait_until_idle()
    refused = [(FIN_PLUS, status)] * 2
    assert statuses(cluster, name) == [*refused, (FIN_PLUS, 200), (STATUS_T, 200)]
    assert cluster.events(name) == []


def test_one_that_is_deleted_meanwhile_is_no_error(cluster: CidrCluster, own: Net) -> None:
    """404 twice, an Event, and a retry that finds nothing (SC-T26, SC-71, SC-86)."""
    name = own.name
    stall = cluster.proxy.add(Stall(), method="PATCH", path=f"/{name}$", times=1)
    cluster.create(name, f"{own.v4}.0/24")
    stall.wait_until_hit()
    cluster.delete(name)
    cluster.wait_until_delivered()
    stall.remove()
    eventually(lambda: len(cluster.requests(name)) == 2, "both are sent")
    settled = cluster.wait_until_idle()
    assert statuses(cluster, name) == [(FIN_PLUS, 404), (STATUS_T, 404)]
    assert settled["queue"]["failing"] == {}
    assert cluster.read(name) is None


def test_a_deletion_not_seen_yet_is_an_ordinary_error(cluster: CidrCluster, own: Net) -> None:
    """The server adds no finalizer to what is being deleted; the retry succeeds (SC-106, SC-66)."""
    name = own.name
    stall = cluster.proxy.add(Stall(), method="PATCH", path=f"/{name}$", times=1)
    cluster.create(name, f"{own.v4}.0/24", finalizers=[OTHER])
    stall.wait_until_hit()
    cluster.delete(name)
    cluster.wait_until_delivered()
    stall.remove()
    eventually(lambda: waits(cluster, name), "it is refused")
    cluster.wait_until_idle()
    assert statuses(cluster, name) == [(FIN_PLUS, 422)]
    assert cluster.finalizers(name) == [OTHER]
    assert cluster.events(name) == []
    cluster.set_finalizers(name)


def test_a_failed_report_of_a_blocked_deletion_is_no_event(cluster: CidrCluster, own: Net) -> None:
    """The write of the condition is the result of the sync; it is retried (SC-61, SC-121)."""
    name = own.name
    cluster.create(name, f"{own.v4}.0/24")
    cluster.wait_until_complete(name)
    service = cluster.create_service(f"{own.v4}.7")
    cluster.proxy.add(refusal(500), path=f"/{name}/status$", times=2)
    cluster.delete(name)
    eventually(lambda: cluster.ready_condition(name) == TERMINATING, "it is kept")
    assert waits(cluster, name) == ["0.005s", "0.01s"]
    assert cluster.events(name) == []
    cluster.set_finalizers(name)
    cluster.delete_services(service)


def test_one_that_fails_holds_up_no_other(cluster: CidrCluster, own: Net) -> None:
    """The failure belongs to its key, and is never given up (SC-101, Difference e)."""
    name, other = own.name, f"{own.name}-other"
    rule = cluster.proxy.add(refusal(500), path=f"/{name}/status$")
    cluster.create(name, f"{own.v4}.0/24")
    rule.wait_until_hit(4)
    cluster.create(other, f"{own.v4}.0/25", finalizers=[FINALIZER])
    cluster.wait_until_complete(other)
    assert cluster.host.controller(CONTROLLER)["queue"]["failing"][name]["failures"] >= 4
    rule.remove()
    cluster.wait_until_complete(name)
