"""The hook implementations of a plugin, and the checks that the host can call them."""

import difflib
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pluggy

from kcm_host.api import hooks as specs
from kcm_host.api.errors import Invalid


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
    required=("kcm_watches", "kcm_sync"),
    optional=(
        "kcm_info",
        "kcm_settings",
        "kcm_writes",
        "kcm_dynamic_watches",
        "kcm_synced",
        "kcm_timers",
        "kcm_status",
        "kcm_metrics",
    ),
)
EXTENSION = Role("extension", "kcm_host.extensions", required=("kcm_observe",))
ROLES = (CONTROLLER, EXTENSION)
#: The hooks that are called before there is an instance.
STATIC = ("kcm_info", "kcm_settings")

#: Hooks of version 0.1 of the plugin API that version 0.2 has under other names.
REMOVED = ("kcm_more_watches", "kcm_workers")
OLDER_API_REMEDY = (
    "install a version of it for kcm-host 0.2; its authors find the changes under "
    "'From 0.1 to 0.2' in the changelog of kcm-host"
)

_PREFIX = "kcm_"
_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def older_api(fact: str) -> Invalid:
    """Return the error for a plugin that was written for version 0.1 of the plugin API."""
    return Invalid(f"it is written for kcm-host 0.1: {fact}", OLDER_API_REMEDY)


def new_manager() -> pluggy.PluginManager:
    """Return a manager with the host's hook specifications and no plugin."""
    manager = pluggy.PluginManager(specs.PROJECT)
    manager.add_hookspecs(specs)
    return manager


@dataclass(frozen=True, slots=True)
class Implementation:
    """One method of a plugin class that is marked with `@hookimpl`."""

    hook: str
    method: str
    function: Callable[..., object]
    #: A static method or a class method: it can be called without an instance.
    static: bool
    wrapper: bool
    optional: bool

    @property
    def arguments(self) -> tuple[inspect.Parameter, ...]:
        """The arguments that a call passes, without `self`."""
        found = tuple(inspect.signature(self.function).parameters.values())
        return found if self.static else found[1:]


def implementations(manager: pluggy.PluginManager, cls: type) -> tuple[Implementation, ...]:
    """Return the marked methods of a plugin class, sorted by name."""
    return tuple(_marked(manager, cls))


def _marked(manager: pluggy.PluginManager, cls: type) -> Iterator[Implementation]:
    for method in dir(cls):
        options = manager.parse_hookimpl_opts(cls, method)
        if options is not None:
            # Static: `getattr` gives the bare function of a static method, so it would look like
            # one that needs an instance.
            attribute = inspect.getattr_static(cls, method)
            yield Implementation(
                hook=options.get("specname") or method,
                method=method,
                function=getattr(cls, method),
                static=isinstance(attribute, (staticmethod, classmethod)),
                wrapper=bool(options.get("wrapper") or options.get("hookwrapper")),
                optional=bool(options.get("optionalhook")),
            )


def check_names(found: Sequence[Implementation], role: Role) -> None:
    """Raise `Invalid` for a marked method that is no hook, except an `optionalhook`."""
    for one in found:
        if one.hook in REMOVED:
            raise older_api(f"it implements {one.hook!r}")
        if not one.optional and not any(one.hook in each.hooks for each in ROLES):
            raise Invalid(f"it implements {one.hook!r}, which is no hook", _nearest(one.hook, role))


def check_wrappers(found: Sequence[Implementation]) -> None:
    """
    Raise `Invalid` for a hook wrapper.

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
            raise Invalid(
                f"{one.method!r} is a wrapper of {one.hook!r}, but {why}",
                "mark it with plain @hookimpl and put what the wrapper did into the hook itself",
            )


def check_arguments(manager: pluggy.PluginManager, found: Sequence[Implementation]) -> None:
    """
    Raise `Invalid` for an argument that the hook does not have or that cannot be passed.

    Hooks are called by position, with the arguments an implementation names. What pluggy does
    with defaults differs by version, and it never passes `*`, `**` and keyword-only arguments.
    """
    for one in found:
        caller = getattr(manager.hook, one.hook, None)
        if caller is None or caller.spec is None:
            continue
        allowed = caller.spec.argnames
        choice = f"take any of: {', '.join(allowed) or 'none'}"
        for argument in one.arguments:
            if argument.kind not in _BY_POSITION or argument.default is not argument.empty:
                raise Invalid(
                    f"{one.hook!r} declares '{argument}', which is no plain argument",
                    f"{choice}; without defaults, '*' or '**'",
                )
            # Asked before the general check: what 0.1 demanded gets the advice for its authors.
            if argument.name == "settings":
                raise older_api(f"{one.hook!r} takes 'settings'")
            if argument.name not in allowed:
                raise Invalid(
                    f"{one.hook!r} has no argument {argument.name!r}", f"{choice}, by these names"
                )


def check_role(found: Sequence[Implementation], role: Role) -> None:
    """Raise `Invalid` for a hook of another role."""
    for one in found:
        for other in ROLES:
            if other is not role and one.hook in other.hooks:
                raise Invalid(
                    f"{one.hook!r} is a hook of {other.name}s, but the entry point is in "
                    f"{role.group!r}",
                    f"move it to a class of its own with an entry point in {other.group!r}",
                )


def check_static(found: Sequence[Implementation]) -> None:
    """Raise `Invalid` for a hook without an instance that is no static method."""
    for one in found:
        if one.hook in STATIC and not one.static:
            raise Invalid(
                f"{one.hook!r} is called before there is an instance, but it is no static method",
                "mark it with @staticmethod and leave out 'self'",
            )


def check_marked(cls: type, found: Sequence[Implementation], role: Role) -> None:
    """Raise `Invalid` for a method named like a hook without the marker: it is never called."""
    marked = {one.method for one in found}
    for method in dir(cls):
        if not method.startswith(_PREFIX) or method in marked:
            continue
        attribute = inspect.getattr_static(cls, method)
        # A constant with such a name is no mistake about a hook.
        if not callable(attribute) and not isinstance(attribute, classmethod):
            continue
        if any(method in each.hooks for each in ROLES):
            raise Invalid(
                f"{method!r} lacks @hookimpl, so it would never be called",
                f"put @hookimpl (from kcm_host.api) on {method!r}",
            )
        raise Invalid(
            f"{method!r} is no hook, and names that begin with '{_PREFIX}' are reserved for hooks",
            _nearest(method, role),
        )


def check_complete(found: Sequence[Implementation], role: Role) -> None:
    """Raise `Invalid` for a required hook that is missing, or a hook implemented twice."""
    hooks = [one.hook for one in found]
    for hook in dict.fromkeys(hooks):
        if hooks.count(hook) > 1:
            raise Invalid(f"{hook!r} is implemented twice", "keep one of the two methods")
    missing = [repr(hook) for hook in role.required if hook not in hooks]
    if missing:
        raise Invalid(
            f"it lacks {' and '.join(missing)}",
            f"implement {' and '.join(missing)} in the class and mark with @hookimpl",
        )


def check_async(found: Sequence[Implementation]) -> None:
    """Raise `Invalid` for a `kcm_sync` that is not async, and for another hook that is."""
    for one in found:
        if one.hook == "kcm_sync" and not inspect.iscoroutinefunction(one.function):
            raise Invalid(
                "'kcm_sync' is no async function", "write it as 'async def', without yield"
            )
        if one.hook != "kcm_sync" and inspect.iscoroutinefunction(one.function):
            raise Invalid(
                f"{one.hook!r} is async, but only 'kcm_sync' is awaited", "write it as 'def'"
            )


def _nearest(name: str, role: Role) -> str:
    close = difflib.get_close_matches(name, role.hooks, n=1)
    if close:
        return f"did you mean {close[0]!r}? Otherwise rename it"
    return f"rename it; the hooks of a plugin of this kind are: {', '.join(role.hooks)}"
