"""Whose a claim is, who may use it, and for whom an entry's claim is reserved."""

from kcm_host.api import Key
from kcm_host_resourceclaim.claim import Claim, Consumer
from kcm_host_resourceclaim.entries import Entry, Unnamed, resolve
from kcm_host_resourceclaim.pod import Pod
from kcm_host_resourceclaim.podgroup import GROUP, PodGroup
from kcm_host_resourceclaim.problems import UNKNOWN_ENTRY, Problem


def is_for_pod(claim: Claim, pod: Pod, *, group_claims: bool) -> bool:
    """
    Whether a claim of the pod's namespace was made for the pod, or for its PodGroup.

    The group's UID is not compared, because the pod does not know it.
    """
    controller = claim.controller
    if controller is None:
        return False
    if controller.uid == pod.uid:
        return True
    return group_claims and controller.is_pod_group and controller.name == pod.group_name


def is_for_group(claim: Claim, group: PodGroup) -> bool:
    """Whether a claim of the group's namespace was made for the PodGroup."""
    return claim.controller is not None and claim.controller.uid == group.uid


def is_reserved_for(claim: Claim, pod: Pod, *, group_claims: bool) -> bool:
    """Whether the pod may use a claim of its namespace already, itself or through its group."""
    if any(consumer.uid == pod.uid for consumer in claim.consumers):
        return True
    return group_claims and any(
        consumer.is_pod_group and consumer.name == pod.group_name for consumer in claim.consumers
    )


def needs_reservation(claim: Claim, pod: Pod, *, group_claims: bool) -> bool:
    """Whether the pod is to be added to the claim's consumers, and the server would allow it."""
    return claim.takes_consumers and not is_reserved_for(claim, pod, group_claims=group_claims)


def binding_target(
    key: Key, pod: Pod, entry: Entry, group: tuple[Key, PodGroup] | None
) -> Consumer:
    """
    Give the consumer that the claim of a pod's entry is reserved for (1.6).

    That is the PodGroup where it has an equal entry, else the pod. Raises `Problem` for an entry
    of a kind that is not known here, of the pod or of the group before the equal one.
    """
    _check_known(entry)
    if group is not None:
        group_key, found = group
        for shared in found.entries:
            _check_known(shared)
            if shared == entry:
                return Consumer(GROUP, "podgroups", group_key.name, found.uid)
    return Consumer(resource="pods", name=key.name, uid=pod.uid)


def _check_known(entry: Entry) -> None:
    if resolve(entry, ()) is Unnamed.UNSUPPORTED:
        raise Problem(UNKNOWN_ENTRY.format(entry=entry.name))
