"""What is read of a ResourceQuota, and nothing more."""

from collections.abc import Mapping

import msgspec

from kcm_host.api import Kind
from kcm_host_resourcequota.quantity import parse
from kcm_host_resourcequota.selection import Requirement

RESOURCE_QUOTA = Kind("", "v1", "ResourceQuota", "resourcequotas")

# The server leaves empty maps and lists out, and null, missing and empty are one thing (RQ-50).
Texts = dict[str, str] | None


class Metadata(msgspec.Struct, frozen=True, gc=False):
    """Which quota it is: one made anew under its name has another `uid`."""

    uid: str = ""


class ScopeSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The expressions of `spec.scopeSelector`, as written."""

    match_expressions: tuple[Requirement, ...] | None = None


class Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What the user asked for."""

    hard: Texts = None
    scopes: tuple[str, ...] | None = None
    scope_selector: ScopeSelector | None = None


class Status(msgspec.Struct, frozen=True, gc=False):
    """What the controller and admission have written."""

    hard: Texts = None
    used: Texts = None


class QuotaObject(msgspec.Struct, frozen=True, gc=False):
    """
    One ResourceQuota.

    A quantity that cannot be read makes the object undecodable for the host, so the last good
    state stays in force (RQ-75).
    """

    metadata: Metadata = Metadata()
    spec: Spec = Spec()
    status: Status = Status()

    def __post_init__(self) -> None:
        for texts in (self.spec.hard, self.status.hard, self.status.used):
            amounts(texts)


def amounts(texts: Texts) -> Mapping[str, int]:
    """Give a resource list in nano units; raises `QuantityError` (RQ-270)."""
    return {name: parse(text).nano for name, text in (texts or {}).items()}
