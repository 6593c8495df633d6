"""What loading the settings gives: the values, where each came from, and what was odd."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kcm_host.config.models import HostSettings
from kcm_host.config.tree import Node, Origin
from kcm_host.config.variables import Variable


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """
    Valid settings of the host; those of plugins still wait for `validate_plugin_settings`.

    `origins` has every leaf path in dotted form. `tree` is the file with variables and flags laid
    over it, `flags` the last layer alone, `pending` the variables below each `settings`.
    """

    settings: HostSettings
    origins: Mapping[str, Origin]
    warnings: tuple[str, ...]
    tree: Node = field(repr=False)
    flags: Node = field(repr=False)
    pending: Mapping[str, tuple[Variable, ...]] = field(repr=False)
