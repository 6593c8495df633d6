"""The claim that is made from a template, and its name."""

from typing import Any

from kcm_host.api import Key, Kind
from kcm_host_resourceclaim.claim import POD_CLAIM_NAME
from kcm_host_resourceclaim.template import Template

#: The server appends 5 characters, and the result is to fit a DNS label of 63, with one in hand.
LONGEST_BASE = 57


def generate_name(owner: str, entry: str) -> str:
    """
    Give the `generateName` for an entry of a pod or PodGroup (RC-45).

    Where both names are too long they shrink in proportion, each to one character at least
    (D-12), and the hyphen at the end is left out.
    """
    length = len(owner) + len(entry) + 2
    if length <= LONGEST_BASE:
        return f"{owner}-{entry}-"
    owner_part = len(owner) * LONGEST_BASE // length
    entry_part = len(entry) * LONGEST_BASE // length
    if owner_part == 0:
        owner_part, entry_part = 1, entry_part - 1
    elif entry_part == 0:
        owner_part, entry_part = owner_part - 1, 1
    return f"{owner[:owner_part]}-{entry[:entry_part]}"


def new_claim(
    template: Template, *, entry: str, kind: Kind, owner: Key, uid: str
) -> dict[str, Any]:
    """
    Give the body of the claim for an entry of `owner`, an object of `kind` (RC-44).

    It gets no finalizer: the scheduler adds its own when it allocates. The template stays as
    it is.
    """
    labels = template.spec.metadata
    metadata: dict[str, Any] = {
        "generateName": generate_name(owner.name, entry),
        "annotations": {**labels.annotations, POD_CLAIM_NAME: entry},
        "ownerReferences": [
            {
                "apiVersion": kind.api_version,
                "kind": kind.name,
                "name": owner.name,
                "uid": uid,
                "controller": True,
            }
        ],
    }
    if labels.labels:
        metadata["labels"] = labels.labels
    return {"metadata": metadata, "spec": template.spec.spec}
