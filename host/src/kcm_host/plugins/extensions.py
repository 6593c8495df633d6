"""Extensions: plugins that observe every sync and cannot affect one."""

import logging
from collections.abc import Collection, Iterable

import pluggy

from kcm_host.api import SyncRecord
from kcm_host.observe.deduplication import LogOnce
from kcm_host.observe.logging import place_of
from kcm_host.plugins.finder import Candidate
from kcm_host.plugins.hookimpls import EXTENSION, new_manager
from kcm_host.plugins.loader import LoadResult, load_each, validate_plugin
from kcm_host.plugins.plugin import Plugin
from kcm_host.plugins.quarantine import Stage, guarded, one_line, report_to_authors

logger = logging.getLogger(__name__)


class Extensions:
    """The loaded extensions, with one instance each for the lifetime of the host."""

    def __init__(self, manager: pluggy.PluginManager, loading: LoadResult) -> None:
        #: `plugins` are the extensions that are called.
        self.loading = loading
        self._observers = [
            (plugin, _hook_of(manager, plugin.name)) for plugin in loading.plugins.values()
        ]
        self._logged = LogOnce()

    def observe(self, record: SyncRecord) -> int:
        """
        Call `kcm_observe` of every extension, and return how many of them raised.

        Only KeyboardInterrupt is raised.
        """
        failed = 0
        for plugin, hook in self._observers:
            try:
                hook(record=record)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - an extension must not end a sync or the host
                failed += 1
                self._log_error(plugin, error)
        return failed

    def _log_error(self, plugin: Plugin, error: BaseException) -> None:
        # Once for each place: the message may differ at every call.
        fact = (plugin.name, type(error).__name__, place_of(error, module=plugin.module))
        if not self._logged.is_new(fact):
            return
        logger.warning(
            "extension failed",
            extra={
                "kv": {
                    "extension": plugin.name,
                    "error": one_line(error, module=plugin.module),
                    "remedy": report_to_authors(plugin.candidate),
                }
            },
        )


def load_extensions(
    candidates: Iterable[Candidate], enabled: Collection[str], *, host_version: str
) -> Extensions:
    """Load the enabled extensions, in the same way as controllers."""
    manager = new_manager()

    def admit(candidate: Candidate) -> Plugin:
        plugin = validate_plugin(candidate, EXTENSION, host_version=host_version)
        instance = plugin.construct()
        with guarded(candidate, Stage.REGISTER, doing="registering its hooks"):
            manager.register(instance, candidate.name)
            manager.check_pending()
        return plugin

    return Extensions(manager, load_each(candidates, enabled, admit))


def _hook_of(manager: pluggy.PluginManager, name: str) -> pluggy.HookCaller:
    # One caller for each extension: with a common one, an exception would skip those after it.
    others = [each for other, each in manager.list_name_plugin() if other != name]
    return manager.subset_hook_caller("kcm_observe", remove_plugins=others)
