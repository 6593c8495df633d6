"""A plugin that passed every check, and one running instance of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pluggy
from pydantic import BaseModel

from kcm_host.api import (
    AnyWatch,
    Discovery,
    Done,
    Key,
    Later,
    Metric,
    Outcome,
    Permission,
    Timer,
    View,
    Writer,
)
from kcm_host.plugins.finder import Candidate
from kcm_host.plugins.hookimpls import new_manager
from kcm_host.plugins.quarantine import PluginError, Stage, guarded
from kcm_host.plugins.validation import (
    checked_metrics,
    checked_more_watches,
    checked_timers,
    checked_watches,
    checked_writes,
)


class WrongResult(TypeError):
    """A hook returned what it must not."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """One loaded plugin, a controller or an extension."""

    candidate: Candidate
    cls: type
    #: The hooks it implements, sorted.
    hooks: tuple[str, ...]
    settings_model: type[BaseModel] | None = None
    #: How many workers it wants where the configuration does not say; None: it does not say either.
    workers: int | None = None

    @property
    def name(self) -> str:
        """The name of its entry point."""
        return self.candidate.name

    @property
    def distribution(self) -> str:
        """The distribution it came with."""
        return self.candidate.distribution

    @property
    def version(self) -> str:
        """The version of that distribution."""
        return self.candidate.version

    @property
    def module(self) -> str:
        """The module its class was found in."""
        return self.candidate.module

    def new(self) -> "Instance":
        """Give a fresh instance for one start of the controller; raises `BrokenPlugin`."""
        doing = f"constructing {self.candidate.value!r}"
        with guarded(self.candidate, Stage.CONSTRUCT, doing=doing):
            instance = self.cls()
        manager = new_manager()
        with guarded(self.candidate, Stage.REGISTER, doing="registering its hooks"):
            manager.register(instance, self.name)
        return Instance(self, manager)


class Instance:
    """
    The hooks of one instance of a controller, typed and checked.

    `watches`, `writes` and `timers` are for the start and raise `BrokenPlugin`. The others let the
    plugin's exceptions pass, and raise `WrongResult` when it returns something else than it may.
    """

    __slots__ = ("_hook", "_sync", "_watches", "plugin")

    def __init__(self, plugin: Plugin, manager: pluggy.PluginManager) -> None:
        self.plugin = plugin
        self._hook = manager.hook
        # Looked up once: this is the one call per key.
        self._sync = manager.hook.kcm_sync
        self._watches: tuple[AnyWatch, ...] = ()

    def has(self, hook: str) -> bool:
        """Whether the plugin implements this hook."""
        return hook in self.plugin.hooks

    def watches(self, settings: Any, discovery: Discovery) -> tuple[AnyWatch, ...]:
        """Give the kinds to follow all the time; none at all means that there is nothing to do."""
        with guarded(self.plugin.candidate, Stage.START, doing="'kcm_watches'"):
            result = self._hook.kcm_watches(settings=settings, discovery=discovery)
            self._watches = checked_watches(result)
        return self._watches

    def more_watches(self, view: View, settings: Any, discovery: Discovery) -> tuple[AnyWatch, ...]:
        """
        Give the kinds to follow beyond `watches` from now on; all of them, or `WrongResult`.

        One bad watch spoils the answer: following a part of it would look like all is well.
        """
        result = self._hook.kcm_more_watches(view=view, settings=settings, discovery=discovery)
        try:
            return checked_more_watches(result, besides=self._watches)
        except PluginError as fault:
            raise self._wrong(fault) from None

    def writes(self, settings: Any) -> frozenset[Permission]:
        """Give everything the controller may write."""
        with guarded(self.plugin.candidate, Stage.START, doing="'kcm_writes'"):
            return checked_writes(self._hook.kcm_writes(settings=settings))

    def timers(self, settings: Any) -> tuple[Timer, ...]:
        """Give what is to be queued because time has passed."""
        with guarded(self.plugin.candidate, Stage.START, doing="'kcm_timers'"):
            return checked_timers(self._hook.kcm_timers(settings=settings))

    async def sync(self, key: Key, view: View, writer: Writer, settings: Any) -> Outcome:
        """Run one sync to its end."""
        outcome = await self._sync(key=key, view=view, writer=writer, settings=settings)
        if isinstance(outcome, Done):
            return outcome
        if isinstance(outcome, Later) and isinstance(outcome.after, timedelta):
            return outcome
        raise WrongResult(
            f"'kcm_sync' of plugin {self.plugin.name!r} returned {outcome!r}; "
            f"return Done() or Later(timedelta(...))"
        )

    def status(self, view: View, settings: Any) -> Mapping[str, Any]:
        """Give what the controller says about itself."""
        status = self._hook.kcm_status(view=view, settings=settings)
        if isinstance(status, Mapping):
            return status
        raise WrongResult(
            f"'kcm_status' of plugin {self.plugin.name!r} returned {status!r}; return a dict"
        )

    def metrics(self, view: View, settings: Any) -> tuple[Metric, ...]:
        """Give the controller's own metrics; what is in them is checked where they are shown."""
        try:
            return checked_metrics(self._hook.kcm_metrics(view=view, settings=settings))
        except PluginError as fault:
            raise self._wrong(fault) from None

    def _wrong(self, fault: PluginError) -> WrongResult:
        return WrongResult(f"{fault.reason} (plugin {self.plugin.name!r}); {fault.remedy}")
