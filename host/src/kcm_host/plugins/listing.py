"""What listing commands show of installed plugins."""

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import BaseModel

from kcm_host.plugins.finder import Candidate
from kcm_host.plugins.groups import Role
from kcm_host.plugins.loader import Loading
from kcm_host.plugins.quarantine import Quarantined


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """One installed entry point, and whether it would run."""

    name: str
    #: `controller` or `extension`.
    role: str
    distribution: str
    version: str
    summary: str
    #: What its entry point names, `module:attribute`.
    value: str
    hooks: tuple[str, ...] = ()
    settings_model: type[BaseModel] | None = None
    #: Why it would not run; None when it would.
    problem: Quarantined | None = None

    @property
    def state(self) -> str:
        """`ok` or `quarantined`."""
        return "quarantined" if self.problem else "ok"


def listed(candidates: Iterable[Candidate], loading: Loading, role: Role) -> tuple[PluginInfo, ...]:
    """
    Give what is known of each candidate, in their order.

    `loading` is what became of them when all of their names were enabled. Of two distributions
    that share a name both are listed.
    """
    return tuple(_info(one, loading, role) for one in candidates)


def _info(candidate: Candidate, loading: Loading, role: Role) -> PluginInfo:
    plugin = loading.plugins.get(candidate.name)
    return PluginInfo(
        name=candidate.name,
        role=role.name,
        distribution=candidate.distribution,
        version=candidate.version,
        summary=candidate.summary,
        value=candidate.value,
        hooks=plugin.hooks if plugin else (),
        settings_model=plugin.settings_model if plugin else None,
        problem=loading.quarantined.get(candidate.name),
    )
