"""From valid settings to everything a host runs with."""

from collections.abc import Mapping
from typing import Any

import msgspec

from kcm_host import __version__
from kcm_host.config.loaded import Loaded
from kcm_host.config.plugin import plugin_warnings, validate_plugin_settings
from kcm_host.config.problems import ConfigError, Problem
from kcm_host.loading.extensions import Extensions, load_extensions
from kcm_host.loading.finder import Candidate, find
from kcm_host.loading.loader import load
from kcm_host.loading.plugin import Plugin
from kcm_host.loading.quarantine import BrokenPlugin, Quarantined, Stage, guarded
from kcm_host.loading.roles import CONTROLLER, EXTENSION
from kcm_host.supervise.missing import missing_plugins
from kcm_host.supervise.start import Setup

#: Workers of a controller where neither the configuration nor its plugin says a number.
WORKERS = 5


class Assembly(msgspec.Struct, frozen=True):
    """The controllers of a configuration: those that can run, and those that are broken."""

    setups: tuple[Setup, ...]
    #: Controllers and extensions, by name.
    quarantined: Mapping[str, Quarantined]
    extensions: Extensions
    warnings: tuple[str, ...]


class Verdict(msgspec.Struct, frozen=True):
    """Whether one enabled plugin could run; `broken` says why not."""

    role: str
    plugin: Plugin | Quarantined
    broken: Quarantined | None = None
    #: Of a controller that could run.
    workers: int | None = None


def assemble(loaded: Loaded) -> Assembly:
    """
    Load what the configuration names and check each plugin's settings.

    A broken plugin is quarantined and the others go on. Raises `ConfigError` with every name
    that is not installed and every setting a plugin refuses.
    """
    found = find(CONTROLLER.group)
    loading = load(found, loaded.settings.controllers, host_version=__version__)
    problems = missing_plugins(loading.missing, found, loaded, section="controllers")
    extensions = _extensions(loaded, problems)
    quarantined = {**loading.quarantined, **extensions.loading.quarantined}
    setups = []
    warnings: list[str] = []
    for name, plugin in loading.plugins.items():
        try:
            setups.append(_setup(loaded, name, plugin))
            warnings += plugin_warnings(loaded, name, plugin.settings_model)
        except ConfigError as error:
            problems += error.problems
        except BrokenPlugin as broken:
            quarantined[name] = broken.quarantined
    if problems:
        raise ConfigError(sorted(problems, key=_place))
    return Assembly(tuple(setups), quarantined, extensions, tuple(warnings))


def verdicts(assembly: Assembly) -> tuple[Verdict, ...]:
    """Give what became of each enabled plugin: controllers first, each sort by name."""
    extensions = assembly.extensions.loading
    found = [
        *(Verdict(CONTROLLER.name, one.plugin, workers=one.workers) for one in assembly.setups),
        *(Verdict(EXTENSION.name, plugin) for plugin in extensions.plugins.values()),
    ]
    for name, broken in assembly.quarantined.items():
        role = EXTENSION if name in extensions.quarantined else CONTROLLER
        found.append(Verdict(role.name, broken, broken))
    return tuple(sorted(found, key=lambda verdict: (verdict.role, verdict.plugin.name)))


def _setup(loaded: Loaded, name: str, plugin: Plugin) -> Setup:
    section = loaded.settings.controllers[name]
    return Setup(
        plugin=plugin,
        settings=_settings(loaded, name, plugin),
        workers=section.workers or plugin.workers or WORKERS,
        qps=section.qps,
        burst=section.burst_size,
        resync_period=section.resync_period,
    )


def _settings(loaded: Loaded, name: str, plugin: Plugin) -> Any:
    # A validator of the plugin's that raises what pydantic does not expect is the plugin's fault.
    with guarded(plugin.candidate, Stage.VALIDATE, doing="validating its settings"):
        try:
            return validate_plugin_settings(loaded, name, plugin.settings_model)
        except ConfigError as error:
            refused = error
    raise refused


def _extensions(loaded: Loaded, problems: list[Problem]) -> Extensions:
    enabled = loaded.settings.extensions
    found: tuple[Candidate, ...] = find(EXTENSION.group) if enabled else ()
    extensions = load_extensions(found, enabled, host_version=__version__)
    problems += missing_plugins(extensions.loading.missing, found, loaded, section="extensions")
    return extensions


def _place(problem: Problem) -> tuple[bool, int, int]:
    return problem.file is None, problem.line or 0, problem.column or 0
