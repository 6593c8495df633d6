"""The hooks of one object of a plugin's class, checked as the host checks a loaded plugin."""

from collections.abc import Callable, Sequence
from typing import Any

from kcm_host.api import AnyWatch, View
from kcm_host.plugins.finder import Candidate
from kcm_host.plugins.hookimpls import CONTROLLER, new_manager
from kcm_host.plugins.loader import validate_class
from kcm_host.plugins.plugin import Instance
from kcm_host.plugins.quarantine import Stage, guarded
from kcm_host.runtime.dynamic_watches import HOOK
from kcm_host_testing.harness.shared_objects import SharedObjects


def instance_of(plugin: object, name: str) -> Instance:
    """Return the hooks of a plugin's object, checked as the host checks them when it loads one."""
    cls = type(plugin)
    candidate = Candidate(
        name=name, value=f"{cls.__module__}:{cls.__qualname__}", distribution=name, version=""
    )
    validated = validate_class(candidate, cls, CONTROLLER)
    manager = new_manager()
    with guarded(candidate, Stage.REGISTER, doing="registering its hooks"):
        manager.register(plugin, name)
    return Instance(validated, manager)


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
