"""The permissions that the controller needs, by hosts that no other host is beside."""

from eventually import eventually
from plugins.granted_roles import granted
from plugins.servicecidrs.server_cidrs import (
    FIN_PLUS,
    PATH,
    STATUS_T,
    TERMINATING,
    USER,
    Net,
    cidr_host,
)

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import Answer

GROUP = "networking.k8s.io"


def rule(group: str, resource: str, *verbs: str) -> dict[str, object]:
    """Return one rule of a role."""
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


READS = [rule(GROUP, "servicecidrs", "list", "watch"), rule(GROUP, "ipaddresses", "list", "watch")]
WRITES = [rule(GROUP, "servicecidrs", "patch"), rule(GROUP, "servicecidrs/status", "patch")]
EVENTS = [rule("", "events", "create", "patch")]


def test_the_controllers_own_role_is_enough(cidr_server: ApiServer, own: Net) -> None:
    """Two kinds are listed and watched, one patched; nothing is refused (SC-9, SC-98, SC-110)."""
    mark = cidr_server.audit.mark()
    with cidr_host(cidr_server) as cluster:
        cluster.create(own.name, f"{own.v4}.0/24")
        cluster.wait_until_complete(own.name)
        service = cluster.create_service(f"{own.v4}.7")
        cluster.delete(own.name)
        eventually(lambda: cluster.ready_condition(own.name) == TERMINATING, "it is kept")
        cluster.set_finalizers(own.name)
        cluster.delete_services(service)
        requests = cluster.proxy.requests()
    assert {request.status for request in requests} == {200}
    reads = {one.path for one in requests if one.method == "GET" and GROUP in one.path}
    assert {path for path in reads if path.count("/") > 3} == {
        PATH,
        f"/apis/{GROUP}/v1/ipaddresses",
    }
    writes = cidr_server.audit.writes(since=mark, user_agent="kcm-host/")
    assert {(one.user, one.verb, one.resource, one.subresource) for one in writes} == {
        (USER, "patch", "servicecidrs", ""),
        (USER, "patch", "servicecidrs", "status"),
    }


def test_few_verbs_are_needed_and_no_more(cidr_server: ApiServer, own: Net) -> None:
    """Without them writes are refused and retried; with them all is done (SC-T25, SC-110)."""
    with (
        granted(cidr_server, "nobody", READS) as grant,
        cidr_host(cidr_server, user="nobody") as cluster,
    ):
        cluster.create(own.name, f"{own.v4}.0/24")
        failures = eventually(lambda: cluster.host.log("sync failed", key=own.name), "a refusal")
        assert "cannot patch resource" in failures[0]["error"]
        broken = Answer(500, b"{}", {"Content-Type": "application/json"})
        cluster.proxy.add(broken, path=f"/{own.name}/status$", times=2)
        grant([*READS, *WRITES, *EVENTS])
        cluster.wait_until_complete(own.name)
        assert set(cluster.written(own.name)) == {FIN_PLUS, STATUS_T}
        eventually(lambda: [one.count for one in cluster.events(own.name)] == [2], "two failures")
