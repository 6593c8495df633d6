"""Objects that one tenant may create, and that the decoder refuses, on a real server with RBAC."""

import json
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from eventually import eventually
from kubernetes import client
from plugins.granted_roles import let_create
from plugins.resourceclaim.server_claims import Claims, post_text
from plugins.resourcequota.quota_server import QuotaNamespace, widgets
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.etcd import Etcd
from kcm_host_testing.faults import Answer, Rewrite
from kcm_host_testing.proxy import FaultProxy

#: The user and the namespace.
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
        definition = widgets(GROUP)
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["x-kubernetes-preserve-unknown-fields"] = True
        extensions: Any = client.ApiextensionsV1Api(running.client())
        extensions.create_custom_resource_definition(definition)
        Claims(running, namespace=TENANT)
        resources = ["resourceclaims", "widgets"]
        let_create(running, TENANT, namespace=TENANT, resources=resources)
        yield running


def create_bad_objects(server: ApiServer, value: str) -> None:
    """Create a claim and a widget with `value` inside, as the tenant."""
    name = f"bad-{secrets.token_hex(4)}"
    opaque = {"driver": "d.example", "parameters": "VALUE"}
    requests = [{"name": "r", "exactly": {"deviceClassName": "d"}}]
    claim = {"devices": {"requests": requests, "config": [{"opaque": opaque}]}}
    for group, kind, spec in (
        ("resource.k8s.io", "ResourceClaim", claim),
        (GROUP, "Widget", {"value": "VALUE"}),
    ):
        typed = {"apiVersion": f"{group}/v1", "kind": kind}
        text = json.dumps({**typed, "metadata": {"name": name}, "spec": spec})
        path = f"/apis/{group}/v1/namespaces/{TENANT}/{kind.lower()}s"
        post_text(server, path, text.replace('"VALUE"', value), user=TENANT)


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
