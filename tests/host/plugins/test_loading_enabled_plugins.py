"""Loading: enabled plugins are loaded, others are not imported."""

import sys
from textwrap import dedent

import pluggy
import pytest
from host.plugins.conftest import GOOD, SETTINGS, Site

from kcm_host.api import hooks
from kcm_host.plugins.hookimpls import ROLES


def test_a_plugin_that_is_not_enabled_is_not_imported(site: Site) -> None:
    """Installed is not enabled: nothing of the others is imported."""
    path = site.plugin("other", "raise SystemExit")
    site.plugin("mine")
    loading = site.load("mine")
    assert list(loading.plugins) == ["mine"]
    assert not loading.quarantined
    assert path.stem not in sys.modules


def test_an_enabled_plugin_that_is_not_installed_is_missing(site: Site) -> None:
    """Names without a candidate are returned, sorted."""
    assert site.load("zebra", "ant").missing == ("ant", "zebra")


def test_results_come_in_the_order_of_names(site: Site) -> None:
    """The order is the same at every start."""
    for name in ("b", "c", "a"):
        site.plugin(name)
    assert list(site.load("c", "a", "b").plugins) == ["a", "b", "c"]


def test_a_loaded_plugin_says_what_it_is(site: Site, good: str) -> None:
    """It has name, distribution, version, module, class, hooks and settings model."""
    path = site.plugin("mine", good + SETTINGS)
    plugin = site.load("mine").plugins["mine"]
    assert (plugin.name, plugin.distribution, plugin.version) == ("mine", "acme-mine", "1.0")
    assert plugin.module == path.stem
    assert plugin.cls is sys.modules[path.stem].Loop
    assert plugin.hooks == ("kcm_settings", "kcm_status", "kcm_sync", "kcm_watches")
    assert plugin.settings_model is not None
    assert issubclass(plugin.settings_model, sys.modules[path.stem].Settings)


@pytest.mark.parametrize(
    "source",
    [
        "raise KeyboardInterrupt",
        dedent(GOOD) + "\n    def __init__(self): raise KeyboardInterrupt\n",
    ],
    ids=["import", "construct"],
)
def test_the_user_can_interrupt_loading(site: Site, source: str) -> None:
    """KeyboardInterrupt is the user's and passes through every stage."""
    site.plugin("slow", source)
    with pytest.raises(KeyboardInterrupt):
        site.load("slow").plugins["slow"].construct()


def test_every_hook_belongs_to_one_role() -> None:
    """A hook added to the API without a role would be refused as unknown."""
    manager = pluggy.PluginManager(hooks.PROJECT)
    manager.add_hookspecs(hooks)
    specified = sorted(vars(manager.hook))
    assert sorted(hook for role in ROLES for hook in role.hooks) == specified
