"""What a writer's methods send, and what the real server makes of it."""

import json
import secrets
from typing import Any

import pytest
from host.informer.stream_lines import ROLE
from host.reconcile.worker_rig import CONFIG_MAP, MakeSender
from kubernetes import client as official

from kcm_host.api.kinds import Key
from kcm_host.api.writes import Permission
from kcm_host.client.rest import METADATA_ONLY, user_agent_of
from kcm_host.reconcile.writer import SyncWriter
from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import Request
from kcm_host_testing.proxy import FaultProxy

PERMISSIONS = frozenset(Permission(kind=kind, verb="patch") for kind in (CONFIG_MAP, ROLE))
RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


@pytest.fixture
async def writer(live: MakeSender) -> SyncWriter:
    """The writer of one sync of ttl, with a live sender behind it."""
    return SyncWriter("ttl", live(), PERMISSIONS)


@pytest.fixture
def rbac(api_server: ApiServer) -> Any:
    """The official client for roles, as admin."""
    return official.RbacAuthorizationV1Api(api_server.client())


@pytest.fixture
def role_name() -> str:
    """The name of a ClusterRole that no other test uses."""
    return f"sync-{secrets.token_hex(4)}"


def only(proxy: FaultProxy, path: str) -> Request:
    """Return the one request whose path is exactly this."""
    (request,) = proxy.requests(path=f"^{path}$")
    return request


def told(request: Request) -> dict[str, Any]:
    """Return method, query, content type and body of a request."""
    return {
        "method": request.method,
        "query": dict(request.query),
        "content-type": request.headers["content-type"],
        "body": json.loads(request.body),
    }


async def test_a_patch_of_a_namespaced_object(
    writer: SyncWriter, fault_proxy: FaultProxy, core: Any, namespace: str
) -> None:
    """One merge patch with the changed fields alone, and no field manager."""
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "one"}, "data": {"a": "1"}})
    receipt = await writer.patch(CONFIG_MAP, Key("one", namespace), {"data": {"b": "2"}})
    request = only(fault_proxy, f"/api/v1/namespaces/{namespace}/configmaps/one")
    assert told(request) == {
        "method": "PATCH",
        "query": {},
        "content-type": MERGE,
        "body": {"data": {"b": "2"}},
    }
    assert request.user_agent == user_agent_of("ttl")
    assert request.headers["accept"] == METADATA_ONLY
    stored = core.read_namespaced_config_map("one", namespace)
    assert stored.data == {"a": "1", "b": "2"}
    assert receipt.resource_version == stored.metadata.resource_version
    assert receipt.uid == stored.metadata.uid
    assert receipt.attempts == 1
    assert stored.metadata.managed_fields[-1].manager == "kcm-host"


async def test_an_apply_of_a_namespaced_object(
    writer: SyncWriter, fault_proxy: FaultProxy, core: Any, namespace: str
) -> None:
    """Version, kind, name and namespace are added; manager and force are in the query."""
    key = Key("made", namespace)
    receipt = await writer.apply(
        CONFIG_MAP, key, {"data": {"a": "1"}, "metadata": {"labels": {"x": "y"}}}, field_manager="m"
    )
    request = only(fault_proxy, f"/api/v1/namespaces/{namespace}/configmaps/made")
    assert told(request) == {
        "method": "PATCH",
        "query": {"fieldManager": "m", "force": "true"},
        "content-type": APPLY,
        "body": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"labels": {"x": "y"}, "name": "made", "namespace": namespace},
            "data": {"a": "1"},
        },
    }
    stored = core.read_namespaced_config_map("made", namespace)
    assert (stored.data, stored.metadata.labels) == ({"a": "1"}, {"x": "y"})
    (managed,) = stored.metadata.managed_fields
    assert (managed.manager, managed.operation) == ("m", "Apply")
    assert receipt.uid == stored.metadata.uid


async def test_an_apply_of_a_cluster_wide_object(
    writer: SyncWriter, fault_proxy: FaultProxy, rbac: Any, role_name: str
) -> None:
    """There is no namespace in path or body; without force the query says nothing of it."""
    await writer.apply(ROLE, Key(role_name), {"rules": RULES}, field_manager="m", force=False)
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role_name}"
    assert told(only(fault_proxy, path)) == {
        "method": "PATCH",
        "query": {"fieldManager": "m"},
        "content-type": APPLY,
        "body": {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": role_name},
            "rules": RULES,
        },
    }
    assert rbac.read_cluster_role(role_name).rules[0].resources == ["pods"]


async def test_a_name_with_a_colon_reaches_its_object(
    writer: SyncWriter, rbac: Any, role_name: str
) -> None:
    """Names of roles may hold characters that mean something in a path."""
    name = f"system:{role_name}?a=b#c"
    await writer.apply(ROLE, Key(name), {"rules": RULES}, field_manager="m")
    names = [role.metadata.name for role in rbac.list_cluster_role().items]
    assert name in names
