"""From valid settings to everything a host runs with."""

from collections.abc import Mapping

import msgspec

from kcm_host import __version__
from kcm_host.config.loaded import Loaded
from kcm_host.config.plugin import plugin_warnings, validate_plugin_settings
from kcm_host.config.problems import ConfigError, Problem, did_you_mean
from kcm_host.loading.extensions import Extensions, load_extensions
from kcm_host.loading.finder import Candidate, find
from kcm_host.loading.loader import Loading, load
from kcm_host.loading.plugin import Plugin
from kcm_host.loading.quarantine import Quarantined
from kcm_host.loading.roles import CONTROLLER, EXTENSION
from kcm_host.supervise.start import Setup

DEFAULT_WORKERS = 5


class Assembly(msgspec.Struct, frozen=True):
    """The controllers of a configuration: those that can run, and those that are broken."""

    setups: tuple[Setup, ...]
    quarantined: Mapping[str, Quarantined]
    extensions: Extensions
    warnings: tuple[str, ...]


def assemble(loaded: Loaded) -> Assembly:
    """
    Load what the configuration names and check each plugin's settings.

    A broken plugin is quarantined and the others go on. Raises `ConfigError` with every name
    that is not installed and every setting a plugin refuses.
    """
    found = find(CONTROLLER.group)
    loading = load(found, loaded.settings.controllers, host_version=__version__)
    problems = _missing(loading, found, loaded)
    extensions = _extensions(loaded, problems)
    setups = []
    warnings: list[str] = []
    for name, plugin in loading.plugins.items():
        try:
            setups.append(_setup(loaded, name, plugin))
            warnings += plugin_warnings(loaded, name, plugin.settings_model)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    quarantined = {**loading.quarantined, **extensions.loading.quarantined}
    return Assembly(tuple(setups), quarantined, extensions, tuple(warnings))


def _setup(loaded: Loaded, name: str, plugin: Plugin) -> Setup:
    section = loaded.settings.controllers[name]
    return Setup(
        plugin=plugin,
        settings=validate_plugin_settings(loaded, name, plugin.settings_model),
        workers=section.workers or DEFAULT_WORKERS,
        qps=section.qps,
        burst=section.burst_size,
    )


def _extensions(loaded: Loaded, problems: list[Problem]) -> Extensions:
    enabled = loaded.settings.extensions
    found = find(EXTENSION.group) if enabled else ()
    extensions = load_extensions(found, enabled, host_version=__version__)
    problems += _missing(extensions.loading, found, loaded, section="extensions")
    return extensions


def _missing(
    loading: Loading, found: tuple[Candidate, ...], loaded: Loaded, section: str = "controllers"
) -> list[Problem]:
    installed = [candidate.name for candidate in found]
    problems = []
    for name in loading.missing:
        node = loaded.tree.at((section, name)) or loaded.tree.at((section,)) or loaded.tree
        advice = did_you_mean(name, installed)
        remedy = f"install it (pip install kcm-host-{name}) or remove it"
        problems.append(
            Problem(
                f"no installed plugin is called '{name}'",
                path=section,
                origin=node.key or node.origin,
                remedy=f"{remedy}; {advice}" if advice else remedy,
            )
        )
    return problems
