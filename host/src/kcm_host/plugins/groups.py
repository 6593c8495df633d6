"""What a plugin can be, and which hooks go with that."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Role:
    """One entry-point group, with the hooks a class named there must and may implement."""

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
        "kcm_more_watches",
        "kcm_timers",
        "kcm_workers",
        "kcm_metrics",
    ),
)
EXTENSION = Role("extension", "kcm_host.extensions", required=("kcm_observe",))
ROLES = (CONTROLLER, EXTENSION)
