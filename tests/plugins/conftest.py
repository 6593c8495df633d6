"""One API server for the plugins' tests alone, with users that have the controllers' own roles."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from plugins.granted_roles import binding

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.etcd import Etcd

TTL_USER = "ttl"
AGGREGATION_USER = "aggregation"
CIDR_USER = "servicecidrs"
#: Users of the plugins' server -> the role the server itself makes for that controller.
ROLES = {
    TTL_USER: "system:controller:ttl-controller",
    AGGREGATION_USER: "system:controller:clusterrole-aggregation-controller",
    CIDR_USER: "system:controller:service-cidrs-controller",
}


@pytest.fixture(scope="session")
def plugin_server(etcd: Etcd, kube_binaries: Path) -> Iterator[ApiServer]:
    """
    A server on which no host runs but those of the tests below here.

    Nodes and ClusterRoles affect every controller that watches them, so these tests do not use the
    server of the session. User `nobody` has no permissions.
    """
    with ApiServer(etcd, binaries=kube_binaries, users=[*ROLES, "nobody"]) as server:
        rbac: Any = client.RbacAuthorizationV1Api(server.client())
        for user, role in ROLES.items():
            rbac.create_cluster_role_binding(binding(user, user=user, role=role))
        yield server
