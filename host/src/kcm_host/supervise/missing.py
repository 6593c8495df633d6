"""What to say about names in the config file that no installed plugin has."""

from collections.abc import Iterable

from kcm_host.config.loaded import Loaded
from kcm_host.config.names import SHORT_NAMES, is_other_upstream_controller
from kcm_host.config.problems import Problem, suggest
from kcm_host.config.tree import Origin
from kcm_host.loading.finder import Candidate


def missing_plugins(
    missing: Iterable[str], found: Iterable[Candidate], loaded: Loaded, *, section: str
) -> list[Problem]:
    """Give a problem for each of the names in `section` that is not among the `found` plugins."""
    installed = sorted({candidate.name for candidate in found})
    return [
        Problem(
            f"no installed plugin is called '{name}'",
            path=section,
            origin=_place(loaded, section, name),
            remedy=_remedy(name, installed),
        )
        for name in missing
    ]


def _remedy(name: str, installed: list[str]) -> str:
    if name in SHORT_NAMES:
        return f"install it: pip install kcm-host-{name}"
    close = suggest(name, [*installed, *SHORT_NAMES])
    if close in installed:
        return f"did you mean '{close}'?"
    if close is not None:
        return f"did you mean '{close}'? Then: pip install kcm-host-{close}"
    known = f"; installed are: {', '.join(installed)}" if installed else ""
    if is_other_upstream_controller(name):
        return f"no plugin for it is known: leave it to kube-controller-manager{known}"
    return f"install the distribution that has it, or remove it{known}"


def _place(loaded: Loaded, section: str, name: str) -> Origin:
    whole = loaded.tree.at((section,)) or loaded.tree
    items = whole.value if isinstance(whole.value, list) else []
    node = next((item for item in items if item.value == name), whole.child(name) or whole)
    return node.key or node.origin
