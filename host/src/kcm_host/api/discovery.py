"""What the API server serves."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from kcm_host.api.kinds import Kind


class Resource(msgspec.Struct, frozen=True):
    """
    One served resource in one version.

    `preferred` says that of the versions of its group that have this resource the server prefers
    this one.
    """

    kind: Kind
    verbs: frozenset[str]
    preferred: bool


class Discovery(Protocol):
    """
    The resources the API server serves; no I/O.

    The host asks again every 30 s. A controller that used this in `kcm_watches` is started anew
    when its watches would now be others, and `kcm_more_watches` is asked again when anything
    changed. Of a group whose server does not answer, what was known before is kept.
    """

    def serves(self, kind: Kind) -> bool:
        """Whether this group, version and resource is served."""

    def first_served(self, *kinds: Kind) -> Kind | None:
        """Give the first of these that is served: for a kind that has several versions."""

    def resources(self) -> Sequence[Resource]:
        """Give every served resource in every version, subresources left out."""
