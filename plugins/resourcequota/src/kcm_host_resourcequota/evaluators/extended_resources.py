"""Extended resources: their names, and the device classes that declare them."""

import re
from collections import Counter

import msgspec
from msgspec.structs import force_setattr

from kcm_host.api import Kind

REQUESTS_PREFIX = "requests."

#: With the name of a device class: the extended resource that every device class declares.
IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"

_NATIVE = "kubernetes.io/"
_DOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_DOMAIN_LENGTH = 253
_LAST_PART = re.compile(r"[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")


def is_extended_request(name: str) -> bool:
    """Return whether a name of a quota limits an extended resource (RQ-102 to RQ-104)."""
    if not name.startswith(REQUESTS_PREFIX):
        return False
    return _is_third_party(name) or name.startswith(REQUESTS_PREFIX + IMPLICIT_PREFIX)


def is_extended_resource(name: str) -> bool:
    """Return whether a name in the requests of a container is an extended resource (RQ-134)."""
    if name.startswith(IMPLICIT_PREFIX):
        return True
    if not _is_third_party(name) or name.startswith(REQUESTS_PREFIX):
        return False
    return _is_qualified(REQUESTS_PREFIX + name)


def _is_third_party(name: str) -> bool:
    """Return whether a resource is not one of Kubernetes itself (RQ-103)."""
    return "/" in name and _NATIVE not in name


def _is_qualified(name: str) -> bool:
    domain, _, last = name.partition("/")
    if len(domain) > _DOMAIN_LENGTH or not _DOMAIN.fullmatch(domain):
        return False
    return _LAST_PART.fullmatch(last) is not None


DEVICE_CLASS = Kind(
    group="resource.k8s.io",
    version="v1",
    name="DeviceClass",
    resource="deviceclasses",
    namespaced=False,
)


class DeviceClassSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The extended resource for which devices of this class are allocated."""

    extended_resource_name: str | None = None


class DeviceClass(msgspec.Struct, frozen=True, gc=False):
    """A device class; `explicit_name` is empty if it declares no extended resource."""

    spec: DeviceClassSpec | None = None
    explicit_name: str = ""  # never sent by the server

    def __post_init__(self) -> None:
        explicit = self.spec.extended_resource_name if self.spec is not None else None
        force_setattr(self, "explicit_name", explicit or "")
        force_setattr(self, "spec", None)


class DeviceClasses:
    """
    The extended resources that device classes declare.

    A name that several classes declare stays declared until the last of them is deleted (D-17).
    """

    def __init__(self) -> None:
        self._explicit: dict[str, str] = {}
        self._declarations: Counter[str] = Counter()

    def put(self, name: str, device_class: DeviceClass | None) -> frozenset[str]:
        """
        Set the present version of a class, None once it is deleted (RQ-186).

        Return the names of quotas that resource claims handle from now on, or no longer. The
        contributions of claims of this class may have changed as well.
        """
        before = self._names_of(name)
        if device_class is None:
            self._explicit.pop(name, None)
        else:
            self._explicit[name] = device_class.explicit_name
        after = self._names_of(name)
        removed = {each for each in before - after if self._remove_declaration(each)}
        added = {each for each in after - before if self._add_declaration(each)}
        return frozenset(REQUESTS_PREFIX + each for each in removed | added)

    def clear(self) -> None:
        """Remove all classes."""
        self._explicit.clear()
        self._declarations.clear()

    def explicit_name(self, name: str) -> str:
        """Return the extended resource that a class declares explicitly; empty for none."""
        return self._explicit.get(name, "")

    def declares(self, extended_resource: str) -> bool:
        """Return whether a class declares an extended resource, explicitly or by its name."""
        return extended_resource in self._declarations

    def _add_declaration(self, extended_resource: str) -> bool:
        """Count one more class that declares a name; return whether it is the first."""
        self._declarations[extended_resource] += 1
        return self._declarations[extended_resource] == 1

    def _remove_declaration(self, extended_resource: str) -> bool:
        """Count one class less that declares a name; return whether it was the last."""
        self._declarations[extended_resource] -= 1
        if self._declarations[extended_resource]:
            return False
        del self._declarations[extended_resource]
        return True

    def _names_of(self, name: str) -> set[str]:
        if name not in self._explicit:
            return set()
        explicit = self._explicit[name]
        return {IMPLICIT_PREFIX + name, explicit} if explicit else {IMPLICIT_PREFIX + name}
