"""An instance of a controller: new for each run, with validated results of its hooks."""

from datetime import timedelta
from typing import Any

import pytest
from host.plugins.conftest import Site

from kcm_host.api import Done, Key, Kind, Later, Outcome, Terminal
from kcm_host.api.watch import name_of
from kcm_host.plugins.plugin import Instance, WrongResult
from kcm_host.plugins.quarantine import BrokenPlugin, Stage

NODE = Kind(group="", version="v1", name="Node", resource="nodes", namespaced=False)
NOTHING: Any = None


def kind(**parts: object) -> str:
    """Return a watch of nodes with these parts of its kind."""
    given = {"group": "", "version": "v1", "name": "Node", "resource": "nodes", **parts}
    return f"[Watch(kind=Kind(**{given!r}), model=Node)]"


def writes(result: str) -> str:
    """Return the source of a `kcm_writes` that returns this."""
    return f"""
    @hookimpl
    def kcm_writes(self):
        from kcm_host.api import EVENTS, Permission
        return {result}
"""


def started(site: Site, source: str, old: str = "", new: str = "") -> Instance:
    """Load the valid plugin with one part replaced, and return an instance of it."""
    assert old in source
    site.plugin("mine", source.replace(old, new) if old else source)
    loading = site.load("mine")
    assert not loading.quarantined
    return loading.plugins["mine"].new()


def refused(site: Site, source: str, watch: str) -> BrokenPlugin:
    """Return the exception when kcm_watches returns this."""
    old = "[Watch(kind=NODE, model=Node, keys=lambda change, view: [change.key])]"
    with pytest.raises(BrokenPlugin) as caught:
        started(site, source, old, watch).watches(NOTHING)
    return caught.value


def test_each_run_has_its_own_instance(site: Site, good: str) -> None:
    """State of one run is not visible in the next."""
    counting = good.replace(
        'return {"loops": 1}',
        'self.asked = getattr(self, "asked", 0) + 1\n        return {"asked": self.asked}',
    )
    first = started(site, counting)
    assert first.status(NOTHING) == {"asked": 1}
    assert first.status(NOTHING) == {"asked": 2}
    assert first.plugin.new().status(NOTHING) == {"asked": 1}


def test_a_constructor_that_fails_at_a_later_run(site: Site, good: str) -> None:
    """A class that can be constructed only once is broken at the next run."""
    once = """
    made = 0
    def __init__(self):
        type(self).made += 1
        if self.made > 1:
            raise OSError("busy")
"""
    site.plugin("mine", good + once)
    plugin = site.load("mine").plugins["mine"]
    plugin.new()
    with pytest.raises(BrokenPlugin) as caught:
        plugin.new()
    assert caught.value.quarantined.stage is Stage.CONSTRUCT
    assert "OSError: busy at " in caught.value.quarantined.reason


@pytest.mark.parametrize(
    ("watch", "says"),
    [
        ("None", "'kcm_watches' returned None, not a list"),
        ("(one for one in ())", "returned a generator, not a list"),
        ("[NODE]", "watch 1 of 'kcm_watches': it is a Kind, no Watch"),
        ("[Watch(kind='nodes', model=Node, keys=len)]", "kind is 'nodes', no Kind"),
        (kind(version=""), "the version of kind 'Node' is ''"),
        (kind(version="apps/v1"), "the version of kind 'Node' is 'apps/v1'"),
        (kind(version="1.0"), "the version of kind 'Node' is '1.0'"),
        (kind(group="acme.example/v1"), "the group of kind 'Node' is 'acme.example/v1'"),
        (kind(group="acme."), "the group of kind 'Node' is 'acme.'"),
        (kind(name=""), "the name of kind '' is ''"),
        (kind(name="acme/Node"), "the name of kind 'acme/Node' is 'acme/Node'"),
        (kind(resource=""), "the resource of kind 'Node' is ''"),
        (kind(resource="Nodes"), "the resource of kind 'Node' is 'Nodes'"),
        (kind(resource="nodes/status"), "the resource of kind 'Node' is 'nodes/status'"),
        (kind(resource=None), "the resource of kind 'Node' is None"),
        (kind(namespaced="no"), "namespaced of kind 'Node' is 'no'"),
        ("[Watch(kind=NODE, model=Node, name=5)]", "name is 5"),
        (
            "[Watch(kind=NODE, model=Node), Watch(kind=NODE, model=Array)]",
            "watch 2 of 'kcm_watches' (nodes): no object can be decoded",
        ),
        (
            "[Watch(kind=NODE, model=Node, name='a'), Watch(kind=NODE, model=Node, name='a')]",
            "watches 1 and 2 of 'kcm_watches' are both called 'a'",
        ),
        (
            "[Watch(kind=NODE, model=Node, keys=owner_keys(NODE))]",
            "keys is owner_keys(), and model 'Node' has no owner references",
        ),
        (
            "[Watch(kind=NODE, model=Unowned, keys=owner_keys(NODE))]",
            "keys is owner_keys(), and model 'Unowned' has no owner references",
        ),
        (
            "[Watch(kind=NODE, model=Badly, keys=owner_keys(NODE))]",
            "keys is owner_keys(), and 'Reference' lacks controller",
        ),
        ("[Watch(kind=NODE, model=dict, keys=print)]", "(nodes): model is <class 'dict'>"),
        ("[Watch(kind=NODE, model=Node(), keys=print)]", "no subclass of msgspec.Struct"),
        (
            "[Watch(kind=NODE, model=Array, keys=print)]",
            "no object can be decoded as model 'Array'",
        ),
        ("[Watch(kind=NODE, model=Unknown, keys=print)]", "model 'Unknown' cannot be decoded"),
        ("[Watch(kind=NODE, model=Node, keys='name')]", "keys is 'name', no function"),
        ("[Watch(kind=NODE, model=Node, keys=later)]", "keys is async"),
        (
            "[Watch(kind=NODE, model=Node, keys=lambda c: [])]",
            "cannot be called with (change, view)",
        ),
        ("[Watch(kind=NODE, model=Node, keys=print, indexes=['a'])]", "indexes is a list"),
        (
            "[Watch(kind=NODE, model=Node, keys=print, indexes={'a': 1})]",
            "index 'a' is 1, no function",
        ),
        ("[Watch(kind=NODE, model=Node, keys=print, namespace=None)]", "namespace is None"),
        ("[Watch(kind=NODE, model=Node, keys=print, namespace='a')]", "but nodes have none"),
        ("[Watch(kind=NODE, model=Node, keys=print, on_synced=1)]", "on_synced is 1, no function"),
        ("[Watch(kind=NODE, model=Node, keys=print, on_synced=later)]", "on_synced is async"),
        (
            "[Watch(kind=NODE, model=Node, keys=print, on_synced=lambda: [])]",
            "synced cannot be called with (view)",
        ),
        ("[Watch(kind=NODE, model=Node, keys=print, full_object='yes')]", "full_object is 'yes'"),
        ("[Watch(kind=NODE, model=Node, keys=print, notify_unchanged=1)]", "notify_unchanged is 1"),
        ("[Watch(kind=NODE, model=Node, keys=print, debounce=5)]", "debounce is 5"),
        ("[Watch(kind=NODE, model=Node, keys=print, resync=5)]", "resync is 5, no function"),
        (
            "[Watch(kind=NODE, model=Node, keys=print, resync=lambda: 5)]",
            "resync cannot be called with (key)",
        ),
        (
            "[Watch(kind=NODE, model=Node, keys=print, debounce=-DAY)]",
            "debounce is datetime.timedelta",
        ),
        ("[Watch(kind=NODE, model=Node, keys=print)] * 2", "watches 1 and 2 of 'kcm_watches'"),
        ("1 / 0", "'kcm_watches' raised ZeroDivisionError: division by zero at "),
        ("exit('no')", "'kcm_watches' raised SystemExit: no"),
    ],
)
def test_bad_watches(site: Site, good: str, watch: str, says: str) -> None:
    """Kind 12: an invalid watch quarantines the plugin; the reason has watch and remedy."""
    more = """
import datetime

DAY = datetime.timedelta(days=1)

async def later(change, view):
    return []

class Array(msgspec.Struct, array_like=True):
    a: int = 0

class Unknown(msgspec.Struct):
    a: "NowhereToBeFound"

class Unowned(msgspec.Struct):
    metadata: Node

class Reference(msgspec.Struct):
    api_version: str
    kind: str
    name: str

class Meta(msgspec.Struct):
    owner_references: tuple[Reference, ...] | None = None

class Badly(msgspec.Struct):
    metadata: Meta | None = None

from kcm_host.api import owner_keys
"""
    found = refused(site, good + more, watch).quarantined
    assert found.stage is Stage.START
    assert says in found.reason
    assert found.remedy
    assert "\n" not in str(found)


def test_one_kind_may_be_watched_twice(site: Site, good: str) -> None:
    """One of two watches of a kind needs a name, also with the same model."""
    twice = started(
        site,
        good,
        "keys=lambda change, view: [change.key])]",
        "label_selector='a=b'), Watch(kind=NODE, model=Node, name='others')]",
    )
    assert [name_of(watch) for watch in twice.watches(NOTHING)] == ["nodes", "others"]


def test_a_dynamic_watch_needs_a_name_of_its_own(site: Site, good: str) -> None:
    """It may not have that of a watch of `kcm_watches`."""
    more = """
    @hookimpl
    def kcm_dynamic_watches(self):
        return [Watch(kind=NODE, model=Node)]
"""
    instance = started(site, good + more)
    instance.watches(NOTHING)
    with pytest.raises(WrongResult, match=r"is called 'nodes'.*; .* give one of them a name"):
        instance.dynamic_watches(NOTHING, NOTHING)


def test_owner_keys_take_models_with_owner_references(site: Site, good: str) -> None:
    """The field may be optional, and the references in a list or a tuple."""
    model = """
from kcm_host.api import owner_keys

class Reference(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    name: str
    controller: bool = False

class Meta(msgspec.Struct, rename="camel"):
    owner_references: list[Reference] | None = None

class Owned(msgspec.Struct):
    metadata: Meta | None = None
"""
    old = "model=Node, keys=lambda change, view: [change.key])]"
    new = "model=Owned, keys=owner_keys(NODE))]"
    assert started(site, good + model, old, new).watches(NOTHING)


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ("['patch']", "write 1 of 'kcm_writes' is 'patch', no Permission"),
        ("NODE", "'kcm_writes' returned a Kind, not a list"),
        ("[Permission(kind=NODE, verb='')]", "has the verb ''"),
        ("[Permission(kind='nodes', verb='patch')]", "kind is 'nodes', no Kind"),
        ("[Permission(kind=NODE, verb=None)]", "has the verb None"),
    ],
)
def test_bad_writes(site: Site, good: str, result: str, says: str) -> None:
    """An invalid declaration of writes quarantines the plugin."""
    with pytest.raises(BrokenPlugin) as caught:
        started(site, good + writes(result)).writes()
    assert says in caught.value.quarantined.reason


@pytest.mark.parametrize(
    ("verb", "remedy"),
    [
        ("'apply'", "use 'patch', which the API server checks for applies"),
        ("'read'", "use 'get', which the API server checks for Writer.read"),
        ("'replace'", "use 'update'"),
        ("'event'", "use EVENTS of kcm_host.api: '[..., *EVENTS]'"),
        ("'*'", "name each verb that the controller needs"),
        ("['get']", "use a verb of RBAC: get, list, watch, create, update, patch, delete,"),
    ],
)
def test_a_verb_that_is_none_of_rbac_gets_the_right_one(
    site: Site, good: str, verb: str, remedy: str
) -> None:
    """The usual mistakes are told what to write instead (F-67)."""
    with pytest.raises(BrokenPlugin) as caught:
        started(site, good + writes(f"[Permission(kind=NODE, verb={verb})]")).writes()
    assert caught.value.quarantined.remedy.startswith(remedy)


def test_writes_are_a_set_and_may_be_left_out(site: Site, good: str) -> None:
    """Without kcm_writes nothing may be written; `get` is the verb of a live read."""
    assert started(site, good).writes() == frozenset()
    declared = "[*[Permission(kind=NODE, verb=verb) for verb in ('patch', 'get', 'get')], *EVENTS]"
    site.plugin("writing", good + writes(declared))
    writing = site.load("writing").plugins["writing"].new()
    assert {(str(one.kind), one.verb) for one in writing.writes()} == {
        ("nodes", "patch"),
        ("nodes", "get"),
        ("events", "create"),
        ("events", "patch"),
    }


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        ("Done()", Done()),
        ("__import__('kcm_host.api').api.Later(DAY)", Later(timedelta(days=1))),
        ("__import__('kcm_host.api').api.Terminal('bad')", Terminal("bad")),
    ],
    ids=["done", "later", "terminal"],
)
async def test_a_sync_ends_with_an_outcome(
    site: Site, good: str, result: str, outcome: Outcome
) -> None:
    """Done, Later and Terminal pass as they are."""
    more = "\nimport datetime\nDAY = datetime.timedelta(days=1)\n"
    instance = started(site, good + more, "return Done()", f"return {result}")
    assert await instance.sync(Key("a"), NOTHING, NOTHING) == outcome


@pytest.mark.parametrize("result", ["True", "Done"])
async def test_a_sync_that_ends_otherwise_is_an_error(site: Site, good: str, result: str) -> None:
    """Other results than Done(), Later(timedelta) and Terminal(text) are errors with a remedy."""
    instance = started(site, good, "return Done()", f"return {result}")
    with pytest.raises(WrongResult, match=r"plugin 'mine' returned .*; return Done\(\), Later"):
        await instance.sync(Key("a"), NOTHING, NOTHING)


async def test_a_sync_without_result_is_an_error(site: Site, good: str) -> None:
    """A path of a sync that ends without a result gets a sentence of its own (F-68)."""
    instance = started(site, good, "return Done()", "pass")
    with pytest.raises(WrongResult, match=r"returned None; end kcm_sync with 'return Done\(\)'"):
        await instance.sync(Key("a"), NOTHING, NOTHING)


async def test_an_exception_of_a_sync_passes(site: Site, good: str) -> None:
    """The plugin's own exception is raised unchanged."""
    instance = started(site, good, "return Done()", "raise LookupError(key.name)")
    with pytest.raises(LookupError, match="a"):
        await instance.sync(Key("a"), NOTHING, NOTHING)


def test_a_status_that_is_no_mapping_is_an_error(site: Site, good: str) -> None:
    """kcm_status must return a mapping."""
    instance = started(site, good, 'return {"loops": 1}', "return ['ok']")
    with pytest.raises(WrongResult, match=r"'kcm_status' of plugin 'mine' returned \['ok'\]"):
        instance.status(NOTHING)
