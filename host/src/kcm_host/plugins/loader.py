"""Imports, registers and validates enabled plugins; a broken one is quarantined."""

import difflib
import importlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import Specifier
from packaging.version import Version

from kcm_host.api.errors import Invalid
from kcm_host.plugins import hookimpls
from kcm_host.plugins.finder import Candidate
from kcm_host.plugins.hookimpls import CONTROLLER, Role
from kcm_host.plugins.plugin import Plugin, settings_model
from kcm_host.plugins.quarantine import (
    BrokenPlugin,
    Quarantined,
    Stage,
    guarded,
    report_to_authors,
)
from kcm_host.plugins.validation import validate_info


def check_host_version(candidate: Candidate, host_version: str) -> None:
    """
    Raise `Invalid` when the plugin's distribution requires another version of `kcm-host`.

    Prereleases of the host count like any version. A missing requirement is accepted, one whose
    lower bound is below 0.2 is not: that is another plugin API.
    """
    for text in candidate.requires:
        requirement = _parsed(text)
        # A requirement for another Python or system says nothing about this host.
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        if any(map(_admits_older_api, requirement.specifier)):
            raise hookimpls.older_api(f"it needs 'kcm-host{requirement.specifier}'")
        if not requirement.specifier.contains(host_version, prereleases=True):
            raise Invalid(
                f"it needs 'kcm-host{requirement.specifier}', and this host is {host_version}",
                f"install a version of {candidate.distribution!r} made for kcm-host "
                f"{host_version}, or a kcm-host that fits",
            )


def _admits_older_api(bound: Specifier) -> bool:
    return bound.operator in (">=", ">", "~=", "==") and Version(
        bound.version.removesuffix(".*")
    ) < Version("0.2.dev0")


def _parsed(text: str) -> Requirement:
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise Invalid(
            f"its requirement {text!r} is no valid one",
            "correct 'dependencies' in its pyproject.toml",
        ) from error


def plugin_class(candidate: Candidate) -> type:
    """Import the plugin's module and return its class; raises `BrokenPlugin`."""
    module = _module(candidate)
    with guarded(candidate, Stage.ATTRIBUTE, doing=f"looking up {candidate.value!r}"):
        return _class(candidate, module)


def _module(candidate: Candidate) -> ModuleType:
    def remedy(error: BaseException) -> str:
        return _import_remedy(candidate, error)

    doing = f"importing {candidate.module!r}"
    with guarded(candidate, Stage.IMPORT, doing=doing, remedy=remedy):
        try:
            return importlib.import_module(candidate.module)
        except ModuleNotFoundError as error:
            if not _is_within(candidate.module, error.name):
                raise
            raise Invalid(
                f"module {error.name!r} does not exist, but the entry point names it",
                f"reinstall {candidate.distribution!r}; if that does not help, "
                f"{_correct_entry_point(candidate)}",
            ) from error


def _import_remedy(candidate: Candidate, error: BaseException) -> str:
    if isinstance(error, ImportError) and (error.name or "").startswith("kcm_host.api"):
        return hookimpls.OLDER_API_REMEDY
    if isinstance(error, SystemExit):
        return f"a module must not end the program: {report_to_authors(candidate)}"
    if isinstance(error, ModuleNotFoundError):
        return f"reinstall {candidate.distribution!r} together with what it depends on"
    return report_to_authors(candidate)


def _is_within(module: str, missing: str | None) -> bool:
    return missing is not None and f"{module}.".startswith(f"{missing}.")


def _class(candidate: Candidate, module: ModuleType) -> type:
    found: object = module
    for part in filter(None, candidate.attribute.split(".")):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise Invalid(
                f"module {module.__name__!r} has no {candidate.attribute!r}{_hint(part, found)}",
                _correct_entry_point(candidate),
            ) from error
    if not isinstance(found, type):
        raise Invalid(
            f"{candidate.value!r} is a {type(found).__name__}, not a class",
            _correct_entry_point(candidate) + " so that it names the plugin's class",
        )
    return found


def _hint(part: str, owner: object) -> str:
    close = difflib.get_close_matches(part, dir(owner), n=1)
    return f" (it has {close[0]!r})" if close else ""


def _correct_entry_point(candidate: Candidate) -> str:
    entry = f'{candidate.name} = "{candidate.value}"'
    return f"correct the entry point '{entry}' in the pyproject.toml of {candidate.distribution!r}"


def validate_plugin(candidate: Candidate, role: Role, *, host_version: str) -> Plugin:
    """
    Return the validated plugin; no instance is made.

    Raises `BrokenPlugin` at the first stage that fails. The version is checked first, so that a
    plugin for another version of the host is not imported.
    """
    with guarded(candidate, Stage.VERSION, doing="checking the host's version"):
        check_host_version(candidate, host_version)
    return validate_class(candidate, plugin_class(candidate), role)


def validate_class(candidate: Candidate, cls: type, role: Role) -> Plugin:
    """Return the plugin of a class whose hooks are valid; raises `BrokenPlugin`."""
    manager = hookimpls.new_manager()
    with guarded(candidate, Stage.REGISTER, doing="registering its hooks"):
        found = hookimpls.implementations(manager, cls)
        # Before the checks of pluggy: their messages name neither the plugin's file nor a remedy.
        hookimpls.check_names(found, role)
        hookimpls.check_wrappers(found)
        hookimpls.check_arguments(manager, found)
    with guarded(candidate, Stage.VALIDATE, doing="checking its hooks"):
        hookimpls.check_role(found, role)
        hookimpls.check_marked(cls, found, role)
        hookimpls.check_complete(found, role)
        hookimpls.check_async(found)
        hookimpls.check_static(found)
    before = {one.hook: one.function for one in found if one.hook in hookimpls.STATIC}
    with guarded(candidate, Stage.VALIDATE, doing="'kcm_settings'"):
        model = settings_model(before["kcm_settings"]()) if "kcm_settings" in before else None
    with guarded(candidate, Stage.VALIDATE, doing="'kcm_info'"):
        info = validate_info(before["kcm_info"]() if "kcm_info" in before else None)
    implemented = tuple(sorted(one.hook for one in found))
    return Plugin(candidate=candidate, cls=cls, hooks=implemented, settings_model=model, info=info)


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The enabled plugins by name, in the order of names: validated, quarantined or missing."""

    plugins: Mapping[str, Plugin]
    quarantined: Mapping[str, Quarantined]
    #: Enabled, but not installed.
    missing: tuple[str, ...]


def load(
    candidates: Iterable[Candidate], enabled: Collection[str], *, host_version: str
) -> LoadResult:
    """Load the enabled controllers; the others are not imported."""

    def admit(candidate: Candidate) -> Plugin:
        return validate_plugin(candidate, CONTROLLER, host_version=host_version)

    return load_each(candidates, enabled, admit)


def load_each(
    candidates: Iterable[Candidate],
    enabled: Collection[str],
    admit: Callable[[Candidate], Plugin],
) -> LoadResult:
    """Admit each enabled candidate, unless `admit` raises `BrokenPlugin` or two share a name."""
    by_name: dict[str, list[Candidate]] = {name: [] for name in sorted(enabled)}
    for candidate in candidates:
        by_name.get(candidate.name, []).append(candidate)
    plugins: dict[str, Plugin] = {}
    quarantined: dict[str, Quarantined] = {}
    for name, found in by_name.items():
        # Neither of them runs: which one is found first is decided by the file system.
        if len(found) > 1:
            quarantined[name] = _shared_name(name, found)
        elif found:
            try:
                plugins[name] = admit(found[0])
            except BrokenPlugin as error:
                quarantined[name] = error.quarantined
    missing = tuple(name for name, found in by_name.items() if not found)
    return LoadResult(plugins, quarantined, missing)


def _shared_name(name: str, found: list[Candidate]) -> Quarantined:
    offers = " and ".join(f"{one.distribution!r} {one.version} ({one.value})" for one in found)
    owners = list(dict.fromkeys(one.distribution for one in found))
    return Quarantined(
        name=name,
        distribution=", ".join(owners),
        version=", ".join(one.version for one in found),
        stage=Stage.FIND,
        reason=f"the name is offered by {offers}",
        remedy=f"keep one: uninstall {' or '.join(map(repr, owners))}",
    )


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
        # Only here is the table made, which imports every plugin: most configurations use names.
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
