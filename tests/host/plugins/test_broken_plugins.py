"""The twelve kinds of broken plugin: each is quarantined with a remedy, its neighbour runs."""

import re
from textwrap import dedent

import pytest
from host.plugins.conftest import SETTINGS, Site

from kcm_host.plugins.quarantine import BrokenPlugin, Quarantined, Stage


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


def without(hook: str) -> tuple[str, str]:
    """Return the change that takes a hook away, marker included."""
    return rf"    @hookimpl\n    (async )?def {hook}\(.*?(?=\n    @|\Z)", ""


def unmarked(hook: str) -> tuple[str, str]:
    """Return the change that takes the marker of a hook away."""
    return rf"    @hookimpl\n(    (async )?def {hook}\()", r"\1"


def with_method(head: str, result: str = "{}", *, marker: str = "@hookimpl") -> tuple[str, str]:
    """Return the change that adds a method."""
    return r"\Z", f"\n    {marker}\n    def {head}:\n        return {result}\n"


#: A change of the source of a good plugin: a pattern and what is put in its place.
WHOLE = r"\A.*\Z"
IMPORT, VALIDATE, REGISTER = Stage.IMPORT, Stage.VALIDATE, Stage.REGISTER
UNKNOWN = "did you mean 'kcm_writes'?"
#: Kind of mistake: a change of a good plugin, the stage, the reason and the remedy.
SOURCES: dict[str, tuple[tuple[str, str], Stage, str, str]] = {
    "2, a missing dependency": (
        (WHOLE, "import loading_case_not_installed"),
        IMPORT,
        "ModuleNotFoundError: No module named 'loading_case_not_installed'",
        "together with what it depends on",
    ),
    "3, an exit with a text": (
        (WHOLE, "raise SystemExit('no licence')"),
        IMPORT,
        "SystemExit: no licence",
        "must not end the program",
    ),
    "3, an exit of another sort": ((WHOLE, "raise GeneratorExit"), IMPORT, "GeneratorExit", ""),
    "6, no hook at all": (
        (WHOLE, "class Loop: pass"),
        VALIDATE,
        "it lacks 'kcm_watches' and 'kcm_sync'",
        "",
    ),
    "6, no watches": (without("kcm_watches"), VALIDATE, "it lacks 'kcm_watches'", "implement"),
    "6, no sync": (without("kcm_sync"), VALIDATE, "it lacks 'kcm_sync'", "implement 'kcm_sync'"),
    "6, unmarked watches": (
        unmarked("kcm_watches"),
        VALIDATE,
        "'kcm_watches' lacks @hookimpl",
        "put @hookimpl",
    ),
    "6, unmarked sync": (
        unmarked("kcm_sync"),
        VALIDATE,
        "'kcm_sync' lacks @hookimpl",
        "put @hookimpl",
    ),
    "6, unmarked optional hook": (
        with_method("kcm_writes(self)", marker=""),
        VALIDATE,
        "'kcm_writes' lacks @hookimpl",
        "put @hookimpl",
    ),
    "7, unknown hook": (with_method("kcm_write(view)"), REGISTER, "'kcm_write'", UNKNOWN),
    "7, unknown and unmarked hook": (
        with_method("kcm_write(view)", marker="@staticmethod"),
        VALIDATE,
        "'kcm_write' is no hook",
        UNKNOWN,
    ),
    "7, like no other": (
        with_method("kcm_zzz(self)"),
        REGISTER,
        "'kcm_zzz'",
        "kcm_watches, kcm_sync, kcm_info, kcm_settings, kcm_writes",
    ),
    **{
        f"8, argument {argument}": (
            (r"kcm_status\(self, view\)", f"kcm_status(self, {argument})"),
            REGISTER,
            says,
            "take any of: view",
        )
        for argument, says in {
            "client": "'kcm_status' has no argument 'client'",
            "view=None": "'kcm_status' declares 'view=None'",
            "*, view": "'kcm_status' declares 'view'",
            "**rest": "'kcm_status' declares '**rest'",
        }.items()
    },
    "9, a sync that is not async": (
        ("async def", "def"),
        VALIDATE,
        "'kcm_sync' is no async function",
        "async def",
    ),
    "9, another hook that is async": (
        ("def kcm_status", "async def kcm_status"),
        VALIDATE,
        "'kcm_status' is async, but only 'kcm_sync' is awaited",
        "",
    ),
    "a hook that is there twice": (
        with_method("more(self)", marker="@hookimpl(specname='kcm_status')"),
        VALIDATE,
        "'kcm_status' is implemented twice",
        "",
    ),
    "a hook of an extension": (
        with_method("kcm_observe(self, record)"),
        VALIDATE,
        "'kcm_observe' is a hook of extensions",
        "'kcm_host.extensions'",
    ),
    "a hook with an instance that there is not yet": (
        with_method("kcm_settings(self)"),
        VALIDATE,
        "'kcm_settings' is called before there is an instance",
        "mark it with @staticmethod and leave out 'self'",
    ),
}


@pytest.mark.parametrize(("change", "stage", "reason", "remedy"), SOURCES.values(), ids=SOURCES)
def test_a_mistake_in_the_source(
    site: Site, good: str, change: tuple[str, str], stage: Stage, reason: str, remedy: str
) -> None:
    """Each is found where it can be, with the hook and what to write instead (kinds 2 to 9)."""
    pattern, replacement = change
    site.plugin("bad", re.sub(pattern, replacement, good, flags=re.S))
    found = broken(site)
    assert found.stage is stage
    assert reason in found.reason
    assert remedy in found.remedy


@pytest.mark.parametrize(
    ("attribute", "reason", "remedy"),
    [
        ("Lop", "has no 'Lop' (it has 'Loop')", "correct the entry point 'bad = "),
        ("loop", "is a Loop, not a class", "names the plugin's class"),
    ],
)
def test_an_attribute_that_is_no_class(
    site: Site, good: str, attribute: str, reason: str, remedy: str
) -> None:
    """Kind 4: the class is not in the module, or it is an instance."""
    site.plugin("bad", good + "\nloop = Loop()\n", attribute=attribute)
    found = broken(site)
    assert found.stage is Stage.ATTRIBUTE
    assert reason in found.reason
    assert remedy in found.remedy


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


def test_a_hook_of_a_later_host_may_be_marked_optional(site: Site, good: str) -> None:
    """A plugin may implement hooks of later hosts, if they are marked as optional."""
    later = "\n    @hookimpl(optionalhook=True)\n    def kcm_later(self):\n        pass\n"
    site.plugin("fine", good + later)
    assert list(site.load("fine").plugins) == ["fine"]


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
