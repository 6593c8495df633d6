"""A validated plugin with its settings model, and one instance of it with its hooks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin

import pluggy
from pydantic import BaseModel, ConfigDict, create_model
from pydantic.alias_generators import to_camel

from kcm_host.api import (
    AnyWatch,
    ControllerInfo,
    Discovery,
    Done,
    Enqueue,
    Key,
    Later,
    Metric,
    Outcome,
    Permission,
    Terminal,
    Timer,
    View,
    Writer,
)
from kcm_host.api.errors import Invalid
from kcm_host.plugins.finder import Candidate
from kcm_host.plugins.hookimpls import new_manager
from kcm_host.plugins.quarantine import Stage, guarded, report_to_authors
from kcm_host.plugins.validation import (
    validate_dynamic_watches,
    validate_metrics,
    validate_timers,
    validate_watches,
    validate_writes,
)

M = TypeVar("M", bound=BaseModel)


#: Not written as `Done | Later | Terminal` in the call, which would make a type for each sync.
_OUTCOMES = (Done, Later, Terminal)


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
    info: ControllerInfo = field(default_factory=ControllerInfo)

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

    def new(self, settings: BaseModel | None = None) -> "Instance":
        """Return a new instance with these settings; raises `BrokenPlugin`."""
        # One manager for each instance: a common one would call the hooks of all controllers.
        manager = new_manager()
        instance = self.construct(settings)
        with guarded(self.candidate, Stage.REGISTER, doing="registering its hooks"):
            manager.register(instance, self.name)
            manager.check_pending()
        return Instance(self, manager)

    def construct(self, settings: BaseModel | None = None) -> object:
        """Return an object of the plugin's class; raises `BrokenPlugin`."""
        arguments = () if self.settings_model is None else (settings,)

        def remedy(_error: BaseException) -> str:
            takes = "the settings as its only argument" if arguments else "no arguments"
            return f"its class must take {takes}: {report_to_authors(self.candidate)}"

        doing = f"constructing {self.candidate.value!r}"
        with guarded(self.candidate, Stage.CONSTRUCT, doing=doing, remedy=remedy):
            return self.cls(*arguments)


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

    def watches(self, discovery: Discovery) -> tuple[AnyWatch, ...]:
        """Return the result of `kcm_watches`, which may be empty."""
        with guarded(self.plugin.candidate, Stage.START, doing="'kcm_watches'"):
            result = self._hook.kcm_watches(discovery=discovery)
            self._watches = validate_watches(result)
        return self._watches

    def dynamic_watches(self, view: View, discovery: Discovery) -> tuple[AnyWatch, ...]:
        """
        Return all dynamic watches; raise `WrongResult` if one is invalid.

        A part of them is never used, because the error would not be noticed then.
        """
        result = self._hook.kcm_dynamic_watches(view=view, discovery=discovery)
        try:
            return validate_dynamic_watches(result, besides=self._watches)
        except Invalid as error:
            raise self._wrong(error) from None

    def writes(self) -> frozenset[Permission]:
        """Return the permissions that the controller needs."""
        with guarded(self.plugin.candidate, Stage.START, doing="'kcm_writes'"):
            return validate_writes(self._hook.kcm_writes())

    def timers(self) -> tuple[Timer, ...]:
        """Return the timers."""
        with guarded(self.plugin.candidate, Stage.START, doing="'kcm_timers'"):
            return validate_timers(self._hook.kcm_timers())

    async def sync(self, key: Key, view: View, writer: Writer) -> Outcome:
        """Sync one key and return the outcome."""
        outcome = await self._sync(key=key, view=view, writer=writer)
        if isinstance(outcome, _OUTCOMES):
            return outcome
        remedy = "return Done(), Later(timedelta(...)) or Terminal(text)"
        if outcome is None:
            remedy = "end kcm_sync with 'return Done()' on every path"
        raise WrongResult(
            f"'kcm_sync' of plugin {self.plugin.name!r} returned {outcome!r}; {remedy}"
        )

    def synced(self, view: View) -> Iterable[Enqueue]:
        """Return the keys that `kcm_synced` requests; its exceptions pass."""
        requests: Iterable[Enqueue] | None = self._hook.kcm_synced(view=view)
        return requests or ()

    def status(self, view: View) -> Mapping[str, Any]:
        """Return the status of the controller, empty without the hook."""
        if not self.has("kcm_status"):
            return {}
        status = self._hook.kcm_status(view=view)
        if isinstance(status, Mapping):
            return status
        raise WrongResult(
            f"'kcm_status' of plugin {self.plugin.name!r} returned {status!r}; return a dict"
        )

    def metrics(self, view: View) -> tuple[Metric, ...]:
        """Return the controller's own metrics; their values are validated when they are exposed."""
        try:
            return validate_metrics(self._hook.kcm_metrics(view=view))
        except Invalid as error:
            raise self._wrong(error) from None

    def _wrong(self, error: Invalid) -> WrongResult:
        return WrongResult(f"{error.fact} (plugin {self.plugin.name!r}); {error.remedy}")


def settings_model(result: object) -> type[BaseModel] | None:
    """Return the model for what `kcm_settings` returned; raise `Invalid` if it is none."""
    if result is None:
        return None
    if not isinstance(result, type) or not issubclass(result, BaseModel):
        raise Invalid(
            f"'kcm_settings' returned {result!r}, no subclass of pydantic's BaseModel",
            "return the model class itself, or leave 'kcm_settings' out",
        )
    # Raises when annotations of the model cannot be resolved.
    result.model_rebuild()
    return with_conventions(result, {})


def with_conventions(model: type[M], derived: dict[type, type]) -> type[M]:
    """
    Return a subclass of `model` that reads camelCase keys and refuses unknown ones.

    The same holds for the models of its fields. `derived` has the subclasses made so far: a model
    may contain itself. Fields with an alias of their own keep it.
    """
    if model in derived:
        return derived[model]
    # By alias alone, so that a file has one form of each key.
    config = ConfigDict(
        alias_generator=to_camel, extra="forbid", validate_by_alias=True, validate_by_name=False
    )
    own = {"__module__": model.__module__, "__doc__": model.__doc__, "model_config": config}
    made: type[M] = cast(Any, type(model))(model.__name__, (model,), own)
    derived[model] = made
    changed: dict[str, Any] = {}
    for name, each in model.model_fields.items():
        annotation = _converted(each.annotation, derived)
        if annotation is not each.annotation:
            changed[name] = (annotation, each)
    if changed:
        made = create_model(
            model.__name__,
            __base__=made,
            __module__=model.__module__,
            __doc__=model.__doc__,
            **changed,
        )
        derived[model] = made
    return made


def _converted(annotation: Any, derived: dict[type, type]) -> Any:
    """Return the annotation with its models replaced; itself when there is none."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return with_conventions(annotation, derived)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        inner = _converted(arguments[0], derived)
        return annotation if inner is arguments[0] else Annotated[(inner, *arguments[1:])]
    converted = tuple(_converted(each, derived) for each in arguments)
    if all(new is old for new, old in zip(converted, arguments, strict=True)):
        return annotation
    return Union[converted] if origin in (Union, UnionType) else origin[converted]  # noqa: UP007 - made at run time
