"""What is read of the devices that a claim or a template asks for; everything else is opaque."""

import msgspec


class Exactly(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A request without alternatives, as v1 and v1beta2 write it."""

    admin_access: bool | None = None


class Alternative(msgspec.Struct, frozen=True, gc=False):
    """One of several alternatives; only that it is there counts."""


class Request(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One request for devices."""

    exactly: Exactly | None = None
    #: Where v1beta1 has it; the other versions never write it here (RC-41).
    admin_access: bool | None = None
    first_available: tuple[Alternative, ...] = ()


class Devices(msgspec.Struct, frozen=True, gc=False):
    """All requests of one claim."""

    requests: tuple[Request, ...] = ()


class ClaimSpec(msgspec.Struct, frozen=True, gc=False):
    """The spec of a claim, also inside a template."""

    devices: Devices = Devices()

    @property
    def asks_for_admin_access(self) -> bool:
        """Whether a request itself asks for it; alternatives cannot (RC-41)."""
        return any(
            request.admin_access or (request.exactly and request.exactly.admin_access)
            for request in self.devices.requests
        )

    @property
    def has_alternatives(self) -> bool:
        """Whether a request is a prioritized list."""
        return any(request.first_available for request in self.devices.requests)
