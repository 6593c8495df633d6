"""What is read of ServiceCIDRs and IPAddresses, and nothing more."""

import sys
from datetime import datetime

import msgspec
from msgspec.structs import force_setattr

from kcm_host.api import Kind

SERVICE_CIDR = Kind("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs", namespaced=False)
IP_ADDRESS = Kind("networking.k8s.io", "v1", "IPAddress", "ipaddresses", namespaced=False)

FINALIZER = "networking.k8s.io/service-cidr-finalizer"
ALLOCATOR = "ipallocator.k8s.io"


class Condition(msgspec.Struct, frozen=True, gc=False):
    """One condition; its times are not compared, so they are not read (SC-80)."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Who holds a ServiceCIDR back, and since when it is being deleted."""

    finalizers: tuple[str, ...] | None = None
    deletion_timestamp: datetime | None = None


class Spec(msgspec.Struct, frozen=True, gc=False):
    """The ranges of a ServiceCIDR, as written."""

    cidrs: tuple[str, ...] | None = None


class Status(msgspec.Struct, frozen=True, gc=False):
    """The conditions of a ServiceCIDR."""

    conditions: tuple[Condition, ...] | None = None


class ServiceCIDR(msgspec.Struct, frozen=True, gc=False):
    """A ServiceCIDR."""

    metadata: Metadata = Metadata()
    spec: Spec = Spec()
    status: Status = Status()

    @property
    def deleted_at(self) -> datetime | None:
        """When its deletion was asked for, in whole seconds; None while it is alive."""
        return self.metadata.deletion_timestamp

    @property
    def has_finalizer(self) -> bool:
        """Whether this controller's finalizer is there."""
        return FINALIZER in (self.metadata.finalizers or ())

    @property
    def ready(self) -> Condition | None:
        """Its condition of type `Ready`."""
        conditions = self.status.conditions or ()
        return next((one for one in conditions if one.type == "Ready"), None)


class Labels(msgspec.Struct, frozen=True, gc=False):
    """The two labels that the API server's allocator sets (SC-8); few texts, so shared ones."""

    managed_by: str | None = msgspec.field(name="ipaddress.kubernetes.io/managed-by", default=None)
    family: str | None = msgspec.field(name="ipaddress.kubernetes.io/ip-family", default=None)

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            text = getattr(self, field)
            if text is not None:
                force_setattr(self, field, sys.intern(text))


class Labelled(msgspec.Struct, frozen=True, gc=False):
    """The metadata of an IPAddress."""

    labels: Labels | None = None


class IPAddress(msgspec.Struct, frozen=True, gc=False):
    """An IPAddress. Its name is the address: nothing but metadata is fetched."""

    metadata: Labelled = Labelled()

    @property
    def managed(self) -> bool:
        """Whether the API server's allocator made it (SC-26)."""
        labels = self.metadata.labels
        return labels is not None and labels.managed_by == ALLOCATOR

    @property
    def family(self) -> str | None:
        """Its ip-family label, which need not be true."""
        labels = self.metadata.labels
        return labels.family if labels is not None else None
