"""The servicecidrs controller as a kcm-host plugin."""

from kcm_host_servicecidrs.plugin import ServiceCidrs

__all__ = ["ServiceCidrs"]
