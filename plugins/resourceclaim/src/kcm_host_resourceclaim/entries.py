"""What an entry of `resourceClaims` stands for, in a pod and in a PodGroup alike."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol

import msgspec


class Entry(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One entry of `spec.resourceClaims`: a claim by its name, or a template for one."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class Recorded(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One element of `status.resourceClaimStatuses`: the claim that an entry got, or None."""

    name: str = ""
    resource_claim_name: str | None = None


class Named(msgspec.Struct, frozen=True, gc=False):
    """The entry stands for this claim; a `generated` one counts only if it has the right owner."""

    claim: str
    generated: bool


class Unnamed(Enum):
    """The entry stands for no claim, or for none yet."""

    #: It was decided earlier that no claim is needed.
    SKIPPED = "skipped"
    NOT_CREATED = "not created"
    #: Neither name nor template: a field that only newer versions know.
    UNSUPPORTED = "unsupported"


class Holder(Protocol):
    """What pods and PodGroups have in common: entries, and the claims recorded for them."""

    @property
    def entries(self) -> Sequence[Entry]:
        """Its `spec.resourceClaims`."""

    @property
    def recorded(self) -> Sequence[Recorded]:
        """Its `status.resourceClaimStatuses`."""


def resolve(entry: Entry, recorded: Sequence[Recorded]) -> Named | Unnamed:
    """Say which claim an entry stands for; of several records of one name the first counts."""
    if entry.resource_claim_name is not None:
        return Named(entry.resource_claim_name, generated=False)
    if entry.resource_claim_template_name is None:
        return Unnamed.UNSUPPORTED
    for record in recorded:
        if record.name == entry.name:
            name = record.resource_claim_name
            return Unnamed.SKIPPED if name is None else Named(name, generated=True)
    return Unnamed.NOT_CREATED


def claim_names(holder: Holder) -> tuple[str, ...]:
    """Give the claims that the entries stand for, each once, in order (RC-8, RC-11)."""
    if not holder.entries:
        return ()
    resolved = (resolve(entry, holder.recorded) for entry in holder.entries)
    return tuple(dict.fromkeys(each.claim for each in resolved if isinstance(each, Named)))


def template_names(holder: Holder) -> tuple[str, ...]:
    """Give the templates that the entries name, each once, in order (RC-9, RC-12)."""
    if not holder.entries:
        return ()
    names = (entry.resource_claim_template_name for entry in holder.entries)
    return tuple(dict.fromkeys(name for name in names if name is not None))


def records_to_apply(recorded: Sequence[Recorded], new: Mapping[str, str]) -> list[dict[str, str]]:
    """
    Give the whole list for a status apply: what is recorded, under the new names, sorted (RC-42).

    All of it, because a name that an apply leaves out is removed by the server.
    """
    names = {
        record.name: record.resource_claim_name
        for record in reversed(recorded)
        if record.resource_claim_name is not None
    }
    return [
        {"name": name, "resourceClaimName": claim}
        for name, claim in sorted({**names, **new}.items())
    ]
