"""The consumers of claims: who may use one, and who no longer does."""

from enum import Enum

from kcm_host.api import Key
from kcm_host_resourceclaim.cache import CacheReader
from kcm_host_resourceclaim.events_metrics import UNSUPPORTED_ENTRY, ReconcileError
from kcm_host_resourceclaim.models.claim import Claim, Consumer
from kcm_host_resourceclaim.models.pod import (
    SCHEDULING_GROUP,
    Pod,
    PodClaim,
    PodGroup,
    Unresolved,
    resolve_claim,
)


class ConsumerState(Enum):
    """What a sync does with one consumer (RC-57)."""

    KEEP = "keep"
    REMOVE = "remove"
    #: The cache does not have it. It may be too new for the cache, so the server has to be asked.
    NOT_CACHED = "not cached"


def is_reserved_for(claim: Claim, pod: Pod, *, workload_claims: bool) -> bool:
    """Return whether the pod may use a claim of its namespace, itself or through its PodGroup."""
    consumers = claim.consumers
    if any(consumer.uid == pod.uid for consumer in consumers):
        return True
    return workload_claims and any(
        consumer.is_pod_group and consumer.name == pod.pod_group_name for consumer in consumers
    )


def needs_reservation(claim: Claim, pod: Pod, *, workload_claims: bool) -> bool:
    """Return whether the pod has to be added to the consumers and the server would accept it."""
    if not claim.accepts_consumers:
        return False
    return not is_reserved_for(claim, pod, workload_claims=workload_claims)


def binding_target(
    key: Key, pod: Pod, pod_claim: PodClaim, group: tuple[Key, PodGroup] | None
) -> Consumer:
    """
    Return the consumer that the claim of a pod's entry is reserved for (1.6).

    That is the PodGroup when it has an equal entry, else the pod. Raises `ReconcileError` for an
    unsupported entry, of the pod or of the PodGroup before the equal one.
    """
    _check_supported(pod_claim)
    if group is not None:
        group_key, found = group
        for group_claim in found.resource_claims:
            _check_supported(group_claim)
            if group_claim == pod_claim:
                return Consumer(
                    api_group=SCHEDULING_GROUP,
                    resource="podgroups",
                    name=group_key.name,
                    uid=found.uid,
                )
    return Consumer(resource="pods", name=key.name, uid=pod.uid)


def consumer_state(consumer: Consumer, namespace: str, cache: CacheReader) -> ConsumerState:
    """Return the state of a consumer of a claim in `namespace`; other kinds are kept."""
    key = Key(consumer.name, namespace)
    if consumer.is_pod:
        if consumer.uid in cache.state.deleted_uids:
            return ConsumerState.REMOVE
        return pod_consumer_state(consumer, cache.pod(key))
    if consumer.is_pod_group and cache.api.workload_claims:
        if consumer.uid in cache.state.deleted_uids:
            return ConsumerState.REMOVE
        return group_consumer_state(consumer, cache.group(key))
    return ConsumerState.KEEP


def pod_consumer_state(consumer: Consumer, pod: Pod | None) -> ConsumerState:
    """Return the state of a consumer, given the pod that has its name now."""
    if pod is None:
        return ConsumerState.NOT_CACHED
    if pod.uid != consumer.uid or pod.done:
        return ConsumerState.REMOVE
    return ConsumerState.KEEP


def group_consumer_state(consumer: Consumer, group: PodGroup | None) -> ConsumerState:
    """Return the state of a consumer, given the PodGroup that has its name; it never ends."""
    if group is None:
        return ConsumerState.NOT_CACHED
    return ConsumerState.REMOVE if group.uid != consumer.uid else ConsumerState.KEEP


def is_deletable(key: Key, claim: Claim, cache: CacheReader) -> bool:
    """
    Return whether a claim without consumers was made for a pod that is done or replaced (RC-62).

    A pod that the cache does not have may be too new for it. A claim that is being deleted needs
    no second request.
    """
    owner = claim.owning_pod
    if owner is None or claim.deleting:
        return False
    pod = cache.pod(Key(owner.name, key.namespace))
    return pod is not None and (pod.uid != owner.uid or pod.done)


def is_releasable(claim: Claim) -> bool:
    """Return whether only the finalizer keeps a claim whose deletion was requested (RC-59)."""
    return claim.deleting and claim.has_finalizer and not claim.consumers


def claim_needs_sync(key: Key, claim: Claim, cache: CacheReader) -> bool:
    """Return whether a sync of the claim would make a request; raises `Undecodable`."""
    if not claim.consumers:
        return is_releasable(claim) or is_deletable(key, claim, cache)
    return any(
        consumer_state(consumer, key.namespace, cache) is not ConsumerState.KEEP
        for consumer in claim.consumers
    )


def _check_supported(pod_claim: PodClaim) -> None:
    if resolve_claim(pod_claim, ()) is Unresolved.UNSUPPORTED:
        raise ReconcileError(UNSUPPORTED_ENTRY.format(entry=pod_claim.name))
