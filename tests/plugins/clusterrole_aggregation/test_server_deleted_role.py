"""An apply to a role that is deleted meanwhile, by hosts that no other host is beside."""

import pytest
from eventually import eventually
from plugins.clusterrole_aggregation.server_roles import R1, USER, Roles, aggregation_host

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import Stall


def delete_before_apply(roles: Roles, own: str) -> None:
    """Hold back the apply to role `own` until the role is deleted."""
    stall = roles.proxy.add(Stall(), method="PATCH", path=f"/{own}$")
    roles.create(f"{own}-s1", R1, labels={own: "x"})
    roles.create(own, selectors=[{"matchLabels": {own: "x"}}])
    stall.wait_until_hit()
    roles.delete(own)
    roles.host.wait_until_seen("clusterroles", roles.touch())
    stall.remove()


@pytest.mark.parametrize("user", [USER, "admin"])
def test_it_is_not_recreated(plugin_server: ApiServer, own: str, user: str) -> None:
    """
    The apply is to the role that was read, whoever may create roles: the retry finds nothing.

    (CRA-21, CRA-57, CRA-T23, Difference g, F-7)
    """
    with aggregation_host(plugin_server, user=user) as roles:
        delete_before_apply(roles, own)
        (failure,) = eventually(lambda: roles.host.log("sync failed", key=own), "it is refused")
        assert "uid mismatch" in failure["error"]
        settled = roles.wait_until_idle()
        assert [apply.status for apply in roles.applies(own)] == [409]
        assert settled["queue"]["failing"] == {}
        assert not roles.exists(own)
