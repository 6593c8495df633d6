"""The resourcequota controller of kcm-host."""

from kcm_host_resourcequota.plugin import ResourceQuota

__all__ = ["ResourceQuota"]
