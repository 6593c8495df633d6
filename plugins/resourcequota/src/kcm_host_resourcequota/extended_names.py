"""Names of extended resources, as pods request them and as quotas limit them."""

import re

REQUESTS_PREFIX = "requests."

#: Before a device class's name: the extended resource that every device class declares.
IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"

_NATIVE = "kubernetes.io/"
_DOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_DOMAIN_LENGTH = 253
_LAST_PART = re.compile(r"[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")


def is_extended_request(name: str) -> bool:
    """Say whether a quota's name stands for requests of an extended resource (RQ-102 to RQ-104)."""
    if not name.startswith(REQUESTS_PREFIX):
        return False
    return _is_foreign(name) or name.startswith(REQUESTS_PREFIX + IMPLICIT_PREFIX)


def is_extended_resource(name: str) -> bool:
    """Say whether a container's request of this name is one of an extended resource (RQ-134)."""
    if name.startswith(IMPLICIT_PREFIX):
        return True
    if not _is_foreign(name) or name.startswith(REQUESTS_PREFIX):
        return False
    return _is_qualified(REQUESTS_PREFIX + name)


def _is_foreign(name: str) -> bool:
    """Say whether a resource is none of Kubernetes' own (RQ-103)."""
    return "/" in name and _NATIVE not in name


def _is_qualified(name: str) -> bool:
    domain, _, last = name.partition("/")
    if len(domain) > _DOMAIN_LENGTH or not _DOMAIN.fullmatch(domain):
        return False
    return _LAST_PART.fullmatch(last) is not None
