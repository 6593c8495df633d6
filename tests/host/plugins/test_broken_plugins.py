"""The twelve kinds of broken plugin: each is quarantined with a remedy, its neighbour runs."""

import re
from textwrap import dedent

import pytest
from host.plugins.conftest import Site

from kcm_host.plugins.quarantine import BrokenPlugin, Quarantined, Stage

#: A settings model, for the end of a good plugin.
SETTINGS = """
    @staticmethod
    @hookimpl
    def kcm_settings():
        return Settings

import pydantic

class Settings(pydantic.BaseModel):
    depth: int = 1
"""


def broken(site: Site, name: str = "bad", **options: str) -> Quarantined:
    """Load a broken plugin beside a valid one, and return the reason of the broken one."""
    site.plugin("good")
    loading = site.load(name, "good", **options)
    assert list(loading.plugins) == ["good"]
    assert list(loading.quarantined) == [name]
    assert not loading.missing
    found = loading.quarantined[name]
    assert "\n" not in str(found)
    assert found.remedy
    return found


def without_hook(source: str, hook: str) -> str:
    """Cut one hook, marker included, out of the good plugin."""
    return re.sub(
        rf"    @hookimpl\n    (async )?def {hook}\(.*?(?=\n    @|\Z)", "", source, flags=re.S
    )


def test_a_missing_module(site: Site) -> None:
    """Kind 1: the entry point names a module that does not exist."""
    site.distribution("acme-bad", "bad = loading_case_nowhere.loop:Loop")
    found = broken(site)
    assert (found.distribution, found.version, found.stage) == ("acme-bad", "1.0", Stage.IMPORT)
    assert "'loading_case_nowhere' does not exist" in found.reason
    assert "reinstall 'acme-bad'" in found.remedy


def test_an_exception_at_import(site: Site) -> None:
    """Kind 2: the reason names type, message, file and line; the traceback stays apart."""
    path = site.plugin("bad", "import json\n\njson.loads('{')\n")
    found = broken(site)
    assert found.stage is Stage.IMPORT
    assert "json.decoder.JSONDecodeError: Expecting property name" in found.reason
    assert found.reason.endswith(f"at {path}:3")
    assert "authors of 'acme-bad'" in found.remedy
    assert found.traceback.startswith("Traceback")
    assert "Traceback" not in str(found)


def test_a_syntax_error(site: Site) -> None:
    """Kind 2: a module that does not compile is named with its line."""
    path = site.plugin("bad", "\nclass Loop(:\n    pass\n")
    assert re.search(r"SyntaxError: .* at .*:2$", broken(site).reason)
    assert path.name in broken(site).reason


def test_a_missing_dependency(site: Site) -> None:
    """Kind 2: a module the plugin imports is missing, which is not the plugin's own."""
    site.plugin("bad", "import loading_case_not_installed")
    found = broken(site)
    assert "ModuleNotFoundError: No module named 'loading_case_not_installed'" in found.reason
    assert "together with what it depends on" in found.remedy


@pytest.mark.parametrize("leave", ["raise SystemExit(3)", "raise GeneratorExit"])
def test_an_exit_at_import(site: Site, leave: str) -> None:
    """Kind 3: ending the program at import ends the plugin alone."""
    site.plugin("bad", leave)
    found = broken(site)
    assert found.stage is Stage.IMPORT
    assert leave.split()[1].split("(", maxsplit=1)[0] in found.reason


def test_an_exit_at_import_says_that_modules_must_not(site: Site) -> None:
    """Kind 3: the remedy names the rule that was broken."""
    site.plugin("bad", "import sys\nsys.exit('no licence')")
    found = broken(site)
    assert "SystemExit: no licence" in found.reason
    assert "must not end the program" in found.remedy


def test_a_missing_attribute(site: Site, good: str) -> None:
    """Kind 4: the class is not in the module; a similar name is suggested."""
    site.plugin("bad", good, attribute="Lop")
    found = broken(site)
    assert found.stage is Stage.ATTRIBUTE
    assert "has no 'Lop' (it has 'Loop')" in found.reason
    assert "correct the entry point 'bad = " in found.remedy


def test_an_attribute_that_is_no_class(site: Site, good: str) -> None:
    """Kind 4: an entry point must not name an instance."""
    site.plugin("bad", good + "\nloop = Loop()\n", attribute="loop")
    found = broken(site)
    assert found.stage is Stage.ATTRIBUTE
    assert found.reason.endswith("is a Loop, not a class")
    assert "names the plugin's class" in found.remedy


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("def __init__(self): raise ValueError('no disk')", "ValueError: no disk at "),
        ("def __init__(self, client): pass", "required positional argument: 'client'"),
        ("def __init__(self): raise SystemExit", "SystemExit at "),
    ],
    ids=["raises", "wants arguments", "exits"],
)
def test_a_constructor_that_raises(site: Site, good: str, body: str, says: str) -> None:
    """Kind 5: the class of a plugin without settings cannot be made without arguments."""
    site.plugin("bad", good + f"\n    {body}\n")
    with pytest.raises(BrokenPlugin) as caught:
        site.load("bad").plugins["bad"].construct()
    found = caught.value.quarantined
    assert found.stage is Stage.CONSTRUCT
    assert says in found.reason
    assert "must take no arguments" in found.remedy


def test_a_constructor_that_takes_no_settings(site: Site, good: str) -> None:
    """Kind 5: with `kcm_settings` the class gets the settings."""
    site.plugin("bad", good + SETTINGS)
    plugin = site.load("bad").plugins["bad"]
    assert plugin.settings_model is not None
    settings = plugin.settings_model()
    with pytest.raises(BrokenPlugin) as caught:
        plugin.construct(settings)
    assert "must take the settings as its only argument" in caught.value.quarantined.remedy


def test_a_hook_that_needs_no_instance_is_static(site: Site, good: str) -> None:
    """The settings are read before there is an instance."""
    source = SETTINGS.replace("    @staticmethod\n", "").replace("settings()", "settings(self)")
    site.plugin("bad", good + source)
    found = broken(site)
    assert found.reason.startswith("'kcm_settings' is called before there is an instance")
    assert found.remedy == "mark it with @staticmethod and leave out 'self'"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("\n    @hookimpl\n    def kcm_workers(self):\n        return 3\n", "'kcm_workers'"),
        (
            "\n    @hookimpl\n    def kcm_more_watches(self, view):\n        return ()\n",
            "'kcm_more_",
        ),
        (
            "\n    @hookimpl\n    def kcm_writes(self, settings):\n        return []\n",
            "takes 'settings'",
        ),
        ("\nfrom kcm_host.api import Wake\n", "cannot import name 'Wake'"),
    ],
    ids=["workers", "more watches", "settings", "import"],
)
def test_a_plugin_for_0_1(site: Site, good: str, source: str, says: str) -> None:
    """What was written for the API of 0.1 gets one sentence with the remedy."""
    site.plugin("bad", good + source)
    found = broken(site)
    assert says in found.reason
    assert "a version of it for kcm-host 0.2" in found.remedy
    assert "'From 0.1 to 0.2' in the changelog" in found.remedy


@pytest.mark.parametrize("demand", ["kcm-host>=0.1,<1", "kcm-host~=0.1.3", "kcm-host==0.1.*"])
def test_a_requirement_that_admits_0_1(site: Site, demand: str) -> None:
    """Such a distribution is not imported: it is made for another plugin API."""
    site.plugin("bad", "raise SystemExit", metadata=f"Requires-Dist: {demand}\n")
    found = broken(site)
    assert found.stage is Stage.VERSION
    assert found.reason.startswith("it is written for kcm-host 0.1: it needs 'kcm-host")


@pytest.mark.parametrize("hook", ["kcm_watches", "kcm_sync"])
def test_a_required_hook_that_is_missing(site: Site, good: str, hook: str) -> None:
    """Kind 6: a controller without one of the two hooks names it."""
    site.plugin("bad", without_hook(good, hook))
    found = broken(site)
    assert found.stage is Stage.VALIDATE
    assert found.reason == f"it lacks '{hook}'"
    assert f"implement '{hook}'" in found.remedy


def test_several_hooks_that_are_missing(site: Site) -> None:
    """Kind 6: all of them are named at once."""
    site.plugin("bad", "class Loop: pass")
    assert broken(site).reason == "it lacks 'kcm_watches' and 'kcm_sync'"


@pytest.mark.parametrize("hook", ["kcm_watches", "kcm_sync", "kcm_status"])
def test_a_required_hook_that_is_unmarked(site: Site, good: str, hook: str) -> None:
    """Kind 6: a method without the marker is distinguished from a missing one."""
    site.plugin("bad", re.sub(rf"    @hookimpl\n(    (async )?def {hook}\()", r"\1", good))
    found = broken(site)
    assert found.stage is Stage.VALIDATE
    assert f"'{hook}' lacks @hookimpl" in found.reason
    assert "put @hookimpl" in found.remedy


def test_an_optional_hook_that_is_unmarked(site: Site, good: str) -> None:
    """Kind 6: an unmarked optional hook would silently do nothing, so it counts as well."""
    site.plugin("bad", good + "\n    def kcm_writes(self):\n        return []\n")
    assert "'kcm_writes' lacks @hookimpl" in broken(site).reason


@pytest.mark.parametrize("marker", ["@hookimpl", "@staticmethod"], ids=["marked", "unmarked"])
def test_an_unknown_hook(site: Site, good: str, marker: str) -> None:
    """Kind 7: a name that is no hook is refused, marked or not, with the nearest hook."""
    site.plugin("bad", good + f"\n    {marker}\n    def kcm_write(view):\n        return []\n")
    found = broken(site)
    assert found.stage is (Stage.REGISTER if marker == "@hookimpl" else Stage.VALIDATE)
    assert "'kcm_write'" in found.reason
    assert "no hook" in found.reason
    assert "did you mean 'kcm_writes'?" in found.remedy


def test_an_unknown_hook_like_no_other(site: Site, good: str) -> None:
    """Kind 7: where nothing is near, the hooks are listed."""
    site.plugin("bad", good + "\n    @hookimpl\n    def kcm_zzz(self):\n        pass\n")
    assert "kcm_watches, kcm_sync, kcm_info, kcm_settings, kcm_writes" in broken(site).remedy


def test_a_hook_of_a_later_host_may_be_marked_optional(site: Site, good: str) -> None:
    """A plugin may implement hooks of later hosts, if they are marked as optional."""
    later = "\n    @hookimpl(optionalhook=True)\n    def kcm_later(self):\n        pass\n"
    site.plugin("fine", good + later)
    assert list(site.load("fine").plugins) == ["fine"]


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("client", "'kcm_status' has no argument 'client'"),
        ("view=None", "'kcm_status' declares 'view=None'"),
        ("*, view", "'kcm_status' declares 'view'"),
        ("**rest", "'kcm_status' declares '**rest'"),
    ],
)
def test_an_unknown_argument(site: Site, good: str, argument: str, says: str) -> None:
    """Kind 8: the hook, the argument and the allowed ones are named."""
    site.plugin("bad", good.replace("kcm_status(self, view)", f"kcm_status(self, {argument})"))
    found = broken(site)
    assert found.stage is Stage.REGISTER
    assert says in found.reason
    assert "take any of: view" in found.remedy


def test_a_sync_that_is_not_async(site: Site, good: str) -> None:
    """Kind 9: a plain function would block, and cannot be awaited."""
    site.plugin("bad", good.replace("async def", "def"))
    found = broken(site)
    assert found.stage is Stage.VALIDATE
    assert found.reason == "'kcm_sync' is no async function"
    assert "async def" in found.remedy


def test_another_hook_that_is_async(site: Site, good: str) -> None:
    """Kind 9: only kcm_sync is awaited."""
    site.plugin("bad", good.replace("def kcm_status", "async def kcm_status"))
    assert broken(site).reason == "'kcm_status' is async, but only 'kcm_sync' is awaited"


@pytest.mark.parametrize("option", ["wrapper", "hookwrapper"])
@pytest.mark.parametrize("body", ["yield", "pass"], ids=["generator", "no generator"])
def test_a_sync_that_is_wrapped(site: Site, good: str, option: str, body: str) -> None:
    """Kind 9: a wrapper of kcm_sync is refused, because it is over before the body runs."""
    wrapper = f"""
        @hookimpl({option}=True, specname="kcm_sync")
        def around(self, key):
            {body}
    """
    site.plugin("bad", good + "\n    " + dedent(wrapper).strip().replace("\n", "\n    ") + "\n")
    found = broken(site)
    assert found.stage is Stage.REGISTER
    assert "'around' is a wrapper of 'kcm_sync'" in found.reason
    assert "plain @hookimpl" in found.remedy


def test_a_hook_that_is_there_twice(site: Site, good: str) -> None:
    """Of two methods for one hook one would never be called, so neither is."""
    site.plugin(
        "bad",
        good + "\n    @hookimpl(specname='kcm_status')\n    def more(self):\n        return {}\n",
    )
    assert broken(site).reason == "'kcm_status' is implemented twice"


@pytest.mark.parametrize("demand", ["kcm-host>=0.3", "kcm_host<0.2", "KCM.host[otlp]==9.*"])
def test_a_host_outside_the_bounds(site: Site, demand: str) -> None:
    """Kind 10: a plugin made for another host is refused before it is imported."""
    site.plugin("bad", "raise SystemExit", metadata=f"Requires-Dist: {demand}\n")
    found = broken(site)
    assert found.stage is Stage.VERSION
    assert "and this host is 0.2.0" in found.reason
    assert "a version of 'acme-bad' made for kcm-host 0.2.0" in found.remedy


def test_a_demand_that_cannot_be_read(site: Site) -> None:
    """Kind 10: a requirement that is no requirement is quoted."""
    site.plugin("bad", metadata="Requires-Dist: kcm-host=>1\n")
    found = broken(site)
    assert found.stage is Stage.VERSION
    assert "'kcm-host=>1'" in found.reason


@pytest.mark.parametrize(
    ("demand", "host_version"),
    [
        ("kcm-host>=0.2,<1", "0.3.0rc1"),
        ("kcm-host>=9; extra == 'new'", "0.2.0"),
        ("other>=9", "0.2.0"),
    ],
    ids=["prerelease", "demand of an extra", "about another"],
)
def test_a_host_inside_the_bounds(site: Site, demand: str, host_version: str) -> None:
    """Prereleases of the host count, demands that do not apply do not."""
    site.plugin("fine", metadata=f"Requires-Dist: {demand}\n")
    assert list(site.load("fine", host_version=host_version).plugins) == ["fine"]


def test_two_distributions_with_one_name(site: Site) -> None:
    """Kind 11: neither runs, both are named."""
    site.distribution("acme-one", "bad = nothing:One", version="1.0")
    site.distribution("acme-two", "bad = nothing:Two", version="2.0")
    found = broken(site)
    assert found.stage is Stage.FIND
    assert "'acme-one' 1.0 (nothing:One) and 'acme-two' 2.0 (nothing:Two)" in found.reason
    assert found.remedy == "keep one: uninstall 'acme-one' or 'acme-two'"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("raise RuntimeError('no model')", "'kcm_settings' raised RuntimeError: no model at "),
        ("return dict", "returned <class 'dict'>, no subclass of pydantic's BaseModel"),
        ("return {}", "returned {}, no subclass of pydantic's BaseModel"),
        ("return Later", "PydanticUndefinedAnnotation: name 'NowhereToBeFound'"),
    ],
    ids=["raises", "no model", "no class", "unresolved annotation"],
)
def test_a_bad_settings_model(site: Site, good: str, body: str, says: str) -> None:
    """Kind 12: kcm_settings must return a pydantic model class."""
    source = f"""
    @staticmethod
    @hookimpl
    def kcm_settings():
        {body}

import pydantic

class Later(pydantic.BaseModel):
    field: "NowhereToBeFound"
"""
    site.plugin("bad", good + source)
    found = broken(site)
    assert found.stage is Stage.VALIDATE
    assert says in found.reason


def test_a_hook_of_an_extension_in_a_controller(site: Site, good: str) -> None:
    """One class is one kind of plugin."""
    site.plugin("bad", good + "\n    @hookimpl\n    def kcm_observe(self, record):\n        pass\n")
    found = broken(site)
    assert found.stage is Stage.VALIDATE
    assert "'kcm_observe' is a hook of extensions" in found.reason
    assert "'kcm_host.extensions'" in found.remedy
