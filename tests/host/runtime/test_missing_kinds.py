"""Kinds that may not be followed, or are not there: their controller waits, the rest runs."""

from functools import partial

from eventually import eventually
from host.runtime.definitions import Definitions
from host.runtime.loops import Loops, choosing, loop, until_synced
from plugins.granted_roles import granted
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer

CONFIG_MAPS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}
SECRETS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"]}


def _has_stream(host: RunningHost, resource: str) -> bool:
    return any(one["resource"] == resource for one in host.status()["streams"])


def _runs(host: RunningHost, name: str) -> bool:
    return bool(host.controller(name)["phase"] == "running")


def is_ready(host: RunningHost) -> bool:
    """Return whether every controller runs."""
    return host.page("/readyz")[0] == 200


def test_a_denied_kind_holds_up_its_controller_alone(loops: Loops, api_server: ApiServer) -> None:
    """`/readyz` names it with what to grant, the others work, and it recovers when granted."""
    loops.plugin("maps")
    loops.plugin("secretive", kind=("", "Secret", "secrets"))
    with granted(api_server, "bob", [CONFIG_MAPS]) as grant:
        host = loops.run("maps", "secretive", user="bob", ready=False)
        loops.create("a")
        until_synced(host, "maps", ["a"])
        remedy = f"grant list and watch on '{loops.namespace}/secrets' to the host's identity"
        eventually(lambda: remedy.encode() in host.page("/readyz")[1], "the remedy is told")
        code, body = host.page("/readyz?verbose")
        assert code == 503
        assert b"[+]maps ok" in body
        assert b"[-]secretive failed: " in body
        assert b'User "bob" cannot' in body
        assert host.controller("secretive")["phase"] == "starting"
        assert host.stream("secrets")["phase"] == "failed"
        grant([CONFIG_MAPS, SECRETS])
        loops.core.create_namespaced_secret(loops.namespace, {"metadata": {"name": "s"}})
        eventually(lambda: is_ready(host), "it recovers")
        until_synced(host, "secretive", ["s"])
        assert host.controller("secretive")["restarts"] == 0
        assert host.stream("secrets")["error"] == ""


def test_a_kind_that_is_not_served_holds_up_its_controller_alone(
    loops: Loops, definitions: Definitions
) -> None:
    """`/readyz` names the kind; the controller runs once it is served."""
    loops.plugin("maps")
    loops.plugin("widgets", kind=(definitions.group, "Widget", "widgets"))
    host = loops.run("maps", "widgets", ready=False)
    loops.create("a")
    until_synced(host, "maps", ["a"])
    kind = f"{loops.namespace}/widgets.{definitions.group}"
    remedy = f"does not serve '{kind}': install it or disable the controller"
    eventually(lambda: remedy.encode() in host.page("/readyz")[1], "the remedy is told")
    definitions.create("Widget")
    eventually(lambda: is_ready(host), "it recovers")
    definitions.create_objects("Widget", loops.namespace, "w")
    until_synced(host, "widgets", ["w"])


def test_a_kind_that_is_not_required_holds_up_nothing(loops: Loops, api_server: ApiServer) -> None:
    """With `required=False` the controller syncs and is ready, and its state has the problem."""
    aside = """
        class Other(msgspec.Struct, frozen=True):
            metadata: dict[str, object] = {}
        secrets = Kind(group="", version="v1", name="Secret", resource="secrets")
        other = Watch(
            kind=secrets, model=Other, keys=self.keys, namespace="NAMESPACE", required=False
        )
        return [
            other, Watch(kind=KIND, model=Thing, keys=self.keys, namespace="NAMESPACE")
        ]
    """
    loops.plugin("maps", watches=aside.replace("NAMESPACE", loops.namespace))
    with granted(api_server, "bob", [CONFIG_MAPS]) as grant:
        host = loops.run("maps", user="bob")
        loops.create("a")
        until_synced(host, "maps", ["a"])
        eventually(lambda: "grant list and watch" in host.controller("maps")["problem"], "told")
        assert is_ready(host)
        grant([CONFIG_MAPS, SECRETS])
        loops.core.create_namespaced_secret(loops.namespace, {"metadata": {"name": "b"}})
        until_synced(host, "maps", ["a", "b"])


def test_a_wrong_plural_is_told_with_the_right_one(loops: Loops, definitions: Definitions) -> None:
    """Not with the advice to install it; it recovers when the declared resource comes (F-67)."""
    definitions.create("Widget")
    definitions.create_objects("Widget", loops.namespace, "w")
    loops.plugin("maps")
    loops.plugin("wrong", kind=(definitions.group, "Widget", "widgts"))
    host = loops.run("maps", "wrong", ready=False)
    wrong = f"'widgts.{definitions.group}'"
    says = f"{wrong} is not served, but 'widgets.{definitions.group}' of kind Widget is"
    told = f"{says}: correct the resource of the Kind"
    eventually(lambda: host.controller("maps")["ready"], "the other runs")
    assert host.controller("wrong")["problem"] == told
    assert not host.controller("wrong")["ready"]
    eventually(lambda: host.stream("widgts")["error"].endswith(f"; {told}"), "the stream as well")
    (line,) = host.log("kind declared wrongly")
    assert (line["controller"], line["problem"], line["level"]) == ("wrong", told, "error")
    definitions.delete("Widget")
    eventually(lambda: "install it" in host.controller("wrong")["problem"], "nothing is known")
    definitions.create("Widget", plural="widgts")
    eventually(lambda: is_ready(host), "it recovers")


#: Declares permissions for this kind.
PERMISSION = """
from kcm_host.api import Permission

class Loop(Loop):
    @hookimpl
    def kcm_writes(self):
        return [Permission(kind=KIND, verb="patch")]
"""


def test_a_wrong_scope_or_name_is_told(loops: Loops) -> None:
    """The watch itself would show no error, or no object (F-67)."""
    source = loop(kind=("", "Secret", "secrets"))
    scope = source.replace('resource="secrets")', 'resource="secrets", namespaced=False)')
    loops.site.plugin("scope", scope)
    loops.plugin("name", kind=("", "Secrecy", "secrets"))
    loops.site.plugin("writer", scope.replace("kind=KIND", "kind=MAP") + PERMISSION + MAP)
    host = loops.run("scope", "name", "writer", ready=False)
    has = "objects of 'secrets' have a namespace: write namespaced=True in the Kind"
    is_called = "'secrets' is served as kind Secret, not Secrecy: correct the name of the Kind"
    for name, told in (("scope", has), ("name", is_called), ("writer", has)):
        eventually(partial(_runs, host, name), f"{name} runs")
        assert host.controller(name)["problem"] == told
        assert not host.controller(name)["ready"]


MAP = """
MAP = Kind(group="", version="v1", name="ConfigMap", resource="configmaps")
"""


NO_REGULAR_POLLS = """\
from kcm_host.runtime import discovery_poller

discovery_poller.POLL_SECONDS = 86400.0
"""


def test_a_kind_is_noticed_soon_after_its_definition(
    loops: Loops, definitions: Definitions
) -> None:
    """By controllers that ask discovery and by those that do not, without regular polls (F-70)."""
    source = choosing(loops.namespace, definitions.group, "Widget")
    loops.site.plugin("choosing", NO_REGULAR_POLLS + source)
    loops.plugin("fixed", kind=(definitions.group, "Widget", "widgets"))
    host = loops.run("choosing", "fixed", ready=False)
    definition = "customresourcedefinitions"
    eventually(lambda: _has_stream(host, definition), "definitions are watched")
    stream = host.stream(definition)
    assert (stream["controllers"], stream["metadataOnly"]) == (["kcm-host"], True)
    definitions.create("Widget")
    definitions.create_objects("Widget", loops.namespace, "w")
    for name in ("choosing", "fixed"):
        until_synced(host, name, ["w"])
    assert is_ready(host)


def test_a_host_that_may_not_watch_definitions_has_no_problem(
    loops: Loops, api_server: ApiServer, group: str
) -> None:
    """Nothing is logged above level debug, and no stream is shown as failed (F-70)."""
    loops.site.plugin("choosing", choosing(loops.namespace, group, "Widget"))
    with granted(api_server, "bob", [CONFIG_MAPS]):
        host = loops.run("choosing", user="bob")
        refused = {"resource": "customresourcedefinitions.apiextensions.k8s.io", "level": "debug"}
        eventually(lambda: host.log("watch failed, retrying", **refused), "it is refused")
        assert [one for one in host.log() if one["level"] in ("warning", "error")] == []
        eventually(lambda: host.status()["streams"] == [], "both are refused")
        assert is_ready(host)
