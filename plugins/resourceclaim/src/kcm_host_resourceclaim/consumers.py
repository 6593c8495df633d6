"""Which consumers of a claim stay, and whether there is anything to do for the claim."""

from enum import Enum

from kcm_host.api import Key
from kcm_host_resourceclaim.claim import Claim, Consumer
from kcm_host_resourceclaim.known import Known
from kcm_host_resourceclaim.pod import Pod
from kcm_host_resourceclaim.podgroup import PodGroup


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
