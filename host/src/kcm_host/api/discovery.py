"""The resources that the API server serves."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from kcm_host.api.kinds import Kind


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """
    One served resource in one version.

    `preferred` is true if the API server prefers this version of those of the group that have
    this resource.
    """

    kind: Kind
    verbs: frozenset[str]
    preferred: bool


class Discovery(Protocol):
    """
    The resources that the API server serves; no I/O.

    The host polls them every 30 s. A controller that has used this in `kcm_watches` is restarted
    when it would return other watches now, and `kcm_dynamic_watches` is called again after every
    change. For a group whose server does not respond, the last known resources are kept.
    """

    def serves(self, kind: Kind) -> bool:
        """Return whether this group, version and resource is served."""

    def first_served(self, *kinds: Kind) -> Kind | None:
        """Return the first of these that is served; for a kind with several versions."""

    def resources(self) -> Sequence[Resource]:
        """Return every served resource in every version, without subresources."""
