"""Other names of controllers."""

import sys

from host.plugins.conftest import Site

from kcm_host.plugins.finder import find
from kcm_host.plugins.hookimpls import CONTROLLER
from kcm_host.plugins.loader import InstalledNames


def with_aliases(good: str, *aliases: str) -> str:
    """Return the source of a valid controller that has these aliases."""
    return f"""{good}
    @staticmethod
    @hookimpl
    def kcm_info():
        from kcm_host.api import ControllerInfo
        return ControllerInfo(aliases={aliases!r})
"""


def names() -> InstalledNames:
    """Return the names of what is installed now."""
    return InstalledNames(find(CONTROLLER.group), host_version="0.2.0")


def test_a_third_party_has_aliases_like_the_five(site: Site, good: str) -> None:
    """The host knows no controller by name: the alias is what `kcm_info` returns."""
    site.plugin("acme", with_aliases(good, "acme-controller", "acme-loop"))
    assert names().name_of("acme-loop") == "acme"
    assert names().spellings("acme") == ("acme", "acme-controller", "acme-loop")


def test_a_name_imports_nothing(site: Site, good: str) -> None:
    """Only another name than those of entry points makes the plugins load."""
    path = site.plugin("acme", with_aliases(good, "acme-loop"))
    found = names()
    assert found.name_of("acme") == "acme"
    assert path.stem not in sys.modules
    assert found.name_of("acme-loop") == "acme"
    assert path.stem in sys.modules


def test_an_alias_of_two_is_none(site: Site, good: str) -> None:
    """Nobody can know which one is meant."""
    site.plugin("one", with_aliases(good, "both", "only-one"))
    site.plugin("two", with_aliases(good, "both"))
    assert names().name_of("both") == "both"
    assert names().name_of("only-one") == "one"


def test_a_name_takes_precedence_over_an_alias(site: Site, good: str) -> None:
    """A plugin cannot take the name of another one."""
    site.plugin("one", with_aliases(good, "two"))
    site.plugin("two", good)
    assert names().name_of("two") == "two"
    assert names().spellings("one") == ("one",)


def test_a_broken_plugin_has_no_alias(site: Site, good: str) -> None:
    """It hinders no other one."""
    site.plugin("one", "raise ValueError")
    site.plugin("two", with_aliases(good, "second"))
    assert names().name_of("second") == "two"
    assert names().name_of("first") == "first"
