"""Each controller writes under an identity of its own when the config file says so."""

import secrets
from typing import Any

from eventually import eventually
from kubernetes import client
from running_host import RunningHost
from ttl_nodes import TTL

from kcm_host_testing.api_server import ApiServer

CONFIG = {"controllers": {"ttl": {}}, "serviceAccountCredentials": True}
MANAGER = "kube-controller-manager"
ACCOUNT = "system:serviceaccount:kube-system:ttl-controller"


def test_a_controller_acts_as_the_references_account(own_api_server: Any) -> None:
    """A host that may not patch nodes runs ttl by the server's own role (H-32, 35, CRA-81)."""
    server: ApiServer = own_api_server()
    core: Any = client.CoreV1Api(server.client())
    name = f"node-{secrets.token_hex(4)}"
    core.create_node({"metadata": {"name": name}})
    with RunningHost(CONFIG, kubeconfig=server.kubeconfig(MANAGER)) as host:
        eventually(
            lambda: (core.read_node(name).metadata.annotations or {}).get(TTL) == "0",
            "the node is annotated",
        )
        assert host.log("sync failed") == []
    writes = server.audit.writes(user_agent="kcm-host/")
    assert {(one.user, one.resource) for one in writes if one.verb == "patch"} == {
        (ACCOUNT, "nodes")
    }
    assert {
        one.user for one in server.audit.entries(user_agent="kcm-host/") if one.verb == "watch"
    } == {f"system:{MANAGER}"}


def test_without_the_switch_the_host_is_one(own_api_server: Any) -> None:
    """The same host may not write nodes then, and says so."""
    server: ApiServer = own_api_server()
    core: Any = client.CoreV1Api(server.client())
    core.create_node({"metadata": {"name": "one"}})
    config = {"controllers": {"ttl": {}}}
    with RunningHost(config, kubeconfig=server.kubeconfig(MANAGER)) as host:
        eventually(lambda: host.log("sync failed") != [], "the refusal is told")
        (line, *_) = host.log("sync failed")
    assert "cannot patch resource" in line["error"]
