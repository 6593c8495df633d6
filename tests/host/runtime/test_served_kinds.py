"""Controllers whose watches depend on what the server serves."""

from eventually import eventually
from host.runtime.definitions import Definitions
from host.runtime.loops import EAGER, Loops, choosing
from running_host import RunningHost

KINDS = ("Gadget", "Widget")


def until_synced(host: RunningHost, *names: str) -> None:
    """Wait until the present instance has synced these and no others."""
    eventually(
        lambda: host.controller("choosing")["status"].get("synced") == sorted(names),
        f"synced {names}",
    )


def test_a_controller_without_watches_idles(loops: Loops, group: str) -> None:
    """It runs and is ready, and log, endpoints and metrics say what it waits for (F-66, F-92)."""
    loops.site.plugin("choosing", choosing(loops.namespace, group, *KINDS) + EAGER)
    host = loops.run("choosing")
    told = host.controller("choosing")
    assert (told["phase"], told["ready"], told["problem"]) == ("running", True, "")
    assert told["syncs"] == 0
    assert host.followed() == []
    why = f"waits for gadgets.{group}, widgets.{group}"
    assert told["idle"] == why
    assert host.page("/readyz?verbose") == (
        200,
        f"[+]choosing ok, idle: {why}\nreadyz check passed\n".encode(),
    )
    assert host.metrics()['kcm_host_controller_idle{controller="choosing"}'] == 1
    (line,) = host.log("controller idle")
    assert (line["controller"], line["reason"], line["level"]) == ("choosing", why, "info")
    assert host.stop() == 0


def test_a_kind_that_is_served_later_is_watched(loops: Loops, definitions: Definitions) -> None:
    """The controller restarts at once, and again for a better kind or without the kind."""
    loops.site.plugin("choosing", choosing(loops.namespace, definitions.group, *KINDS) + EAGER)
    host = loops.run("choosing")
    definitions.create("Widget")
    definitions.create_objects("Widget", loops.namespace, "w")
    until_synced(host, "w")
    told = host.controller("choosing")
    assert (told["restarts"], told["ready"]) == (1, True)
    assert told["status"]["start"] > 1
    (line,) = host.log("controller restarting")
    assert line["level"] == "info"
    watches = f"watches 'widgets.{definitions.group}' v1"
    assert line["problem"] == f"the server serves other kinds now: it {watches}"
    definitions.create("Gadget")
    definitions.create_objects("Gadget", loops.namespace, "g")
    until_synced(host, "g")
    assert host.followed() == ["gadgets"]
    definitions.delete("Gadget")
    until_synced(host, "w")
    definitions.delete("Widget")
    eventually(lambda: host.followed() == [], "nothing is followed")
    eventually(lambda: host.controller("choosing")["ready"], "it idles")
    assert host.controller("choosing")["restarts"] == 4


def test_other_changes_restart_nothing(loops: Loops, definitions: Definitions) -> None:
    """A kind that does not change the result of `kcm_watches` has no effect."""
    loops.site.plugin("choosing", choosing(loops.namespace, definitions.group, *KINDS) + EAGER)
    definitions.create("Gadget")
    definitions.create_objects("Gadget", loops.namespace, "g")
    host = loops.run("choosing")
    definitions.create("Widget")
    definitions.create("Sprocket")
    definitions.create_objects("Sprocket", loops.namespace, "s")
    eventually(lambda: host.log("served kinds changed"), "the change is seen")
    definitions.create_objects("Gadget", loops.namespace, "h")
    until_synced(host, "g", "h")
    told = host.controller("choosing")
    assert (told["restarts"], told["status"]["start"]) == (0, 1)


def test_a_hook_that_raises_restarts_nothing(loops: Loops, definitions: Definitions) -> None:
    """When `kcm_watches` of a new instance raises, that is logged and the run goes on."""
    raises = 'if self.start > 1: raise OSError("no such thing")\n'
    source = choosing(loops.namespace, definitions.group, *KINDS, first=raises)
    loops.site.plugin("choosing", source + EAGER)
    host = loops.run("choosing")
    definitions.create("Widget")
    (line, *_) = eventually(lambda: host.log("watches not compared"), "the error is logged")
    assert "no such thing" in line["problem"]
    told = host.controller("choosing")
    assert (told["phase"], told["restarts"], told["ready"]) == ("running", 0, True)
