"""Kinds that may not be followed, or are not there: their controller waits, the rest runs."""

from typing import Any

from eventually import eventually
from host.runtime.definitions import Definitions
from host.runtime.loops import RunLoops, loop
from plugin_site import PluginSite
from plugins.granted_roles import granted
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer

CONFIG_MAPS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}
SECRETS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"]}


def is_ready(host: RunningHost) -> bool:
    """Return whether every controller runs."""
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
        assert host.stream("secrets")["phase"] == "failed"
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
    namespace: str,
    definitions: Definitions,
) -> None:
    """`/readyz` names the kind; the controller runs once it is served."""
    site.plugin("maps", loop(namespace=namespace))
    site.plugin("widgets", loop(namespace=namespace, kind=(definitions.group, "Widget", "widgets")))
    host = run_loops("maps", "widgets", ready=False)
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "a"}})
    eventually(lambda: host.controller("maps")["status"].get("synced") == ["a"], "the other syncs")
    kind = f"{namespace}/widgets.{definitions.group}"
    remedy = f"does not serve '{kind}': install it or disable the controller"
    eventually(lambda: remedy.encode() in host.page("/readyz")[1], "the remedy is told")
    definitions.create("Widget")
    eventually(lambda: is_ready(host), "it recovers")
    definitions.create_objects("Widget", namespace, "w")
    eventually(
        lambda: host.controller("widgets")["status"].get("synced") == ["w"], "its sync has run"
    )


def test_a_kind_that_is_not_required_holds_up_nothing(
    run_loops: RunLoops, site: PluginSite, api_server: ApiServer, core: Any, namespace: str
) -> None:
    """With `awaited=False` the controller syncs and is ready, and its state has the problem."""
    aside = """
        class Other(msgspec.Struct, frozen=True):
            metadata: dict[str, object] = {}
        secrets = Kind(group="", version="v1", name="Secret", resource="secrets")
        other = Watch(
            kind=secrets, model=Other, keys=self.keys, namespace="NAMESPACE", awaited=False
        )
        return [
            other, Watch(kind=KIND, model=Thing, keys=self.keys, namespace="NAMESPACE")
        ]
    """
    site.plugin("maps", loop(namespace=namespace, watches=aside.replace("NAMESPACE", namespace)))
    with granted(api_server, "bob", [CONFIG_MAPS]) as grant:
        host = run_loops("maps", user="bob")
        core.create_namespaced_config_map(namespace, {"metadata": {"name": "a"}})
        eventually(lambda: host.controller("maps")["status"].get("synced") == ["a"], "it syncs")
        eventually(lambda: "grant list and watch" in host.controller("maps")["problem"], "told")
        assert is_ready(host)
        grant([CONFIG_MAPS, SECRETS])
        core.create_namespaced_secret(namespace, {"metadata": {"name": "b"}})
        eventually(lambda: host.controller("maps")["status"]["synced"] == ["a", "b"], "it recovers")
