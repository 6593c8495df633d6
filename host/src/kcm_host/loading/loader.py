"""Loading what is enabled: the good ones, the quarantined ones, the missing ones."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from kcm_host.loading.finder import Candidate
from kcm_host.loading.plugin import Plugin
from kcm_host.loading.quarantine import BrokenPlugin, Quarantined, Stage
from kcm_host.loading.roles import CONTROLLER
from kcm_host.loading.vetting import vetted


@dataclass(frozen=True, slots=True)
class Loading:
    """What became of the enabled plugins; all in the order of their names."""

    plugins: Mapping[str, Plugin]
    quarantined: Mapping[str, Quarantined]
    #: Enabled, but not installed.
    missing: tuple[str, ...]


def load(
    candidates: Iterable[Candidate], enabled: Collection[str], *, host_version: str
) -> Loading:
    """Load the controllers that are enabled; nothing of the others is imported."""

    def admit(candidate: Candidate) -> Plugin:
        return vetted(candidate, CONTROLLER, host_version=host_version)[0]

    return load_each(candidates, enabled, admit)


def load_each(
    candidates: Iterable[Candidate],
    enabled: Collection[str],
    admit: Callable[[Candidate], Plugin],
) -> Loading:
    """Let in each enabled candidate, unless `admit` raises `BrokenPlugin` or its name is shared."""
    offers: dict[str, list[Candidate]] = {name: [] for name in sorted(enabled)}
    for candidate in candidates:
        offers.get(candidate.name, []).append(candidate)
    plugins: dict[str, Plugin] = {}
    quarantined: dict[str, Quarantined] = {}
    for name, offer in offers.items():
        if len(offer) > 1:
            quarantined[name] = _shared_name(name, offer)
        elif offer:
            try:
                plugins[name] = admit(offer[0])
            except BrokenPlugin as error:
                quarantined[name] = error.quarantined
    missing = tuple(name for name, offer in offers.items() if not offer)
    return Loading(plugins, quarantined, missing)


def _shared_name(name: str, offer: list[Candidate]) -> Quarantined:
    offers = " and ".join(f"{one.distribution!r} {one.version} ({one.value})" for one in offer)
    owners = list(dict.fromkeys(one.distribution for one in offer))
    return Quarantined(
        name=name,
        distribution=", ".join(owners),
        version=", ".join(one.version for one in offer),
        stage=Stage.FIND,
        reason=f"the name is offered by {offers}",
        remedy=f"keep one: uninstall {' or '.join(map(repr, owners))}",
    )
