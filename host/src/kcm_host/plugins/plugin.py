"""A validated plugin, and one instance of it with its hooks."""

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
    validate_dynamic_watches,
    validate_metrics,
    validate_timers,
    validate_watches,
    validate_writes,
)


class WrongResult(TypeError):
    """A hook has returned an invalid result."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """One validated plugin, a controller or an extension."""

    candidate: Candidate
    cls: type
    #: The hooks it implements, sorted.
    hooks: tuple[str, ...]
    settings_model: type[BaseModel] | None = None
    #: The result of `kcm_workers`, used when the configuration sets no number.
    workers: int | None = None

    @property
    def name(self) -> str:
        """The name of its entry point."""
        return self.candidate.name

    @property
    def distribution(self) -> str:
        """The distribution that contains it."""
        return self.candidate.distribution

    @property
    def version(self) -> str:
        """The version of that distribution."""
        return self.candidate.version

    @property
    def module(self) -> str:
        """The module of its entry point."""
        return self.candidate.module

    def new(self) -> "Instance":
        """Return a new instance for one controller run; raises `BrokenPlugin`."""
        doing = f"constructing {self.candidate.value!r}"
        with guarded(self.candidate, Stage.CONSTRUCT, doing=doing):
            instance = self.cls()
        manager = new_manager()
        with guarded(self.candidate, Stage.REGISTER, doing="registering its hooks"):
            manager.register(instance, self.name)
        return Instance(self, manager)


class Instance:
    """
    The hooks of one instance of a controller, with validated results.

    `watches`, `writes` and `timers` are called at the start of a run and raise `BrokenPlugin`. The
    others pass the exceptions of the plugin, and raise `WrongResult` for an invalid result.
    """

    __slots__ = ("_hook", "_sync", "_watches", "plugin")

    def __init__(self, plugin: Plugin, manager: pluggy.PluginManager) -> None:
        self.plugin = plugin
        self._hook = manager.hook
        # Looked up once, because it is called for each key.
        self._sync = manager.hook.kcm_sync
        self._watches: tuple[AnyWatch, ...] = ()

    def has(self, hook: str) -> bool:
        """Return whether the plugin implements this hook."""
        return hook in self.plugin.hooks

    def watches(self, settings: Any, discovery: Discovery) -> tuple[AnyWatch, ...]:
        """Return the result of `kcm_watches`, which may be empty."""
        with guarded(self.plugin.candidate, Stage.START, doing="'kcm_watches'"):
            result = self._hook.kcm_watches(settings=settings, discovery=discovery)
            self._watches = validate_watches(result)
        return self._watches

    def dynamic_watches(
        self, view: View, settings: Any, discovery: Discovery
    ) -> tuple[AnyWatch, ...]:
        """
        Return all dynamic watches; raise `WrongResult` if one is invalid.

        A part of them is never used, because the error would not be noticed then.
        """
        result = self._hook.kcm_dynamic_watches(view=view, settings=settings, discovery=discovery)
        try:
            return validate_dynamic_watches(result, besides=self._watches)
        except PluginError as error:
            raise self._wrong(error) from None

    def writes(self, settings: Any) -> frozenset[Permission]:
        """Return the permissions that the controller needs."""
        with guarded(self.plugin.candidate, Stage.START, doing="'kcm_writes'"):
            return validate_writes(self._hook.kcm_writes(settings=settings))

    def timers(self, settings: Any) -> tuple[Timer, ...]:
        """Return the timers."""
        with guarded(self.plugin.candidate, Stage.START, doing="'kcm_timers'"):
            return validate_timers(self._hook.kcm_timers(settings=settings))

    async def sync(self, key: Key, view: View, writer: Writer, settings: Any) -> Outcome:
        """Sync one key and return the outcome."""
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
        """Return the status of the controller."""
        status = self._hook.kcm_status(view=view, settings=settings)
        if isinstance(status, Mapping):
            return status
        raise WrongResult(
            f"'kcm_status' of plugin {self.plugin.name!r} returned {status!r}; return a dict"
        )

    def metrics(self, view: View, settings: Any) -> tuple[Metric, ...]:
        """Return the controller's own metrics; their values are validated when they are exposed."""
        try:
            return validate_metrics(self._hook.kcm_metrics(view=view, settings=settings))
        except PluginError as error:
            raise self._wrong(error) from None

    def _wrong(self, error: PluginError) -> WrongResult:
        return WrongResult(f"{error.reason} (plugin {self.plugin.name!r}); {error.remedy}")
