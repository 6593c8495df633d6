"""What is read of a ResourceClaimTemplate: what goes into the claims made from it."""

from typing import Any

import msgspec

from kcm_host_resourceclaim.devices import ClaimSpec


class ClaimLabels(msgspec.Struct, frozen=True, gc=False):
    """What the metadata of new claims takes over."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class TemplateSpec(msgspec.Struct, frozen=True):
    """What new claims get. The claim's spec is kept as it is, for it is only passed on (RC-87)."""

    metadata: ClaimLabels = ClaimLabels()
    spec: dict[str, Any] = {}


class Template(msgspec.Struct, frozen=True):
    """A ResourceClaimTemplate; its own metadata never matters (RC-44)."""

    spec: TemplateSpec = TemplateSpec()

    def claim_spec(self) -> ClaimSpec:
        """Give what is read of the spec of new claims; raises `msgspec.ValidationError`."""
        return msgspec.convert(self.spec.spec, ClaimSpec)
