"""Consumers of claims: who may use one, who no longer does, and what follows for the claim."""

from enum import Enum

from kcm_host.api import Key
from kcm_host_resourceclaim.cache import Known
from kcm_host_resourceclaim.errors import UNKNOWN_ENTRY, Problem
from kcm_host_resourceclaim.models.claim import Claim, Consumer
from kcm_host_resourceclaim.models.pod import GROUP, Entry, Pod, PodGroup, Unnamed, resolve


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


class Standing(Enum):
    """What is to become of one consumer (RC-57)."""

    STAYS = "stays"
    GOES = "goes"
    #: The store does not have it; it may be too new, so the server is to be asked.
    UNKNOWN = "unknown"


def standing(consumer: Consumer, namespace: str, known: Known) -> Standing:
    """Say what is known of a consumer of a claim in `namespace`; what nobody here knows stays."""
    key = Key(consumer.name, namespace)
    if consumer.is_pod:
        if consumer.uid in known.memory.removed:
            return Standing.GOES
        return pod_standing(consumer, known.pod(key))
    if consumer.is_pod_group and known.api.group_claims:
        if consumer.uid in known.memory.removed:
            return Standing.GOES
        return group_standing(consumer, known.group(key))
    return Standing.STAYS


def pod_standing(consumer: Consumer, pod: Pod | None) -> Standing:
    """Say whether a pod of the consumer's name still is the consumer, and uses the claim."""
    if pod is None:
        return Standing.UNKNOWN
    return Standing.GOES if pod.uid != consumer.uid or pod.done else Standing.STAYS


def group_standing(consumer: Consumer, group: PodGroup | None) -> Standing:
    """Say whether a PodGroup of the consumer's name still is the consumer; it is never done."""
    if group is None:
        return Standing.UNKNOWN
    return Standing.GOES if group.uid != consumer.uid else Standing.STAYS


def is_deletable(key: Key, claim: Claim, known: Known) -> bool:
    """
    Whether a claim without consumers was made for a pod that is done or replaced (RC-62).

    A pod that the store lacks may be too new for it. A claim that is being deleted needs no
    second request.
    """
    owner = claim.owning_pod
    if owner is None or claim.deleting:
        return False
    pod = known.pod(Key(owner.name, key.namespace))
    return pod is not None and (pod.uid != owner.uid or pod.done)


def is_releasable(claim: Claim) -> bool:
    """Whether only the finalizer keeps a claim that somebody deleted (RC-59)."""
    return claim.deleting and claim.protected and not claim.consumers


def is_settled(key: Key, claim: Claim, known: Known) -> bool:
    """Whether a sync of the claim would make no request."""
    if not claim.consumers:
        return not is_releasable(claim) and not is_deletable(key, claim, known)
    return all(
        standing(consumer, key.namespace, known) is Standing.STAYS for consumer in claim.consumers
    )
