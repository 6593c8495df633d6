"""Objects that one tenant may create, and that the decoder refuses, on a real server with RBAC."""

import json
import secrets
import ssl
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from eventually import eventually
from kubernetes import client
from plugins.resourceclaim.server_claims import Claims
from plugins.resourcequota.quota_server import QuotaNamespace, widgets
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.etcd import Etcd
from kcm_host_testing.faults import Answer, Rewrite
from kcm_host_testing.proxy import FaultProxy

TENANT = "alice"
GROUP = "tenants.example.com"
CONFIG: Any = {"controllers": {"resourceclaim": {}, "resourcequota": {}}}
STREAMING = {"sendInitialEvents": "true"}
GONE = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}'

#: Values that the API server takes for JSON, and the decoder does not.
DEEP = '{"a":' * 1_200 + "1" + "}" * 1_200
HALF_A_PAIR = r'{"a":"\ud800"}'


class Neighbour:
    """A namespace in which everything has to go on."""

    def __init__(self, server: ApiServer) -> None:
        self.quota = QuotaNamespace(server)
        self.claims = Claims(server, namespace=f"neighbour-{secrets.token_hex(4)}")
        self.claims.template()
        self._custom: Any = client.CustomObjectsApi(server.client())
        self._made = 0
        self.quota.quota(f"count/widgets.{GROUP}")

    def goes_on(self) -> None:
        """Return when a new pod has got its claim, and a new widget is counted."""
        self._made += 1
        name = f"n{self._made}"
        self.claims.pod(name)
        self.claims.made(name)
        place = (GROUP, "v1", self.quota.name, "widgets")
        self._custom.create_namespaced_custom_object(
            *place, {**_WIDGET, "metadata": {"name": name}}
        )
        self.quota.wait_until({f"count/widgets.{GROUP}": float(self._made)})


_WIDGET = {"apiVersion": f"{GROUP}/v1", "kind": "Widget"}


@pytest.fixture(scope="module")
def server(etcd: Etcd) -> Iterator[ApiServer]:
    """A server whose tenant may create claims and widgets in one namespace, and nothing else."""
    with ApiServer(etcd) as running:
        api = running.client()
        core: Any = client.CoreV1Api(api)
        extensions: Any = client.ApiextensionsV1Api(api)
        core.create_namespace({"metadata": {"name": "tenant"}})
        definition = widgets(GROUP)
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["x-kubernetes-preserve-unknown-fields"] = True
        extensions.create_custom_resource_definition(definition)
        rbac: Any = client.RbacAuthorizationV1Api(api)
        groups = ["resource.k8s.io", GROUP]
        rule = {
            "apiGroups": groups,
            "resources": ["resourceclaims", "widgets"],
            "verbs": ["create"],
        }
        rbac.create_namespaced_role("tenant", {"metadata": {"name": "tenant"}, "rules": [rule]})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": TENANT}
        bound = {"metadata": {"name": "tenant"}, "roleRef": role, "subjects": [subject]}
        rbac.create_namespaced_role_binding("tenant", bound)
        yield running


def post(server: ApiServer, path: str, body: str) -> None:
    """Create an object as the tenant, from text that no library has looked at."""
    headers = {
        "Authorization": f"Bearer {server.token(TENANT)}",
        "Content-Type": "application/json",
    }
    request = urllib.request.Request(f"{server.url}{path}", body.encode(), headers)
    trusted = ssl.create_default_context(cafile=str(server.ca_file))
    with urllib.request.urlopen(request, context=trusted) as answer:
        assert answer.status == 201


def create_bad_objects(server: ApiServer, value: str) -> None:
    """Create a claim and a widget with `value` inside, as the tenant."""
    name = f"bad-{secrets.token_hex(4)}"
    opaque = {"driver": "d.example", "parameters": "VALUE"}
    requests = [{"name": "r", "exactly": {"deviceClassName": "d"}}]
    spec = {"devices": {"requests": requests, "config": [{"opaque": opaque}]}}
    for group, resource, kind, content in (
        ("resource.k8s.io", "resourceclaims", "ResourceClaim", spec),
        (GROUP, "widgets", "Widget", {"value": "VALUE"}),
    ):
        told = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": name}}
        text = json.dumps({**told, "spec": content}).replace('"VALUE"', value)
        post(server, f"/apis/{group}/v1/namespaces/tenant/{resource}", text)


@pytest.mark.parametrize("value", [DEEP, HALF_A_PAIR], ids=["deep", "half a pair"])
def test_one_tenants_objects_hold_up_nobody_else(server: ApiServer, value: str) -> None:
    """
    Not as events, not in the list after an expired watch, not at a start, not in pages (F-1).

    The objects are undecodable, which the log tells; the host stays ready.
    """
    neighbour = Neighbour(server)
    with FaultProxy(server) as proxy:
        with RunningHost(CONFIG, kubeconfig=proxy.kubeconfig()) as host:
            neighbour.goes_on()
            create_bad_objects(server, value)
            neighbour.goes_on()
            assert host.stream("resourceclaims")["undecodableCount"] >= 1
            lists = host.stream("resourceclaims")["lists"]
            gone = Rewrite(lambda _: GONE)
            paths = "resourceclaims$|widgets$"
            proxy.add(gone, path=paths, query={"watch": "true"}, also_open=True, times=2)
            create_bad_objects(server, value)
            eventually(
                lambda: host.stream("resourceclaims")["lists"] > lists,
                "the claims are listed again",
            )
            neighbour.goes_on()
            assert host.page("/readyz")[0] == 200
        with RunningHost(CONFIG, kubeconfig=proxy.kubeconfig()):
            neighbour.goes_on()
        proxy.add(Answer(422, b"{}"), query=STREAMING)
        with RunningHost(CONFIG, kubeconfig=proxy.kubeconfig()) as host:
            neighbour.goes_on()
            assert host.stream("resourceclaims")["undecodableCount"] >= 2
            assert host.page("/readyz")[0] == 200
