"""Kinds that may not be followed, or are not there: their controller waits, the rest runs."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from eventually import eventually
from granted_roles import granted
from host.supervise.loops import RunLoops, loop
from kubernetes import client as kubernetes
from plugin_site import PluginSite
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer

CONFIG_MAPS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}
SECRETS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"]}


@pytest.fixture
def create_definition(api_server: ApiServer, group: str) -> Iterator[Callable[[], None]]:
    """Create the CustomResourceDefinition of widgets; deleted with the test."""
    extensions: Any = kubernetes.ApiextensionsV1Api(api_server.client())
    name = f"widgets.{group}"
    schema = {"openAPIV3Schema": {"type": "object"}}
    definition = {
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    yield lambda: extensions.create_custom_resource_definition(definition)
    extensions.delete_custom_resource_definition(name)


def is_ready(host: RunningHost) -> bool:
    """Whether every controller runs."""
    return host.page("/readyz")[0] == 200


def test_a_denied_kind_holds_up_its_controller_alone(
    run_loops: RunLoops, site: PluginSite, api_server: ApiServer, core: Any, namespace: str
) -> None:
    """`/readyz` names it with what to grant, the others work, and it recovers when granted."""
    site.plugin("maps", loop(namespace=namespace))
    site.plugin("secretive", loop(namespace=namespace, kind=("", "Secret", "secrets")))
    with granted(api_server, "bob", [CONFIG_MAPS]) as grant:
        host = run_loops("maps", "secretive", user="bob", ready=False)
        core.create_namespaced_config_map(namespace, {"metadata": {"name": "a"}})
        eventually(
            lambda: host.controller("maps")["status"].get("synced") == ["a"], "the other syncs"
        )
        remedy = f"grant list and watch on '{namespace}/secrets' to the host's identity"
        eventually(lambda: remedy.encode() in host.page("/readyz")[1], "the remedy is told")
        code, body = host.page("/readyz?verbose")
        assert code == 503
        assert b"[+]maps ok" in body
        assert b"[-]secretive failed: " in body
        assert b'User "bob" cannot' in body
        assert host.controller("secretive")["phase"] == "starting"
        assert host.stream("secrets")["phase"] == "broken"
        grant([CONFIG_MAPS, SECRETS])
        core.create_namespaced_secret(namespace, {"metadata": {"name": "s"}})
        eventually(lambda: is_ready(host), "it recovers")
        eventually(
            lambda: host.controller("secretive")["status"].get("synced") == ["s"], "and syncs"
        )
        assert host.controller("secretive")["restarts"] == 0
        assert host.stream("secrets")["error"] == ""


def test_a_kind_that_is_not_served_holds_up_its_controller_alone(
    run_loops: RunLoops,
    site: PluginSite,
    core: Any,
    api_server: ApiServer,
    namespace: str,
    group: str,
    create_definition: Callable[[], None],
) -> None:
    """`/readyz` says what is missing; once its definition is there the controller starts."""
    site.plugin("maps", loop(namespace=namespace))
    site.plugin("widgets", loop(namespace=namespace, kind=(group, "Widget", "widgets")))
    host = run_loops("maps", "widgets", ready=False)
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "a"}})
    eventually(lambda: host.controller("maps")["status"].get("synced") == ["a"], "the other syncs")
    remedy = f"does not serve '{namespace}/widgets.{group}': install it or disable the controller"
    eventually(lambda: remedy.encode() in host.page("/readyz")[1], "the remedy is told")
    create_definition()
    eventually(lambda: is_ready(host), "it recovers")
    objects: Any = kubernetes.CustomObjectsApi(api_server.client())
    widget = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w"}}
    objects.create_namespaced_custom_object(group, "v1", namespace, "widgets", widget)
    eventually(
        lambda: host.controller("widgets")["status"].get("synced") == ["w"], "its sync has run"
    )
