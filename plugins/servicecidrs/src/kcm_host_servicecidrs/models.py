"""The fields read of ServiceCIDRs and IPAddresses."""

import sys
from datetime import datetime

import msgspec
from msgspec.structs import force_setattr

from kcm_host.api import Kind

SERVICE_CIDR = Kind(
    group="networking.k8s.io",
    version="v1",
    name="ServiceCIDR",
    resource="servicecidrs",
    namespaced=False,
)
IP_ADDRESS = Kind(
    group="networking.k8s.io",
    version="v1",
    name="IPAddress",
    resource="ipaddresses",
    namespaced=False,
)

FINALIZER = "networking.k8s.io/service-cidr-finalizer"
ALLOCATOR = "ipallocator.k8s.io"


class Condition(msgspec.Struct, frozen=True, gc=False):
    """One condition; its times are not compared, so they are not read (SC-80)."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The finalizers and the time of deletion of a ServiceCIDR."""

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
        """The time of its deletion, in whole seconds; None while it is not being deleted."""
        return self.metadata.deletion_timestamp

    @property
    def has_finalizer(self) -> bool:
        """True when it has this controller's finalizer."""
        return FINALIZER in (self.metadata.finalizers or ())

    @property
    def ready(self) -> Condition | None:
        """The condition of type `Ready`."""
        conditions = self.status.conditions or ()
        return next((one for one in conditions if one.type == "Ready"), None)


class Labels(msgspec.Struct, frozen=True, gc=False):
    """The two labels that the API server's allocator sets (SC-8); their few values are interned."""

    managed_by: str | None = msgspec.field(name="ipaddress.kubernetes.io/managed-by", default=None)
    family: str | None = msgspec.field(name="ipaddress.kubernetes.io/ip-family", default=None)

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            text = getattr(self, field)
            if text is not None:
                force_setattr(self, field, sys.intern(text))


class AddressMetadata(msgspec.Struct, frozen=True, gc=False):
    """The metadata of an IPAddress."""

    labels: Labels | None = None


class IPAddress(msgspec.Struct, frozen=True, gc=False):
    """An IPAddress. Its name is the address, so only metadata is requested from the server."""

    metadata: AddressMetadata = AddressMetadata()

    @property
    def managed(self) -> bool:
        """True when the API server's allocator manages it (SC-26)."""
        labels = self.metadata.labels
        return labels is not None and labels.managed_by == ALLOCATOR

    @property
    def family(self) -> str | None:
        """The ip-family label, which may be wrong."""
        labels = self.metadata.labels
        return labels.family if labels is not None else None
