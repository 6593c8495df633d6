"""The servicecidrs controller in a real host, behind a proxy, before a server of its own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from plugins.granted_roles import binding
from plugins.servicecidrs.server_cidrs import DUAL_STACK, ROLE, USER, CidrCluster, Net, cidr_host

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.etcd import Etcd


@pytest.fixture(scope="session")
def cidr_server(etcd: Etcd, kube_binaries: Path) -> Iterator[ApiServer]:
    """A dual-stack server on which no other controller follows ServiceCIDRs."""
    users = [USER, "nobody"]
    with ApiServer(etcd, binaries=kube_binaries, users=users, extra_args=DUAL_STACK) as server:
        rbac: Any = client.RbacAuthorizationV1Api(server.client())
        rbac.create_cluster_role_binding(binding(USER, user=USER, role=ROLE))
        yield server


@pytest.fixture(scope="module")
def cluster(cidr_server: ApiServer) -> Iterator[CidrCluster]:
    """A host with the controller's own permissions; tests use ranges of their own."""
    with cidr_host(cidr_server) as running:
        running.wait_until_idle()
        yield running


@pytest.fixture
def own() -> Net:
    """Ranges and a name that no other test uses."""
    return Net()
