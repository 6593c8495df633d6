"""The hook implementations of a plugin, and the checks that the host can call them."""

import difflib
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pluggy

from kcm_host.api import hooks as specs
from kcm_host.plugins.quarantine import PluginError


@dataclass(frozen=True, slots=True)
class Role:
    """What a plugin can be: its entry-point group, its required and its optional hooks."""

    name: str
    group: str
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()

    @property
    def hooks(self) -> tuple[str, ...]:
        """Every hook of this role."""
        return self.required + self.optional


CONTROLLER = Role(
    "controller",
    "kcm_host.controllers",
    required=("kcm_watches", "kcm_sync", "kcm_status"),
    optional=(
        "kcm_writes",
        "kcm_settings",
        "kcm_dynamic_watches",
        "kcm_timers",
        "kcm_workers",
        "kcm_metrics",
    ),
)
EXTENSION = Role("extension", "kcm_host.extensions", required=("kcm_observe",))
ROLES = (CONTROLLER, EXTENSION)

_PREFIX = "kcm_"
_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def new_manager() -> pluggy.PluginManager:
    """Return a manager with the host's hook specifications and no plugin."""
    manager = pluggy.PluginManager(specs.PROJECT)
    manager.add_hookspecs(specs)
    return manager


@dataclass(frozen=True, slots=True)
class Implementation:
    """One method of a plugin that is marked with `@hookimpl`."""

    hook: str
    method: str
    function: Callable[..., object]
    wrapper: bool
    optional: bool


def implementations(manager: pluggy.PluginManager, instance: object) -> tuple[Implementation, ...]:
    """Return the marked methods of a plugin, sorted by name."""
    return tuple(_marked(manager, instance))


def _marked(manager: pluggy.PluginManager, instance: object) -> Iterator[Implementation]:
    for method in dir(instance):
        options = manager.parse_hookimpl_opts(instance, method)
        if options is not None:
            yield Implementation(
                hook=options.get("specname") or method,
                method=method,
                function=getattr(instance, method),
                wrapper=bool(options.get("wrapper") or options.get("hookwrapper")),
                optional=bool(options.get("optionalhook")),
            )


def check_names(found: Sequence[Implementation], role: Role) -> None:
    """Raise `PluginError` for a marked method that is no hook, except an `optionalhook`."""
    for one in found:
        if not one.optional and not any(one.hook in each.hooks for each in ROLES):
            raise PluginError(
                f"it implements {one.hook!r}, which is no hook", _nearest(one.hook, role)
            )


def check_wrappers(found: Sequence[Implementation]) -> None:
    """
    Raise `PluginError` for a hook wrapper.

    A wrapper around `kcm_sync` ends before the coroutine begins, and the other hooks have one
    implementation per call, so there is nothing to wrap.
    """
    for one in found:
        if one.wrapper:
            why = (
                "a wrapper ends before the coroutine begins"
                if one.hook == "kcm_sync"
                else "each hook is called on one plugin at a time"
            )
            raise PluginError(
                f"{one.method!r} is a wrapper of {one.hook!r}, but {why}",
                "mark it with plain @hookimpl and put what the wrapper did into the hook itself",
            )


def check_arguments(manager: pluggy.PluginManager, found: Sequence[Implementation]) -> None:
    """
    Raise `PluginError` for an argument that the hook does not have or that cannot be passed.

    Hooks are called by position, with the arguments an implementation names. What pluggy does
    with defaults differs by version, and it never passes `*`, `**` and keyword-only arguments.
    """
    for one in found:
        caller = getattr(manager.hook, one.hook, None)
        if caller is None or caller.spec is None:
            continue
        allowed = caller.spec.argnames
        choice = f"take any of: {', '.join(allowed) or 'none'}"
        for argument in inspect.signature(one.function).parameters.values():
            if argument.kind not in _BY_POSITION or argument.default is not argument.empty:
                raise PluginError(
                    f"{one.hook!r} declares '{argument}', which is no plain argument",
                    f"{choice}; without defaults, '*' or '**'",
                )
            if argument.name not in allowed:
                raise PluginError(
                    f"{one.hook!r} has no argument {argument.name!r}", f"{choice}, by these names"
                )


def check_role(found: Sequence[Implementation], role: Role) -> None:
    """Raise `PluginError` for a hook of another role."""
    for one in found:
        for other in ROLES:
            if other is not role and one.hook in other.hooks:
                raise PluginError(
                    f"{one.hook!r} is a hook of {other.name}s, but the entry point is in "
                    f"{role.group!r}",
                    f"move it to a class of its own with an entry point in {other.group!r}",
                )


def check_marked(instance: object, found: Sequence[Implementation], role: Role) -> None:
    """Raise `PluginError` for a method named like a hook without the marker: it is never called."""
    marked = {one.method for one in found}
    for method in dir(type(instance)):
        if not method.startswith(_PREFIX) or method in marked:
            continue
        attribute = inspect.getattr_static(type(instance), method)
        if not callable(attribute) and not isinstance(attribute, classmethod):
            continue
        if any(method in each.hooks for each in ROLES):
            raise PluginError(
                f"{method!r} lacks @hookimpl, so it would never be called",
                f"put @hookimpl (from kcm_host.api) on {method!r}",
            )
        raise PluginError(
            f"{method!r} is no hook, and names that begin with '{_PREFIX}' are reserved for hooks",
            _nearest(method, role),
        )


def check_complete(found: Sequence[Implementation], role: Role) -> None:
    """Raise `PluginError` for a required hook that is missing, or a hook implemented twice."""
    hooks = [one.hook for one in found]
    for hook in dict.fromkeys(hooks):
        if hooks.count(hook) > 1:
            raise PluginError(f"{hook!r} is implemented twice", "keep one of the two methods")
    missing = [repr(hook) for hook in role.required if hook not in hooks]
    if missing:
        raise PluginError(
            f"it lacks {' and '.join(missing)}",
            f"implement {' and '.join(missing)} in the class and mark with @hookimpl",
        )


def check_async(found: Sequence[Implementation]) -> None:
    """Raise `PluginError` for a `kcm_sync` that is not async, and for another hook that is."""
    for one in found:
        if one.hook == "kcm_sync" and not inspect.iscoroutinefunction(one.function):
            raise PluginError(
                "'kcm_sync' is no async function", "write it as 'async def', without yield"
            )
        if one.hook != "kcm_sync" and inspect.iscoroutinefunction(one.function):
            raise PluginError(
                f"{one.hook!r} is async, but only 'kcm_sync' is awaited", "write it as 'def'"
            )


def _nearest(name: str, role: Role) -> str:
    close = difflib.get_close_matches(name, role.hooks, n=1)
    if close:
        return f"did you mean {close[0]!r}? Otherwise rename it"
    return f"rename it; the hooks of a plugin of this kind are: {', '.join(role.hooks)}"
