"""A controller with metrics and Events of its own, on a real server."""

from pathlib import Path
from typing import Any

import pytest
from eventually import eventually
from kubernetes import client
from plugin_site import PluginSite, controller
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer

TELLING = """
    from functools import partial
    from kcm_host.api import EVENTS, ControllerInfo, Metric

    def watches(self):
        keys = lambda change, view: [change.key]
        selector = "acme.example/telling=NAMESPACE"
        return [Watch(kind=CONFIG_MAPS, model=ConfigMap, keys=keys, label_selector=selector)]

    def writes(self):
        return EVENTS

    def metrics(self, view):
        held = len(view.of(CONFIG_MAPS, ConfigMap))
        gauge = partial(Metric, type="gauge")
        return [
            gauge(name="acme_config_maps", help="Held.", series=(({"shop": "a"}, held),)),
            gauge(name="kcm_host_ready", help="Taken.", series=(({}, 5),)),
        ]

    for name, hook in list(globals().items()):
        if name in ("watches", "writes", "metrics"):
            setattr(Loop, "kcm_" + name, hookimpl(hook))
    Loop.kcm_info = staticmethod(hookimpl(lambda: ControllerInfo(workers=3)))
"""
SYNC = """
writer.event(CONFIG_MAPS, key, reason="Seen", message="seen by acme", warning=False)
if not key.name.startswith("one"):
    raise ValueError("it is retried")
"""


@pytest.fixture
def telling(tmp_path: Path, namespace: str) -> PluginSite:
    """A controller that tells of the config maps of one namespace, by their label."""
    site = PluginSite(tmp_path / "site")
    source = controller(SYNC, settings=TELLING.replace("NAMESPACE", namespace))
    site.plugin("telling", source.replace("kcm_sync(self, key)", "kcm_sync(self, key, writer)"))
    return site


def test_metrics_events_and_workers_of_a_plugin(
    telling: PluginSite, api_server: ApiServer, namespace: str
) -> None:
    """What a plugin says in its hooks and by its writer reaches Prometheus, users and operators."""
    core: Any = client.CoreV1Api(api_server.client())
    labels = {"acme.example/telling": namespace}
    for name in ("one", "two"):
        core.create_namespaced_config_map(namespace, {"metadata": {"name": name, "labels": labels}})

    def events(name: str, least: int) -> Any:
        found = core.list_namespaced_event(namespace).items
        mine = [one for one in found if one.involved_object.name == name]
        return mine if mine and mine[0].count >= least else None

    config: dict[str, Any] = {"controllers": {"telling": {}}}
    environment = telling.environment
    kubeconfig = api_server.kubeconfig()
    with RunningHost(config, kubeconfig=kubeconfig, environment=environment) as host:
        (one,) = eventually(lambda: events("one", 1), "a sync's Event is there")
        assert (one.type, one.reason, one.message) == ("Normal", "Seen", "seen by acme")
        assert one.source.component == "telling"
        found = core.read_namespaced_config_map("one", namespace)
        assert one.involved_object.uid == found.metadata.uid
        (two,) = eventually(lambda: events("two", 5), "an Event that is said again is counted")
        assert two.metadata.name.startswith("two.")
        shown = host.metrics()
        assert shown['acme_config_maps{shop="a"}'] == 2
        assert shown["kcm_host_ready"] == 1
        assert host.controller("telling")["workers"] == 3
        (line,) = host.log("metric omitted")
        assert line["metric"] == "kcm_host_ready"
        assert host.stop() == 0
