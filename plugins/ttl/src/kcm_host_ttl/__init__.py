"""The ttl controller as a kcm-host plugin."""

from kcm_host_ttl.plugin import Ttl

__all__ = ["Ttl"]
