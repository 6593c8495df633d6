"""Which permissions the aggregation controller needs on a real server."""

from eventually import eventually
from plugins.clusterrole_aggregation.server_roles import PATH, R1, USER, aggregation_host
from plugins.granted_roles import GROUP, granted

from kcm_host_testing.api_server import ApiServer


def may(*verbs: str) -> dict[str, object]:
    """Return a rule about ClusterRoles."""
    return {"apiGroups": [GROUP], "resources": ["clusterroles"], "verbs": list(verbs)}


def test_the_controllers_own_role_is_enough(plugin_server: ApiServer, own: str) -> None:
    """Roles are listed, watched and applied, and no request is refused (CRA-6, CRA-80)."""
    mark = plugin_server.audit.mark()
    with aggregation_host(plugin_server) as roles:
        roles.create(f"{own}-s1", R1, labels={own: "x"})
        roles.create(own, selectors=[{"matchLabels": {own: "x"}}])
        roles.wait_until_idle()
        requests = roles.proxy.requests()
        assert roles.rules(own) == [R1]
    assert {request.status for request in requests} == {200}
    reads = {(one.method, one.path) for one in requests if one.path.endswith("clusterroles")}
    assert reads == {("GET", PATH)}
    writes = plugin_server.audit.writes(since=mark, user_agent="kcm-host/")
    assert {(write.user, write.verb, write.resource) for write in writes} == {
        (USER, "patch", "clusterroles")
    }


def test_four_verbs_are_needed_and_no_more(plugin_server: ApiServer, own: str) -> None:
    """Without escalate a user cannot write rules that he does not have (CRA-59, CRA-T22)."""
    reads_and_writes = may("list", "watch", "patch")
    with (
        granted(plugin_server, "nobody", [reads_and_writes]) as grant,
        aggregation_host(plugin_server, user="nobody") as roles,
    ):
        roles.create(f"{own}-s1", R1, labels={own: "x"})
        roles.create(own, selectors=[{"matchLabels": {own: "x"}}])
        failure = eventually(lambda: roles.host.log("sync failed", key=own), "it is refused")[0]
        assert "attempting to grant RBAC permissions not currently held" in failure["error"]
        grant([reads_and_writes, may("escalate")])
        eventually(lambda: roles.rules(own) == [R1], "the role is written")
        statuses = [apply.status for apply in roles.applies(own)]
        assert set(statuses[:-1]) == {403}
        assert {apply.method for apply in roles.applies(own)} == {"PATCH"}
