"""The names of the installed controllers, with their aliases."""

from collections.abc import Collection
from functools import cached_property

from kcm_host.plugins.finder import Candidate
from kcm_host.plugins.loader import load
from kcm_host.plugins.plugin import Plugin


class InstalledNames:
    """
    The names of these candidates, and the aliases that their `kcm_info` returns.

    A name of an entry point imports nothing. Only for another name are the plugins loaded, because
    an alias is nowhere else; one that is broken has none. An alias that several have, or that is
    the name of a plugin, is none.
    """

    def __init__(self, candidates: Collection[Candidate], *, host_version: str) -> None:
        self._candidates = candidates
        self._host_version = host_version
        self._names = {one.name for one in candidates}

    def name_of(self, spelling: str) -> str:
        """Return the name for which this is an alias; a name or an unknown one is unchanged."""
        if spelling in self._names:
            return spelling
        return self._by_alias.get(spelling, spelling)

    def spellings(self, name: str) -> tuple[str, ...]:
        """Return all names of a controller, its own name first."""
        return (name, *(alias for alias, owner in self._by_alias.items() if owner == name))

    @cached_property
    def _by_alias(self) -> dict[str, str]:
        found: dict[str, list[str]] = {}
        for plugin in self._plugins():
            for alias in dict.fromkeys(plugin.info.aliases):
                found.setdefault(alias, []).append(plugin.name)
        return {
            alias: owners[0]
            for alias, owners in found.items()
            if len(owners) == 1 and alias not in self._names
        }

    def _plugins(self) -> Collection[Plugin]:
        return load(self._candidates, self._names, host_version=self._host_version).plugins.values()
