"""Dynamic watches: added and removed while their controller runs."""

from textwrap import indent
from typing import Any

from eventually import eventually
from host.runtime.definitions import Definitions
from host.runtime.loops import EAGER, Loops, loop
from plugins.granted_roles import granted
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer

#: Also watches what MORE sets, with its own model, and shows the number of objects of each.
COUNTING = """
class Counted(msgspec.Struct, frozen=True):
    metadata: dict[str, object] = {}

class Loop(Loop):
    followed = ()
    times_synced = 0

    def kind(self, name, resource, group="GROUP"):
        return Kind(group=group, version="v1", name=name, resource=resource)

    def more(self, kind, **options):
        options = {"keys": self.counted, **options}
        return Watch(kind=kind, model=Counted, namespace="NAMESPACE", **options)

    def counted(self, change, view):
        return [Key(change.key.name, kind=change.kind.name)]

    def told(self, view):
        self.times_synced += 1
        return [Key("all", kind="synced")]

    @hookimpl
    def kcm_dynamic_watches(self, view, discovery):
        MORE
        self.followed = [watch.kind for watch in watches]
        return watches

    @hookimpl
    def kcm_status(self, view):
        def count(kind):
            try:
                objects = view.of(kind, Counted)
            except UndeclaredRead:
                return "not followed"
            return objects.problem or len(objects)

        return {
            "start": self.start,
            "synced": sorted(self.synced),
            "times": self.times_synced,
            "counts": {kind.name: count(kind) for kind in self.followed},
        }
"""
#: Everything of the test's group.
DISCOVERED = """
found = [one.kind for one in discovery.resources() if one.kind.group == "GROUP"]
watches = [self.more(kind, on_synced=self.told) for kind in found]
"""
REFRESH = "return [change.key, RefreshWatches()]"
IMPORTS = "from kcm_host.api import Key, RefreshWatches, UndeclaredRead"
ACCOUNT = 'self.kind("ServiceAccount", "serviceaccounts", "")'


def counting(namespace: str, more: str, *, group: str = "", **parts: Any) -> str:
    """Return the source of a controller with ConfigMaps and the dynamic watches of `more`."""
    source = COUNTING.replace("ACCOUNT", ACCOUNT)
    source = source.replace("        MORE\n", indent(more.strip(), " " * 8) + "\n")
    source = source.replace("ACCOUNT", ACCOUNT).replace("GROUP", group)
    source = source.replace("NAMESPACE", namespace)
    return loop(namespace=namespace, **parts) + IMPORTS + source


def counts(host: RunningHost) -> dict[str, Any]:
    """Return the dynamic watches of the controller, with the number of objects."""
    found: dict[str, Any] = host.controller("counting")["status"].get("counts", {})
    return found


def until_counted(host: RunningHost, **expected: Any) -> None:
    """Wait until the controller watches these kinds and counts these objects."""
    eventually(lambda: counts(host) == expected, f"{expected} are counted")


def test_kinds_are_watched_while_they_are_served(loops: Loops, definitions: Definitions) -> None:
    """A new kind is listed and counted; a kind that is served no longer is removed (RQ-230)."""
    source = counting(loops.namespace, DISCOVERED, group=definitions.group)
    loops.site.plugin("counting", source + EAGER)
    host = loops.run("counting")
    assert counts(host) == {}
    definitions.create("Widget")
    until_counted(host, Widget=0)
    definitions.create_objects("Widget", loops.namespace, "a", "b")
    until_counted(host, Widget=2)
    eventually(lambda: {"a", "b"} <= set(host.controller("counting")["status"]["synced"]), "synced")
    definitions.create("Gadget")
    definitions.create_objects("Gadget", loops.namespace, "c")
    until_counted(host, Widget=2, Gadget=1)
    told = host.controller("counting")
    assert told["status"]["times"] == 2
    assert "all" in told["status"]["synced"]
    definitions.delete("Widget")
    until_counted(host, Gadget=1)
    eventually(lambda: host.followed() == ["configmaps", "gadgets"], "the stream has ended")
    told = host.controller("counting")
    assert (told["restarts"], told["status"]["start"], told["ready"]) == (0, 1, True)
    assert host.log("dynamic watches changed", added=f"widgets.{definitions.group}")
    assert host.log("dynamic watches changed", removed=f"widgets.{definitions.group}")


#: Secrets, with another declaration for each of these ConfigMaps.
DECLARED = """
names = {key.name for key, _ in view.of(KIND, Thing).items()}
options = {}
if "labelled" in names:
    options["label_selector"] = "acme=yes"
if "indexed" in names:
    options["indexes"] = {"all": lambda key, secret: ["all"]}
watches = [self.more(self.kind("Secret", "secrets", ""), **options)]
"""
#: Also shows what an index finds.
INDEXED = """
    @hookimpl
    def kcm_status(self, view):
        secrets = view.of(self.followed[0], Counted)
        try:
            found = sorted(key.name for key, _ in secrets.by_index("all", "all"))
        except UndeclaredRead:
            found = None
        names = sorted(key.name for key, _ in secrets.items())
        return {"secrets": names, "found": found, "start": self.start}
"""


def test_a_changed_declaration_replaces_the_watch(loops: Loops) -> None:
    """Another selector or index of the same kind and model counts; there is no restart (F-18)."""
    source = counting(loops.namespace, DECLARED, keys=REFRESH)
    loops.site.plugin("counting", source + INDEXED)
    loops.core.create_namespaced_secret(loops.namespace, {"metadata": {"name": "plain"}})
    labelled = {"metadata": {"name": "labelled", "labels": {"acme": "yes"}}}
    loops.core.create_namespaced_secret(loops.namespace, labelled)
    host = loops.run("counting")

    def until_shown(secrets: list[str], found: list[str] | None) -> None:
        eventually(
            lambda: (
                (told := host.controller("counting")["status"]).get("secrets") == secrets
                and told["found"] == found
            ),
            f"{secrets} are followed, the index finds {found}",
        )

    until_shown(["labelled", "plain"], None)
    loops.create("indexed")
    until_shown(["labelled", "plain"], ["labelled", "plain"])
    loops.create("labelled")
    until_shown(["labelled"], ["labelled"])
    loops.core.delete_namespaced_config_map("indexed", loops.namespace)
    until_shown(["labelled"], None)
    loops.core.delete_namespaced_config_map("labelled", loops.namespace)
    until_shown(["labelled", "plain"], None)
    told = host.controller("counting")
    assert (told["restarts"], told["status"]["start"]) == (0, 1)
    eventually(lambda: host.followed() == ["configmaps", "secrets"], "nothing is left behind")
    assert len(host.log("dynamic watches changed", changed="secrets")) == 4


CONFIG_MAPS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}
SECRETS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"]}
BOTH = f"watches = [self.more(self.kind('Secret', 'secrets', '')), self.more({ACCOUNT})]"


def test_a_kind_that_cannot_be_listed_degrades_itself_alone(
    loops: Loops, api_server: ApiServer
) -> None:
    """The view has the reason; the controller stays ready and syncs the others."""
    loops.site.plugin("counting", counting(loops.namespace, BOTH))
    accounts = {**SECRETS, "resources": ["serviceaccounts"]}
    with granted(api_server, "bob", [CONFIG_MAPS, accounts]) as grant:
        host = loops.run("counting", user="bob")
        remedy = f"grant list and watch on '{loops.namespace}/secrets' to the host's identity"
        eventually(lambda: remedy in str(counts(host).get("Secret")), "the view says why")
        assert counts(host)["ServiceAccount"] == 0
        assert host.stream("secrets")["phase"] == "failed"
        told = host.controller("counting")
        assert told["ready"]
        assert remedy in told["problem"]
        assert host.page("/readyz")[0] == 200
        loops.create("a")
        eventually(lambda: "a" in host.controller("counting")["status"]["synced"], "it syncs")
        grant([CONFIG_MAPS, accounts, SECRETS])
        until_counted(host, Secret=0, ServiceAccount=0)
        assert host.controller("counting")["problem"] == ""


def test_an_invalid_result_changes_nothing(loops: Loops) -> None:
    """It is logged once, with its remedy; the previous watches are kept."""
    bad = "if len(view.of(KIND, Thing)):\n    return [self.more(KIND)] * 2"
    loops.site.plugin("counting", counting(loops.namespace, f"{bad}\n{BOTH}", keys=REFRESH))
    host = loops.run("counting")
    until_counted(host, Secret=0, ServiceAccount=0)
    loops.create("a")
    eventually(lambda: host.controller("counting")["problem"], "the answer is refused")
    loops.create("b")
    loops.core.create_namespaced_secret(loops.namespace, {"metadata": {"name": "s"}})
    until_counted(host, Secret=1, ServiceAccount=0)
    told = host.controller("counting")
    assert (told["ready"], told["restarts"]) == (True, 0)
    assert "are both called 'configmaps'" in told["problem"]
    (line,) = host.log("dynamic watches invalid, previous ones kept")
    assert line["problem"] == told["problem"]
    loops.core.delete_namespaced_config_map("a", loops.namespace)
    loops.core.delete_namespaced_config_map("b", loops.namespace)
    eventually(lambda: not host.controller("counting")["problem"], "a good answer mends it")
