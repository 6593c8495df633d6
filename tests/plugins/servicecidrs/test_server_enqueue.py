"""The changes that queue ServiceCIDRs on a real server, and those that do not."""

from eventually import eventually
from plugins.servicecidrs.server_cidrs import (
    CONTROLLER,
    FIN_PLUS,
    STATUS_F,
    STATUS_T,
    TERMINATING,
    CidrCluster,
    Net,
    cut_off,
)


def test_addresses_of_living_ranges_queue_nothing(cluster: CidrCluster, own: Net) -> None:
    """They come and go as Services do; only deletions ask for them (SC-23, Difference b)."""
    cluster.create(own.name, f"{own.v4}.0/24")
    cluster.wait_until_complete(own.name)
    before = cluster.wait_until_idle()
    services = [cluster.create_service(f"{own.v4}.{number}") for number in range(7, 17)]
    eventually(lambda: managed(cluster) >= before["status"]["managedAddresses"] + 10, "they count")
    cluster.delete_services(*services)
    eventually(lambda: managed(cluster) == before["status"]["managedAddresses"], "they are gone")
    assert cluster.wait_until_idle()["syncs"] == before["syncs"]


def test_fields_that_are_not_read_queue_nothing(cluster: CidrCluster, own: Net) -> None:
    """Annotations and labels change without a sync (SC-21, Difference a)."""
    cluster.create(own.name, f"{own.v4}.0/24")
    cluster.wait_until_complete(own.name)
    before = cluster.wait_until_idle()
    for number in range(10):
        cluster.change(own.name, metadata={"annotations": {"a": str(number)}})
        cluster.change(own.name, metadata={"labels": {"a": str(number)}})
    assert cluster.wait_until_idle()["syncs"] == before["syncs"]


def test_lists_read_again_queue_nothing(cluster: CidrCluster, own: Net) -> None:
    """After 410 both kinds are listed again; where nothing changed, nothing is synced (Diff. a)."""
    cluster.create(own.name, f"{own.v4}.0/24")
    cluster.wait_until_complete(own.name)
    service = cluster.create_service(f"{own.v4}.7")
    before = cluster.wait_until_idle()
    for resource in ("servicecidrs", "ipaddresses"):
        lists = cluster.host.stream(resource)["lists"]
        cut_off(cluster.proxy, resource)
        eventually(
            lambda resource=resource, lists=lists: cluster.host.stream(resource)["lists"] > lists,
            f"{resource} are listed again",
        )
    after = cluster.wait_until_idle()
    assert after["syncs"] == before["syncs"]
    assert after["status"] == before["status"]
    cluster.delete_services(service)


def test_a_kept_one_is_left_alone(cluster: CidrCluster, own: Net) -> None:
    """More addresses, and fewer while one is left, change nothing (SC-61, Difference b)."""
    cluster.create(own.name, f"{own.v4}.0/24")
    cluster.wait_until_complete(own.name)
    first, second = (cluster.create_service(f"{own.v4}.{number}") for number in (7, 8))
    cluster.delete(own.name)
    eventually(lambda: cluster.ready_condition(own.name) == TERMINATING, "it is kept")
    before = cluster.wait_until_idle()
    assert {"serviceCIDR": own.name, "keptBy": f"{own.v4}.7"} in before["status"]["kept"]
    cluster.delete_services(first)
    other = {"serviceCIDR": own.name, "keptBy": f"{own.v4}.8"}
    eventually(lambda: other in cluster.wait_until_idle()["status"]["kept"], "the other blocks it")
    assert cluster.wait_until_idle()["syncs"] == before["syncs"]
    assert cluster.written(own.name) == [FIN_PLUS, STATUS_T, STATUS_F]
    cluster.set_finalizers(own.name)
    cluster.delete_services(second)


def managed(cluster: CidrCluster) -> int:
    """Return how many managed addresses the controller counts."""
    count: int = cluster.host.controller(CONTROLLER)["status"]["managedAddresses"]
    return count
