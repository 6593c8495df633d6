"""What the controller sends to a real server, with which permissions, and what it never does."""

import json
from collections.abc import Iterator

import pytest
from eventually import eventually
from plugins.clusterrole_aggregation.server_roles import PATH, AggregatedRole, rule
from plugins.conftest import AGGREGATION_USER
from plugins.granted_roles import GROUP, granted
from plugins.proxied_host import proxied_host

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import Stall

CONTROLLER = "clusterrole-aggregation"
R1, R2 = rule("pods"), rule("nodes")


@pytest.fixture
def role(plugin_server: ApiServer) -> Iterator[AggregatedRole]:
    """A role that does not exist yet; it is deleted at the end."""
    role = AggregatedRole(plugin_server)
    yield role
    role.clean()


def may(*verbs: str) -> dict[str, object]:
    """Return a rule about ClusterRoles."""
    return {"apiGroups": [GROUP], "resources": ["clusterroles"], "verbs": list(verbs)}


def test_rules_are_written_by_one_forced_apply(
    plugin_server: ApiServer, role: AggregatedRole
) -> None:
    """
    All is the reference's (T1, T28, CRA-50 to 54), and the uid beside it (F-7, Difference g).

    Nothing else is written (CRA-6), and the controller's own role is enough (CRA-80).
    """
    with proxied_host(plugin_server, CONTROLLER, user=AGGREGATION_USER) as (proxy, _):
        role.create(R1, R2)
        eventually(lambda: role.resources() == ["pods", "nodes"], "it has both rules")
        applies = proxy.requests(when=lambda one: one.method != "GET")
        assert {one.status for one in proxy.requests()} == {200}
    (apply,) = [one for one in applies if one.path == f"{PATH}/{role.name}"]
    assert apply.query == {"fieldManager": f"{CONTROLLER}-controller", "force": "true"}
    assert apply.headers["content-type"] == "application/apply-patch+yaml"
    assert json.loads(apply.body) == {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": role.name, "uid": role.read().metadata.uid},
        "rules": [R1, R2],
    }
    assert {(one.method, one.path.rpartition("/")[0]) for one in applies} == {("PATCH", PATH)}


def test_four_verbs_are_needed_and_no_more(plugin_server: ApiServer, role: AggregatedRole) -> None:
    """Without escalate a user cannot write rules that he does not have (CRA-59, CRA-T22)."""
    reads_and_writes = may("list", "watch", "patch")
    with (
        granted(plugin_server, "nobody", [reads_and_writes]) as grant,
        proxied_host(plugin_server, CONTROLLER, user="nobody") as (proxy, host),
    ):
        role.create(R1)
        failure = eventually(lambda: host.log("sync failed", key=role.name), "it is refused")[0]
        assert "attempting to grant RBAC permissions not currently held" in failure["error"]
        grant([reads_and_writes, may("escalate")])
        eventually(lambda: role.resources() == ["pods"], "the role is written")
        applies = proxy.requests(path=f"/{role.name}$")
        assert {(apply.method, apply.status) for apply in applies[:-1]} == {("PATCH", 403)}


@pytest.mark.parametrize("user", [AGGREGATION_USER, "admin"])
def test_it_is_not_recreated(plugin_server: ApiServer, role: AggregatedRole, user: str) -> None:
    """
    The apply is to the role that was read, whoever may create roles: the retry finds nothing.

    (CRA-21, CRA-57, CRA-T23, Difference g, F-7)
    """
    with proxied_host(plugin_server, CONTROLLER, user=user) as (proxy, host):
        stall = proxy.add(Stall(), method="PATCH", path=f"/{role.name}$")
        role.create(R1)
        stall.wait_until_hit()
        role.delete()
        stall.remove()
        (failure,) = eventually(lambda: host.log("sync failed", key=role.name), "it is refused")
        assert "uid mismatch" in failure["error"]
        eventually(lambda: not host.controller(CONTROLLER)["queue"]["failing"], "it is given up")
        assert {apply.status for apply in proxy.requests(path=f"/{role.name}$")} == {409}
        assert role.read() is None
