"""Plugins that look on: they are told of every sync, and cannot disturb one."""

import logging
from collections.abc import Collection, Iterable

import pluggy

from kcm_host.api import SyncRecord
from kcm_host.plugins.finder import Candidate
from kcm_host.plugins.groups import EXTENSION
from kcm_host.plugins.hookimpls import new_manager
from kcm_host.plugins.loader import Loading, load_each, validated
from kcm_host.plugins.plugin import Plugin
from kcm_host.plugins.quarantine import Stage, guarded, one_line, place_of

logger = logging.getLogger(__name__)


class Extensions:
    """The loaded extensions, one instance each for the life of the host."""

    def __init__(self, manager: pluggy.PluginManager, loading: Loading) -> None:
        #: What became of the enabled ones; `plugins` are those that are told.
        self.loading = loading
        self._observers = [
            (plugin, _alone(manager, plugin.name)) for plugin in loading.plugins.values()
        ]
        self._logged: set[tuple[str, str, str]] = set()

    def observe(self, record: SyncRecord) -> int:
        """
        Tell every extension of a sync that ended, and give how many of them failed.

        Nothing but KeyboardInterrupt is raised.
        """
        failed = 0
        for plugin, told in self._observers:
            try:
                told(record=record)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - no observer may end a sync or the host
                failed += 1
                self._tell(plugin, error)
        return failed

    def _tell(self, plugin: Plugin, error: BaseException) -> None:
        # Without the message, which may differ at every call.
        fact = (plugin.name, type(error).__name__, place_of(error, module=plugin.module))
        if fact in self._logged:
            return
        self._logged.add(fact)
        logger.warning(
            "an extension failed; it is told of later syncs all the same",
            extra={
                "kv": {
                    "extension": plugin.name,
                    "error": one_line(error, module=plugin.module),
                }
            },
        )


def load_extensions(
    candidates: Iterable[Candidate], enabled: Collection[str], *, host_version: str
) -> Extensions:
    """Load the extensions that are enabled, by the rules for controllers."""
    manager = new_manager()

    def admit(candidate: Candidate) -> Plugin:
        plugin, instance = validated(candidate, EXTENSION, host_version=host_version)
        with guarded(candidate, Stage.REGISTER, doing="registering its hooks"):
            manager.register(instance, candidate.name)
        return plugin

    return Extensions(manager, load_each(candidates, enabled, admit))


def _alone(manager: pluggy.PluginManager, name: str) -> pluggy.HookCaller:
    # A caller for one extension each: with a common one, a failure would silence those after it.
    others = [each for other, each in manager.list_name_plugin() if other != name]
    return manager.subset_hook_caller("kcm_observe", remove_plugins=others)
