"""The hooks of one object of a plugin's class, checked as the host checks a loaded plugin."""

from collections.abc import Callable, Sequence
from typing import Any

from kcm_host.api import AnyWatch, View
from kcm_host.plugins import hookimpls
from kcm_host.plugins.finder import Candidate
from kcm_host.plugins.plugin import Instance, Plugin
from kcm_host.plugins.quarantine import Stage, guarded
from kcm_host.plugins.validation import validate_info
from kcm_host.runtime.dynamic_watches import HOOK
from kcm_host_testing.harness.shared_objects import SharedObjects


def instance_of(plugin: object, name: str) -> Instance:
    """Return the hooks of a plugin's object, checked as the host checks them when it loads one."""
    cls = type(plugin)
    candidate = Candidate(name, f"{cls.__module__}:{cls.__qualname__}", name, "")
    role = hookimpls.CONTROLLER
    manager = hookimpls.new_manager()
    with guarded(candidate, Stage.VALIDATE, doing="checking its hooks"):
        found = hookimpls.implementations(manager, cls)
        hookimpls.check_names(found, role)
        hookimpls.check_wrappers(found)
        hookimpls.check_arguments(manager, found)
        hookimpls.check_role(found, role)
        hookimpls.check_marked(cls, found, role)
        hookimpls.check_complete(found, role)
        hookimpls.check_async(found)
        hookimpls.check_static(found)
        manager.register(plugin, name)
        functions = {each.hook: each.function for each in found}
        info = validate_info(functions["kcm_info"]() if "kcm_info" in functions else None)
    return Instance(Plugin(candidate, cls, tuple(sorted(functions)), info=info), manager)


class CheckedInstance:
    """An instance whose dynamic watches are checked as those of `kcm_watches` are."""

    def __init__(
        self,
        instance: Instance,
        checked: Callable[[AnyWatch], AnyWatch],
        shared: SharedObjects,
    ) -> None:
        self.plugin = instance.plugin
        self._shared = shared
        self._instance = instance
        self._checked = checked

    def dynamic_watches(self, view: View, discovery: Any) -> Sequence[AnyWatch]:
        """See `Instance.dynamic_watches`."""
        watches = self._instance.dynamic_watches(view, discovery)
        self._shared.check(f"'{HOOK}'")
        return tuple(map(self._checked, watches))
