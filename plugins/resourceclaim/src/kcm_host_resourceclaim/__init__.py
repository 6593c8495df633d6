"""The resourceclaim controller as a kcm-host plugin."""

from kcm_host_resourceclaim.plugin import ResourceClaims

__all__ = ["ResourceClaims"]
