"""What is read of a ResourceClaimTemplate: what goes into the claims made from it."""

import msgspec
from msgspec.structs import force_setattr

from kcm_host_resourceclaim.devices import ClaimSpec

_claim_spec = msgspec.json.Decoder(ClaimSpec).decode


class ClaimLabels(msgspec.Struct, frozen=True, gc=False):
    """What the metadata of new claims takes over."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class TemplateSpec(msgspec.Struct, frozen=True):
    """
    What new claims get.

    The claim's spec stays as the server wrote it, for it is only passed on (RC-87): parameters
    of drivers may be nested deeper than an encoder goes, and their numbers keep their text.
    """

    metadata: ClaimLabels = ClaimLabels()
    spec: msgspec.Raw = msgspec.Raw(b"{}")

    def __post_init__(self) -> None:
        # A copy: what was decoded would hold the whole page of the list in memory.
        force_setattr(self, "spec", self.spec.copy())


class Template(msgspec.Struct, frozen=True):
    """A ResourceClaimTemplate; its own metadata never matters (RC-44)."""

    spec: TemplateSpec = TemplateSpec()

    def claim_spec(self) -> ClaimSpec:
        """Give what is read of the spec of new claims; raises `msgspec.ValidationError`."""
        return _claim_spec(self.spec.spec)
