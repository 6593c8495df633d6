"""Under which values the claims of a pod or PodGroup are found."""

from collections.abc import Iterable

from kcm_host.api import Key
from kcm_host_resourceclaim.claim import Claim


def owner_value(namespace: str, uid: str) -> str:
    """Give the value for the claims of one owner."""
    return f"{namespace}/{uid}"


def owner_values(key: Key, claim: Claim) -> Iterable[str]:
    """
    Give the values that a claim is found under: its controlling pods, and its PodGroup.

    One index for both (RC-10, RC-14): UIDs are never shared.
    """
    values = {
        owner_value(key.namespace, owner.uid)
        for owner in claim.metadata.owner_references
        if owner.is_controlling_pod
    }
    controller = claim.controller
    if controller is not None and controller.is_pod_group:
        values.add(owner_value(key.namespace, controller.uid))
    return values
