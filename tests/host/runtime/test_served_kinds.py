"""Controllers whose watches depend on what the server serves."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from eventually import eventually
from host.informer.reflector.mirror import until
from host.runtime.definitions import Definitions
from host.runtime.loops import RunLoops, loop
from plugin_site import PluginSite
from running_host import RunningHost

from kcm_host.client.discovery import CachedDiscoveryClient
from kcm_host.client.rest import Client, user_agent_of
from kcm_host.runtime import discovery_poller
from kcm_host.runtime.discovery_poller import poll_discovery
from kcm_host_testing.faults import Answer
from kcm_host_testing.proxy import FaultProxy

#: What is served is asked often; the module is in the host's process.
EAGER = """
from kcm_host.runtime import discovery_poller
discovery_poller.POLL_SECONDS = 0.2
"""
#: Follows the first of these that is served, or nothing.
CHOOSING = """
from kcm_host.api import Kind
kinds = [Kind("GROUP", "v1", name, f"{name.lower()}s") for name in ("Gadget", "Widget")]
found = discovery.first_served(*kinds)
return [Watch(kind=found, model=Thing, keys=self.keys, namespace="NAMESPACE")] if found else []
"""


def choosing(namespace: str, group: str, *, watches: str = CHOOSING, sync: str = "pass") -> str:
    """Give the source of a controller that asks what is served."""
    source = loop(
        namespace=namespace,
        watches=watches.replace("GROUP", group).replace("NAMESPACE", namespace),
        sync=sync,
    )
    return source.replace("def kcm_watches(self)", "def kcm_watches(self, discovery)") + EAGER


def until_synced(host: RunningHost, *names: str) -> None:
    """Wait until the present instance has synced these and no others."""
    eventually(
        lambda: host.controller("choosing")["status"].get("synced") == sorted(names),
        f"synced {names}",
    )


def test_nothing_to_follow_is_no_trouble(
    run_loops: RunLoops, site: PluginSite, namespace: str, group: str
) -> None:
    """A controller without watches runs, is ready, does nothing, and says so (F-92)."""
    site.plugin("choosing", choosing(namespace, group))
    host = run_loops("choosing")
    told = host.controller("choosing")
    assert (told["phase"], told["ready"], told["problem"]) == ("running", True, "")
    assert told["syncs"] == 0
    assert host.status()["streams"] == []
    why = "the server serves none of the kinds that it watches"
    assert told["idle"] == why
    assert host.page("/readyz?verbose") == (
        200,
        f"[+]choosing ok, idle: {why}\nreadyz check passed\n".encode(),
    )
    (line,) = host.log("controller idle")
    assert (line["controller"], line["reason"], line["level"]) == ("choosing", why, "info")
    assert host.stop() == 0


def test_a_kind_that_comes_up_later_is_followed(
    run_loops: RunLoops, site: PluginSite, namespace: str, definitions: Definitions
) -> None:
    """A fresh instance begins at once, and again when a better kind comes or the kind goes."""
    site.plugin("choosing", choosing(namespace, definitions.group))
    host = run_loops("choosing")
    definitions.create("Widget")
    definitions.create_objects("Widget", namespace, "w")
    until_synced(host, "w")
    told = host.controller("choosing")
    assert (told["restarts"], told["ready"]) == (1, True)
    assert told["status"]["start"] > 1
    (line,) = host.log("controller restarting")
    assert line["level"] == "info"
    watches = f"watches 'widgets.{definitions.group}' v1"
    assert line["problem"] == f"the server serves other kinds now: it {watches}"
    definitions.create("Gadget")
    definitions.create_objects("Gadget", namespace, "g")
    until_synced(host, "g")
    assert [stream["resource"] for stream in host.status()["streams"]] == ["gadgets"]
    definitions.delete("Gadget")
    until_synced(host, "w")
    definitions.delete("Widget")
    eventually(lambda: host.status()["streams"] == [], "nothing is followed")
    eventually(lambda: host.controller("choosing")["ready"], "it idles")
    assert host.controller("choosing")["restarts"] == 4


def test_running_syncs_end_with_what_they_work_on(
    run_loops: RunLoops, site: PluginSite, namespace: str, definitions: Definitions
) -> None:
    """A sync of the former instance is cancelled, and its successor does not wait for it."""
    hang = "if key.name == 'w': await asyncio.sleep(3600)"
    site.plugin("choosing", choosing(namespace, definitions.group, sync=hang))
    host = run_loops("choosing")
    definitions.create("Widget")
    definitions.create_objects("Widget", namespace, "w")
    eventually(lambda: host.controller("choosing")["queue"]["processing"], "a sync is running")
    definitions.create("Gadget")
    definitions.create_objects("Gadget", namespace, "g")
    until_synced(host, "g")
    assert host.metrics()['kcm_host_syncs_total{controller="choosing",outcome="cancelled"}'] == 1


def test_other_changes_restart_nothing(
    run_loops: RunLoops, site: PluginSite, namespace: str, definitions: Definitions
) -> None:
    """A kind that does not change the answer of `kcm_watches` leaves the controller alone."""
    site.plugin("choosing", choosing(namespace, definitions.group))
    definitions.create("Gadget")
    definitions.create_objects("Gadget", namespace, "g")
    host = run_loops("choosing")
    definitions.create("Widget")
    definitions.create("Sprocket")
    definitions.create_objects("Sprocket", namespace, "s")
    eventually(lambda: host.log("served kinds changed"), "the change is seen")
    definitions.create_objects("Gadget", namespace, "h")
    until_synced(host, "g", "h")
    told = host.controller("choosing")
    assert (told["restarts"], told["status"]["start"]) == (0, 1)


def test_a_plugin_that_fails_to_answer_goes_on_as_it_is(
    run_loops: RunLoops, site: PluginSite, namespace: str, definitions: Definitions
) -> None:
    """A fresh instance whose `kcm_watches` raises is told; the running one is left alone."""
    watches = 'if self.start > 1: raise OSError("no such thing")\n' + CHOOSING
    site.plugin("choosing", choosing(namespace, definitions.group, watches=watches))
    host = run_loops("choosing")
    definitions.create("Widget")
    (line, *_) = eventually(lambda: host.log("watches not compared"), "the error is told")
    assert "no such thing" in line["problem"]
    told = host.controller("choosing")
    assert (told["phase"], told["restarts"], told["ready"]) == ("running", 0, True)


class Dependant:
    """A controller that depends on what is served only once the test says so."""

    def __init__(self) -> None:
        self.heeds = False
        self.times_asked = 0
        self.times_told = 0

    @property
    def depends_on_discovery(self) -> bool:
        """See `DiscoveryListener`."""
        self.times_asked += 1
        return self.heeds

    def discovery_changed(self) -> None:
        """See `DiscoveryListener`."""
        self.times_told += 1


@pytest.fixture
async def dependant(client: Client, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Dependant]:
    """Give the one controller of a host that asks what is served a hundred times a second."""
    monkeypatch.setattr(discovery_poller, "POLL_SECONDS", 0.01)
    made = Dependant()
    discoverer = CachedDiscoveryClient(client, user_agent=user_agent_of("host"))
    task = asyncio.create_task(poll_discovery(discoverer, [made]))
    yield made
    task.cancel()
    await asyncio.wait([task])


async def test_nobody_asks_for_what_nobody_heeds(
    dependant: Dependant, fault_proxy: FaultProxy
) -> None:
    """Requests are made only while some controller depends on the answer."""
    await until(lambda: dependant.times_asked > 5)
    assert fault_proxy.requests() == []
    dependant.heeds = True
    await until(lambda: dependant.times_told)
    assert {request.path for request in fault_proxy.requests()} == {"/api", "/apis"}


async def test_who_depends_on_it_hears_of_changes_alone(
    dependant: Dependant, fault_proxy: FaultProxy
) -> None:
    """An answer that is the same, or an error, is told to nobody (RQ-232, RQ-233)."""
    groups = b'[{"metadata": {"name": "g"}, "versions": [{"version": "v1"}]}]'
    same = b'{"kind": "APIGroupDiscoveryList", "items": %b}' % groups
    fault_proxy.add(Answer(200, same), path="^/api$")
    fault_proxy.add(Answer(200, same), path="^/apis$", times=4)
    trouble = fault_proxy.add(Answer(503), path="^/apis$")
    dependant.heeds = True
    await until(lambda: trouble.hits > 2)
    assert dependant.times_told == 1
