"""Under which values claims are found by the pods and PodGroups that they concern."""

from collections.abc import Iterable

from kcm_host.api import Key
from kcm_host_resourceclaim.models.claim import Claim


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


def pod_value(key: Key) -> str:
    """Give the value for the claims that are judged by the pod of this name."""
    return f"pods/{key}"


def group_value(key: Key) -> str:
    """Give the value for the claims that are judged by the PodGroup of this name."""
    return f"podgroups/{key}"


def judge_values(key: Key, claim: Claim) -> Iterable[str]:
    """
    Give the values for all whose state decides about a claim: its consumers and its owning pod.

    By name, not by UID: whether a consumer is gone or replaced is told by who has its name now
    (RC-57, RC-62). Whether the pods name the claim in their spec is no matter.
    """
    values = set()
    for consumer in claim.consumers:
        if consumer.is_pod:
            values.add(pod_value(Key(consumer.name, key.namespace)))
        elif consumer.is_pod_group:
            values.add(group_value(Key(consumer.name, key.namespace)))
    owner = claim.owning_pod
    if owner is not None:
        values.add(pod_value(Key(owner.name, key.namespace)))
    return values
