"""The reconcilers of pods and PodGroups."""

import logging

from kcm_host.api import Key, Writer
from kcm_host_resourceclaim.cache import Known
from kcm_host_resourceclaim.claim_creation import (
    new_name_for_group,
    new_name_for_pod,
    record_claims,
)
from kcm_host_resourceclaim.errors import Problem
from kcm_host_resourceclaim.models.claim import Claim
from kcm_host_resourceclaim.models.pod import POD, Entry, Named, Pod, PodGroup, resolve
from kcm_host_resourceclaim.reservation import binding_target, is_for_pod, needs_reservation

log = logging.getLogger(__name__)


async def sync_group(key: Key, known: Known, writer: Writer) -> None:
    """
    Make and record the claims of one PodGroup; reserving is left to its pods (RC-50 to RC-56).

    Raises `Problem`.
    """
    group, kind = known.group(key), known.api.groups
    if group is None or kind is None or group.deleting:
        return

    async def find(entry: Entry) -> str | None:
        return await new_name_for_group(key, group, entry, kind, known, writer)

    await record_claims(kind, key, group, find, writer)


Group = tuple[Key, PodGroup] | None


async def sync_pod(key: Key, known: Known, writer: Writer) -> None:
    """
    Make and record the claims of one pod, or reserve those it has (RC-35).

    Never both in one sync: the pod's own new status brings it back (D-4). Raises `Problem`, as
    `PermanentProblem` where settings forbid what the pod needs.
    """
    pod = known.pod(key)
    if pod is None or pod.deleting or pod.terminal:
        return
    group = known.group_of(key, pod)

    async def find(entry: Entry) -> str | None:
        return await new_name_for_pod(key, pod, entry, group, known, writer)

    if await record_claims(POD, key, pod, find, writer):
        return
    if pod.scheduled:
        for entry in pod.entries:
            await _reserve(key, pod, entry, group, known, writer)


async def _reserve(
    key: Key, pod: Pod, entry: Entry, group: Group, known: Known, writer: Writer
) -> None:
    """
    Add the pod, or its PodGroup, to the consumers of an entry's claim if it is allocated (RC-43).

    What is not there yet is passed over: its coming wakes the pod (D-4, D-5).
    """
    resolved = resolve(entry, pod.recorded)
    if not isinstance(resolved, Named):
        return
    claim_key = Key(resolved.claim, key.namespace)
    claim = known.claim(claim_key)
    if claim is None:
        return
    if resolved.generated and not is_for_pod(claim, pod, group_claims=known.api.group_claims):
        raise Problem(f"claim '{claim_key}' is not for pod '{key}'; it waits for one that is")
    if needs_reservation(claim, pod, group_claims=known.api.group_claims):
        await _add_consumer(key, pod, entry, group, (claim_key, claim), known, writer)


async def _add_consumer(
    key: Key,
    pod: Pod,
    entry: Entry,
    group: Group,
    claim: tuple[Key, Claim],
    known: Known,
    writer: Writer,
) -> None:
    """Append the consumer to the claim as the store has it, guarded by its version (RC-61)."""
    target = binding_target(key, pod, entry, group)
    if target.is_pod_group and not known.api.group_claims:
        pairs = {"pod": str(key), "entry": entry.name, "group": target.name}
        log.info(
            "claim is not reserved for the PodGroup, workloadClaims is off", extra={"kv": pairs}
        )
        return
    whole = known.whole_claim(*claim)
    if whole is not None:
        whole["status"].setdefault("reservedFor", []).append(target)
        await writer.update(known.api.claims, whole, subresource="status")
