"""The owners of claims, and the values under which claims are indexed by owner and reference."""

from collections.abc import Iterable

from kcm_host.api import Key
from kcm_host_resourceclaim.models.claim import Claim
from kcm_host_resourceclaim.models.pod import Pod, PodGroup


def is_for_pod(claim: Claim, pod: Pod, *, workload_claims: bool) -> bool:
    """
    Return whether a claim of the pod's namespace was made for the pod, or for its PodGroup.

    The UID of the PodGroup is not compared, because the pod does not contain it.
    """
    controller = claim.controller
    if controller is None:
        return False
    if controller.uid == pod.uid:
        return True
    return workload_claims and controller.is_pod_group and controller.name == pod.pod_group_name


def is_for_group(claim: Claim, group: PodGroup) -> bool:
    """Return whether a claim of the PodGroup's namespace was made for it."""
    return claim.controller is not None and claim.controller.uid == group.uid


def owner_value(namespace: str, uid: str) -> str:
    """Return the index value of the claims of one owner."""
    return f"{namespace}/{uid}"


def owner_values(key: Key, claim: Claim) -> Iterable[str]:
    """
    Return the index values of a claim by owner: its controlling pods, and its PodGroup.

    One index for both kinds (RC-10, RC-14): no two objects have one UID.
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


def pod_reference(key: Key) -> str:
    """Return the index value of the claims with a consumer or owning pod of this name."""
    return f"pods/{key}"


def group_reference(key: Key) -> str:
    """Return the index value of the claims with a consuming PodGroup of this name."""
    return f"podgroups/{key}"


def reference_values(key: Key, claim: Claim) -> Iterable[str]:
    """
    Return the index values of a claim by reference: its consumers and its owning pod.

    By name, not by UID: whether a consumer was deleted or replaced follows from the object that has
    its name now (RC-57, RC-62). Whether a pod names the claim in its spec does not matter.
    """
    values = set()
    for consumer in claim.consumers:
        if consumer.is_pod:
            values.add(pod_reference(Key(consumer.name, key.namespace)))
        elif consumer.is_pod_group:
            values.add(group_reference(Key(consumer.name, key.namespace)))
    owner = claim.owning_pod
    if owner is not None:
        values.add(pod_reference(Key(owner.name, key.namespace)))
    return values
