"""A controller that fails restarts or is quarantined, and the others run on."""

import re

import pytest
from eventually import eventually
from host.runtime.loops import MODEL, Loops, until_synced

from kcm_host_testing.proxy import FaultProxy

#: Reads its store, as a count over all objects does, and fails for the first instance.
POISONED = """
list(view.of(KIND, Thing).items())
if self.start == 1 and change.key.name == "poison":
    raise ValueError("poisoned")
"""
SHARED = "from acme_shared import Thing"


@pytest.mark.parametrize("shared", [False, True], ids=["own informer", "shared informer"])
def test_a_failing_watch_function_restarts_its_controller_alone(
    loops: Loops, fault_proxy: FaultProxy, *, shared: bool
) -> None:
    """A new instance begins with all objects; the other controller is not affected."""
    loops.site.module("acme_shared", f"import msgspec\n{MODEL}")
    model = SHARED if shared else MODEL
    loops.plugin("shaky", model=model, keys=POISONED)
    loops.plugin("steady", model=model)
    loops.create("a")
    host = loops.run("shaky", "steady")
    until_synced(host, "shaky", ["a"])
    loops.create("poison")
    eventually(lambda: host.controller("shaky")["phase"] == "restarting", "shaky restarts")
    told = host.controller("shaky")
    failed = (
        f"'keys' of watch 'configmaps' for '{loops.namespace}/poison' raised ValueError: poisoned"
    )
    assert re.fullmatch(rf"{failed} at .*\.py:\d+", told["problem"])
    assert not told["ready"]
    code, body = host.page("/readyz")
    assert (code, f"[-]shaky failed: {failed} at ".encode() in body) == (503, True)
    loops.create("late")
    until_synced(host, "steady", ["a", "late", "poison"])
    until_synced(host, "shaky", ["a", "late", "poison"])
    shaky, steady = host.controller("shaky"), host.controller("steady")
    assert (shaky["status"]["start"], shaky["restarts"], shaky["phase"]) == (2, 1, "running")
    assert (steady["status"]["start"], steady["restarts"]) == (1, 0)
    assert host.page("/readyz")[0] == 200
    (line,) = host.log("controller restarting")
    assert (line["controller"], "poisoned" in line["problem"]) == ("shaky", True)
    assert len(fault_proxy.requests(path="/configmaps$")) == (1 if shared else 2)


def test_running_syncs_of_a_failed_run_are_cancelled(loops: Loops) -> None:
    """They must not write any more, because the state of their instance is not trusted."""
    hang = "if self.start == 1: await asyncio.sleep(3600)"
    loops.plugin("shaky", keys=POISONED, sync=hang)
    loops.create("a")
    host = loops.run("shaky")
    eventually(lambda: host.controller("shaky")["queue"]["processing"], "a sync is running")
    loops.create("poison")
    until_synced(host, "shaky", ["a", "poison"])
    assert host.metrics()['kcm_host_syncs_total{controller="shaky",outcome="cancelled"}'] == 1


def test_repeated_failures_back_off(loops: Loops) -> None:
    """A watch function that always raises restarts its controller with growing delays."""
    loops.plugin("broken", keys="raise KeyError('always')")
    loops.create("a")
    host = loops.run("broken", ready=False)
    eventually(lambda: len(host.log("controller restarting")) >= 3, "three restarts")
    assert host.controller("broken")["syncs"] == 0
    assert "KeyError: 'always'" in host.log("controller restarting")[-1]["problem"]
    assert host.page("/livez")[0] == 200


@pytest.mark.parametrize("start", [1, 2], ids=["at the start", "at a restart"])
def test_a_plugin_that_turns_out_broken_is_quarantined(loops: Loops, start: int) -> None:
    """When `kcm_watches` raises, the reason is logged and shown; the others run."""
    watches = f"if self.start == {start}: raise OSError('no such thing')"
    loops.plugin("broken", watches=watches, keys=POISONED)
    loops.plugin("steady")
    host = loops.run("broken", "steady", ready=False)
    loops.create("poison")
    until_synced(host, "steady", ["poison"])
    eventually(lambda: host.controller("broken")["phase"] == "quarantined", "it is quarantined")
    assert "no such thing" in host.controller("broken")["problem"]
    code, body = host.page("/readyz?verbose")
    assert code == 503
    assert b"[+]steady ok" in body
    assert b"[-]broken failed: " in body
    (line,) = host.log("plugin quarantined")
    assert line["controller"] == "broken"
    loops.create("later")
    until_synced(host, "steady", ["later", "poison"])
    assert host.stop() == 0


def test_a_status_that_raises_is_an_error_in_the_status(loops: Loops) -> None:
    """`/status` shows the error instead; the controller stays ready."""
    loops.plugin("shy", status="raise ValueError('no comment')")
    host = loops.run("shy")
    assert host.controller("shy")["status"] == {"error": "kcm_status raised ValueError: no comment"}
    assert host.page("/readyz")[0] == 200


def test_only_the_status_endpoint_calls_kcm_status(loops: Loops) -> None:
    """Probes and scrapes do not call `kcm_status` (F-40)."""
    asked = """
    self.asked = getattr(self, "asked", 0) + 1
    self.synced.add(f"asked {self.asked}")
    """
    loops.plugin("costly", status=asked)
    host = loops.run("costly")
    for path in ("/livez", "/readyz", "/readyz?verbose", "/metrics"):
        assert host.page(path)[0] == 200
    assert host.controller("costly")["status"]["synced"] == ["asked 1"]
