"""Whether a pod or PodGroup needs a sync, judged by what is known and without any request."""

from kcm_host.api import Key, Undecodable
from kcm_host_resourceclaim.belonging import (
    binding_target,
    is_for_group,
    is_for_pod,
    needs_reservation,
)
from kcm_host_resourceclaim.entries import Entry, Named, Unnamed, resolve
from kcm_host_resourceclaim.known import Known
from kcm_host_resourceclaim.pod import Pod
from kcm_host_resourceclaim.podgroup import PodGroup
from kcm_host_resourceclaim.problems import Problem


def pod_needs_work(key: Key, pod: Pod, known: Known) -> bool:
    """
    Whether an entry of the pod lacks its claim, or a claim lacks the pod (RC-21).

    A pod that has ended needs nothing (D-1): what it had made would be deleted again.
    """
    if pod.deleting or pod.terminal:
        return False
    return any(_entry_needs_work(key, pod, entry, known) for entry in pod.entries)


def group_needs_work(key: Key, group: PodGroup, known: Known) -> bool:
    """Whether an entry of the PodGroup lacks its claim (RC-29)."""
    if group.deleting:
        return False
    return any(_shared_needs_work(key, group, entry, known) for entry in group.entries)


def _entry_needs_work(key: Key, pod: Pod, entry: Entry, known: Known) -> bool:
    match resolve(entry, pod.recorded):
        case Unnamed.SKIPPED:
            return False
        case Named(name, generated):
            claim_key = Key(name, key.namespace)
        case _:
            return True
    try:
        claim = known.claim_or_created(claim_key)
    except Undecodable:
        return False
    group_claims = known.api.group_claims
    if generated and (claim is None or not is_for_pod(claim, pod, group_claims=group_claims)):
        return _gets_another(key, pod, entry, known)
    if claim is None or not pod.scheduled:
        return False
    return needs_reservation(claim, pod, group_claims=group_claims)


def _gets_another(key: Key, pod: Pod, entry: Entry, known: Known) -> bool:
    """
    Whether a sync would find or make the claim that an entry lacks.

    That of a PodGroup is only found. Where it cannot be told, a sync tells why.
    """
    try:
        target = binding_target(key, pod, entry, known.group_of(key, pod))
    except (Problem, Undecodable):
        return True
    if target.is_pod or not known.api.group_claims:
        return True
    return known.claim_for_entry(key.namespace, target.uid, entry.name) is not None


def _shared_needs_work(key: Key, group: PodGroup, entry: Entry, known: Known) -> bool:
    match resolve(entry, group.recorded):
        case Unnamed.SKIPPED:
            return False
        case Named(name, generated):
            try:
                claim = known.claim_or_created(Key(name, key.namespace))
            except Undecodable:
                return False
            return generated and (claim is None or not is_for_group(claim, group))
    return True
