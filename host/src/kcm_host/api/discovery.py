"""What the API server serves."""

from typing import Protocol

from kcm_host.api.kinds import Kind


class Discovery(Protocol):
    """The resources the API server served when the controller was started; no I/O."""

    def serves(self, kind: Kind) -> bool:
        """Whether this group, version and resource is served."""

    def first_served(self, *kinds: Kind) -> Kind | None:
        """Give the first of these that is served: for a kind that has several versions."""
