"""The plugins of this environment, each loaded as if it were enabled."""

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import BaseModel

from kcm_host import __version__
from kcm_host.plugins.extensions import load_extensions
from kcm_host.plugins.finder import Candidate, find
from kcm_host.plugins.hookimpls import CONTROLLER, EXTENSION, Role
from kcm_host.plugins.loader import InstalledNames, LoadResult, load
from kcm_host.plugins.quarantine import Quarantined


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """One installed plugin, and whether it can run."""

    name: str
    #: `controller` or `extension`.
    role: str
    distribution: str
    version: str
    summary: str
    #: The object reference of its entry point, `module:attribute`.
    value: str
    #: Other names that a configuration may use.
    aliases: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    settings_model: type[BaseModel] | None = None
    #: Why it is quarantined; None when it is not.
    problem: Quarantined | None = None

    @property
    def state(self) -> str:
        """`ok` or `quarantined`."""
        return "quarantined" if self.problem else "ok"


def installed() -> list[PluginInfo]:
    """Return every installed plugin; all of them are imported."""
    controllers, extensions = find(CONTROLLER.group), find(EXTENSION.group)
    loading = load(controllers, {one.name for one in controllers}, host_version=__version__)
    names = {one.name for one in extensions}
    observing = load_extensions(extensions, names, host_version=__version__).loading
    return [*listed(controllers, loading, CONTROLLER), *listed(extensions, observing, EXTENSION)]


def controller_names() -> InstalledNames:
    """Return the names and aliases of the installed controllers."""
    return InstalledNames(find(CONTROLLER.group), host_version=__version__)


def installed_names() -> list[str]:
    """Return the names of all installed plugins; nothing is imported."""
    groups = (CONTROLLER.group, EXTENSION.group)
    return sorted({one.name for group in groups for one in find(group)})


def listed(
    candidates: Iterable[Candidate], loading: LoadResult, role: Role
) -> tuple[PluginInfo, ...]:
    """
    Return a record of each candidate, in their order; those that share a name are both listed.

    `loading` is the result of loading all of them.
    """
    return tuple(_info(one, loading, role) for one in candidates)


def _info(candidate: Candidate, loading: LoadResult, role: Role) -> PluginInfo:
    plugin = loading.plugins.get(candidate.name)
    return PluginInfo(
        name=candidate.name,
        role=role.name,
        distribution=candidate.distribution,
        version=candidate.version,
        summary=candidate.summary,
        value=candidate.value,
        aliases=plugin.info.aliases if plugin else (),
        hooks=plugin.hooks if plugin else (),
        settings_model=plugin.settings_model if plugin else None,
        problem=loading.quarantined.get(candidate.name),
    )
