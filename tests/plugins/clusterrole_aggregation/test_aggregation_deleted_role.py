"""A role that is deleted while the controller is about to write it."""

from cluster_roles import R1, USER, Roles, aggregation_host
from eventually import eventually

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import Stall


def delete_before_apply(roles: Roles, own: str) -> None:
    """Hold back the apply to role `own`, delete the role, and let the apply go."""
    stall = roles.proxy.add(Stall(), method="PATCH", path=f"/{own}$")
    roles.create(f"{own}-s1", R1, labels={own: "x"})
    roles.create(own, selectors=[{"matchLabels": {own: "x"}}])
    stall.wait_until_hit()
    roles.delete(own)
    roles.host.wait_until_seen("clusterroles", roles.touch())
    stall.remove()


def test_it_is_not_made_anew(plugin_server: ApiServer, own: str) -> None:
    """The role has no `create`: the server refuses, the retry finds nothing (CRA-57, 21, T23)."""
    with aggregation_host(plugin_server, user=USER) as roles:
        delete_before_apply(roles, own)
        (failure,) = eventually(lambda: roles.host.log("sync failed", key=own), "it is refused")
        assert "cannot create resource" in failure["error"]
        settled = roles.settle()
        assert [apply.status for apply in roles.applies(own)] == [403]
        assert settled["queue"]["failing"] == {}
        assert not roles.exists(own)


def test_an_identity_that_may_create_would_make_it_anew(plugin_server: ApiServer, own: str) -> None:
    """That is why `create` is not asked for: half a role would come back (CRA-57)."""
    with aggregation_host(plugin_server, user="admin") as roles:
        delete_before_apply(roles, own)
        eventually(lambda: roles.exists(own), "the role is back")
        role = roles.read(own)
        assert role["rules"] == [R1]
        assert "aggregationRule" not in role
        assert "labels" not in role["metadata"]
