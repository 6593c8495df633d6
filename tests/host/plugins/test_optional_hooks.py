"""The optional hooks: missing, with valid results, with invalid results."""

from typing import Any

import pytest
from host.plugins.conftest import Site

from kcm_host.api import ControllerInfo
from kcm_host.config.load import load_settings
from kcm_host.plugins.plugin import Instance, WrongResult
from kcm_host.plugins.quarantine import BrokenPlugin, Stage
from kcm_host.runtime.bootstrap import load_plugins

NOTHING: Any = None


def hook(head: str, result: str, *lines: str) -> str:
    """Return the source of one hook that returns this, with statements of the module below it."""
    body = f"    @hookimpl\n    def {head}:\n        return {result}\n"
    return "\n".join(["", body, *lines, ""])


def info(fields: str) -> str:
    """Return the source of a `kcm_info` with these fields."""
    lines = ["@staticmethod", "@hookimpl", "def kcm_info():"]
    lines += ["    from kcm_host.api import ControllerInfo", f"    return ControllerInfo({fields})"]
    return "\n".join(["", *(f"    {line}" for line in lines), ""])


def loaded(site: Site, source: str) -> Instance:
    """Load a controller with this source and return an instance of it."""
    site.plugin("mine", source)
    loading = site.load("mine")
    assert not loading.quarantined
    return loading.plugins["mine"].new()


def test_missing_hooks_return_nothing(site: Site, good: str) -> None:
    """There are no dynamic watches, timers, metrics; the info is the default."""
    instance = loaded(site, good)
    instance.watches(NOTHING)
    assert instance.dynamic_watches(NOTHING, NOTHING) == ()
    assert instance.timers() == ()
    assert instance.metrics(NOTHING) == ()
    assert instance.synced(NOTHING) == ()
    assert instance.plugin.info == ControllerInfo()
    assert instance.has("kcm_sync")
    assert not instance.has("kcm_dynamic_watches")


@pytest.mark.parametrize(
    ("configured", "wanted", "number"),
    [("{workers: 2}", 10, 2), ("{}", 10, 10), ("{workers: }", 10, 10), ("{}", None, 5)],
    ids=["configuration", "plugin", "no value", "neither"],
)
def test_the_configuration_takes_precedence(
    site: Site, good: str, configured: str, wanted: int | None, number: int
) -> None:
    """Its number counts, else the plugin's, else 5."""
    site.plugin("mine", good + info(f"workers={wanted}" if wanted else ""))
    path = site.root / "kcm-host.yaml"
    path.write_text(f"controllers: {{mine: {configured}}}")
    (config,) = load_plugins(load_settings(file=path, environ={})).controllers
    assert config.workers == number


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        *((f"workers={each}", "workers is") for each in ("0", "-1", "2.0", "True", "'5'", "1001")),
        ("aliases='other'", "aliases is 'other'"),
        ("aliases=('',)", "aliases is ('',)"),
        ("service_account=None", "service_account is None"),
        ("queue_name=3", "queue_name is 3"),
        ("sync_timeout=60", "sync_timeout is 60"),
        (
            "sync_timeout=__import__('datetime').timedelta(0)",
            "sync_timeout is datetime.timedelta(0)",
        ),
    ],
)
def test_a_wrong_info(site: Site, good: str, fields: str, says: str) -> None:
    """Kind 12: a wrong field quarantines the plugin when it is loaded."""
    site.plugin("mine", good + info(fields))
    found = site.load("mine").quarantined["mine"]
    assert found.stage is Stage.VALIDATE
    assert found.reason.startswith(f"'kcm_info': {says}")
    assert found.remedy


def test_info_of_another_type(site: Site, good: str) -> None:
    """Kind 12: it is a ControllerInfo or None."""
    site.plugin("mine", good + info("").replace("ControllerInfo()", "{}"))
    found = site.load("mine").quarantined["mine"]
    assert found.reason == "'kcm_info' returned a dict"
    assert found.remedy == "return a ControllerInfo of kcm_host.api"


def test_dynamic_watches_are_returned_as_declared(site: Site, good: str) -> None:
    """They are validated like those of kcm_watches, at each call."""
    watch = "Watch(kind=NODE, model=Other, keys=print, name='others')"
    more = hook(
        "kcm_dynamic_watches(self, view)", f"[{watch}] * view", "class Other(Node):", "    pass"
    )
    instance = loaded(site, good + more)
    instance.watches(NOTHING)
    view: Any = 1
    (found,) = instance.dynamic_watches(view, NOTHING)
    assert found.model.__name__ == "Other"
    view = 0
    assert instance.dynamic_watches(view, NOTHING) == ()
    assert instance.has("kcm_dynamic_watches")


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (
            "[Watch(kind=NODE, model=Other, keys=print), NODE]",
            "watch 2 of 'kcm_dynamic_watches': it",
        ),
        (
            "Watch(kind=NODE, model=Other, keys=print)",
            "'kcm_dynamic_watches' returned a Watch, not a",
        ),
        (
            "[Watch(kind=NODE, model=Other, keys=print)] * 2",
            "watches 1 and 2 of 'kcm_dynamic_watches' are both called 'nodes'",
        ),
        (
            "[Watch(kind=NODE, model=Node, keys=print)]",
            "watch 1 of 'kcm_dynamic_watches' is called 'nodes', as one of 'kcm_watches' is",
        ),
    ],
    ids=["no watch", "no list", "duplicates", "in kcm_watches"],
)
def test_invalid_dynamic_watches_are_all_refused(
    site: Site, good: str, result: str, says: str
) -> None:
    """One invalid watch refuses all; the error has hook, watch, plugin and remedy."""
    more = hook("kcm_dynamic_watches(self)", result, "class Other(Node):", "    pass")
    instance = loaded(site, good + more)
    instance.watches(NOTHING)
    with pytest.raises(WrongResult) as caught:
        instance.dynamic_watches(NOTHING, NOTHING)
    assert says in str(caught.value)
    assert "(plugin 'mine'); " in str(caught.value)


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ("[5]", "timer 1 of 'kcm_timers': it is a int, no Timer"),
        ("{}", "'kcm_timers' returned a dict, not a list"),
        ("[Timer(every=60, keys=print)]", "every is 60"),
        ("[Timer(every=HOUR * 0, keys=print)]", "every is datetime.timedelta(0)"),
        ("[Timer(every=-HOUR, keys=print)]", "every is datetime.timedelta(days=-1"),
        ("[Timer(every=HOUR, keys=[])]", "keys is [], no function"),
        ("[Timer(every=HOUR, keys=lambda: [])]", "keys cannot be called with (view)"),
        ("[Timer(every=HOUR, keys=later)]", "keys is async"),
        ("[Timer(every=HOUR, keys=print, resync=1)]", "resync is 1"),
        ("1 / 0", "'kcm_timers' raised ZeroDivisionError: division by zero at "),
    ],
)
def test_bad_timers(site: Site, good: str, result: str, says: str) -> None:
    """Kind 12: an invalid timer quarantines the plugin; the reason has timer and remedy."""
    more = hook(
        "kcm_timers(self)",
        result,
        "import datetime",
        "from kcm_host.api import Timer",
        "HOUR = datetime.timedelta(hours=1)",
        "async def later(view): return []",
    )
    with pytest.raises(BrokenPlugin) as caught:
        loaded(site, good + more).timers()
    found = caught.value.quarantined
    assert found.stage is Stage.START
    assert says in found.reason
    assert found.remedy


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ("{'acme_loops': 1}", "'kcm_metrics' returned a dict, not a list (plugin 'mine')"),
        ("[('acme_loops', 1)]", "metric 1 of 'kcm_metrics' is a tuple, no Metric (plugin 'mine')"),
    ],
    ids=["no list", "no metric"],
)
def test_invalid_metrics(site: Site, good: str, result: str, says: str) -> None:
    """Other results than a list of metrics are errors with a remedy."""
    instance = loaded(site, good + hook("kcm_metrics(self)", result))
    with pytest.raises(WrongResult) as caught:
        instance.metrics(NOTHING)
    assert str(caught.value).startswith(says)
    assert "return a list of Metric" in str(caught.value)
