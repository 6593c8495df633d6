"""The quota controller in a real host, with the permissions of its built-in role."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from plugins.granted_roles import binding
from plugins.resourcequota.quota_server import ROLE, USER, QuotaNamespace, quota_host
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.etcd import Etcd


@pytest.fixture(scope="session")
def quota_server(etcd: Etcd, kube_binaries: Path) -> Iterator[ApiServer]:
    """A server with quota admission and without another quota controller."""
    with ApiServer(etcd, binaries=kube_binaries, users=[USER, "nobody"]) as server:
        rbac: Any = client.RbacAuthorizationV1Api(server.client())
        rbac.create_cluster_role_binding(binding("quota", user=USER, role=ROLE))
        yield server


@pytest.fixture(scope="module")
def quota_controller(quota_server: ApiServer) -> Iterator[RunningHost]:
    """A host with a settle time of one second."""
    with quota_host(quota_server, settleTime="1s") as host:
        yield host


@pytest.fixture
def place(quota_server: ApiServer, quota_controller: RunningHost) -> QuotaNamespace:
    """A new namespace on the server with the running controller."""
    assert quota_controller.process.running
    return QuotaNamespace(quota_server)
