"""The slow sweep on a real API server (F-52)."""

from typing import Any

from eventually import eventually
from host.runtime.loops import RunLoops, loop
from plugin_site import PluginSite
from running_host import RunningHost

#: Marks each object as seen, once; the one that is called `missed` wakes nobody.
MARKING = """
from kcm_host.api import Permission

class Loop(Loop):
    @hookimpl
    def kcm_watches(self):
        options = {"namespace": "NAMESPACE", "resync": lambda key: key}
        return [Watch(kind=KIND, model=Thing, keys=self.keys, **options)]

    @hookimpl
    def kcm_writes(self):
        return [Permission(KIND, "patch")]

    @hookimpl
    async def kcm_sync(self, key, view, writer):
        self.synced.add(key.name)
        thing = view.of(KIND, Thing).get(key.name, key.namespace)
        if thing is not None and "LABEL" not in thing.metadata.get("labels", {}):
            await writer.patch(KIND, key, {"metadata": {"labels": {"LABEL": "seen"}}})
        return Done()
"""


def marking(namespace: str, label: str, *, keys: str = "pass") -> str:
    """Return the source of a controller that puts a label on everything."""
    source = loop(namespace=namespace, keys=keys) + MARKING
    return source.replace("NAMESPACE", namespace).replace("LABEL", label)


def missed(host: RunningHost, controller: str) -> float:
    """Return the metric of a controller."""
    return host.metrics()[f'kcm_host_missed_wakeups_total{{controller="{controller}"}}']


def syncs(host: RunningHost, controller: str) -> int:
    """Return how many syncs a controller has ended."""
    found: int = host.controller(controller)["syncs"]
    return found


def test_what_is_missed_is_mended_and_counted_once(
    run_loops: RunLoops, site: PluginSite, core: Any, namespace: str
) -> None:
    """The controller that missed a change is told by name; its neighbour counts nothing (F-52)."""
    forget = "if change.key.name == 'missed': return []"
    site.plugin("forgetful", marking(namespace, "f", keys=forget))
    site.plugin("careful", marking(namespace, "c"))
    often = {"workers": 1, "resyncPeriod": "200ms"}
    host = run_loops(controllers={"forgetful": often, "careful": often})
    for name in ("told", "missed"):
        core.create_namespaced_config_map(namespace, {"metadata": {"name": name}})
    eventually(lambda: missed(host, "forgetful"), "the missed wake-up is counted")
    labels = core.read_namespaced_config_map("missed", namespace).metadata.labels
    assert labels["f"] == "seen"
    before = {name: syncs(host, name) for name in ("forgetful", "careful")}
    for name, number in before.items():
        eventually(lambda: syncs(host, name) > number + 10, f"{name} is swept again")  # noqa: B023
    assert (missed(host, "forgetful"), missed(host, "careful")) == (1, 0)
    (line,) = host.log("wake-up missed, found by the periodic resync")
    key = f"{namespace}/missed"
    assert (line["controller"], line["key"]) == ("forgetful", key)
    assert line["write"] == f"patch configmaps '{key}'"
