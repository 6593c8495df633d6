"""Each controller writes with its own service account when that is configured."""

import secrets
from typing import Any

from eventually import eventually
from kubernetes import client
from plugins.ttl.server_nodes import TTL
from running_host import RunningHost

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


def test_refused_writes_make_a_controller_not_ready(own_api_server: Any) -> None:
    """After 30 s `/readyz` names the missing rule and the user, until it is granted (F-81)."""
    server: ApiServer = own_api_server()
    core: Any = client.CoreV1Api(server.client())
    core.create_node({"metadata": {"name": "one"}})
    config: dict[str, Any] = {"controllers": {"ttl": {}}}
    with RunningHost(config, kubeconfig=server.kubeconfig(MANAGER)) as host:
        eventually(lambda: host.page("/readyz")[0] == 503, "not ready", timeout_seconds=120)
        (line, *_) = host.log("sync failed")
        assert "cannot patch resource" in line["error"]
        problem = host.controller("ttl")["problem"]
        assert problem == (
            "its requests are refused (403): grant {verbs: ['patch'], resources: ['nodes'], "
            f"apiGroups: ['']}} to 'system:{MANAGER}'"
        )
        grant(server, {"verbs": ["patch"], "resources": ["nodes"], "apiGroups": [""]})
        # A node that is new is tried often, the other one not again for a minute.
        core.create_node({"metadata": {"name": "two"}})
        eventually(lambda: host.page("/readyz")[0] == 200, "ready", timeout_seconds=120)


def test_tokens_are_tried_at_the_start(own_api_server: Any) -> None:
    """Without a right to tokens the controller is not ready, before any write is due (F-81)."""
    server: ApiServer = own_api_server()
    reads = {"verbs": ["list", "watch"], "resources": ["nodes"], "apiGroups": [""]}
    grant(server, reads, user="alice")
    with RunningHost(CONFIG, kubeconfig=server.kubeconfig("alice"), ready=False) as host:
        eventually(lambda: host.log("controller has no credentials"), "it is logged")
        assert host.page("/readyz")[0] == 503
        assert "grant create on serviceaccounts/token" in host.controller("ttl")["problem"]
        assert host.controller("ttl")["syncs"] == 0
        tokens = {
            "verbs": ["get", "create"],
            "resources": ["namespaces", "serviceaccounts", "serviceaccounts/token"],
            "apiGroups": [""],
        }
        grant(server, tokens, user="alice")
        eventually(lambda: host.page("/readyz")[0] == 200, "ready", timeout_seconds=120)


def grant(server: ApiServer, rule: dict[str, Any], *, user: str = f"system:{MANAGER}") -> None:
    """Grant a user one more rule, cluster-wide."""
    rbac: Any = client.RbacAuthorizationV1Api(server.client())
    name = f"more-{secrets.token_hex(4)}"
    rbac.create_cluster_role({"metadata": {"name": name}, "rules": [rule]})
    of_api = {"apiGroup": "rbac.authorization.k8s.io"}
    binding = {
        "metadata": {"name": name},
        "roleRef": {**of_api, "kind": "ClusterRole", "name": name},
        "subjects": [{**of_api, "kind": "User", "name": user}],
    }
    rbac.create_cluster_role_binding(binding)
