"""The reconcilers of pods and PodGroups: claims are created for entries, and reserved."""

import logging

from kcm_host.api import Key, Writer
from kcm_host_resourceclaim.cache import CacheReader
from kcm_host_resourceclaim.claim_creation import (
    ensure_group_claim,
    ensure_pod_claim,
    record_claims,
)
from kcm_host_resourceclaim.errors import ReconcileError
from kcm_host_resourceclaim.models.claim import Claim
from kcm_host_resourceclaim.models.pod import (
    POD,
    Pod,
    PodClaim,
    PodGroup,
    ResolvedClaim,
    resolve_claim,
)
from kcm_host_resourceclaim.ownership import is_for_pod
from kcm_host_resourceclaim.reservation import binding_target, needs_reservation

log = logging.getLogger(__name__)

Group = tuple[Key, PodGroup] | None


async def sync_pod(key: Key, cache: CacheReader, writer: Writer) -> None:
    """
    Create and record the claims of one pod, or reserve those it has (RC-35).

    Never both in one sync: the new status of the pod queues it again (D-4). Raises
    `ReconcileError`, as `TerminalError` when the settings forbid what the pod needs.
    """
    pod = cache.pod(key)
    if pod is None or pod.deleting or pod.terminal:
        return
    group = cache.group_of(key, pod)

    async def ensure(pod_claim: PodClaim) -> str | None:
        return await ensure_pod_claim(key, pod, pod_claim, group, cache, writer)

    if await record_claims(POD, key, pod, ensure, writer):
        return
    if pod.scheduled:
        for pod_claim in pod.resource_claims:
            await _reserve(key, pod, pod_claim, group, cache, writer)


async def sync_group(key: Key, cache: CacheReader, writer: Writer) -> None:
    """
    Create and record the claims of one PodGroup; its pods reserve them (RC-50 to RC-56).

    Raises `ReconcileError`.
    """
    group, kind = cache.group(key), cache.api.groups
    if group is None or kind is None or group.deleting:
        return

    async def ensure(pod_claim: PodClaim) -> str | None:
        return await ensure_group_claim(key, group, pod_claim, kind, cache, writer)

    await record_claims(kind, key, group, ensure, writer)


async def _reserve(
    key: Key, pod: Pod, pod_claim: PodClaim, group: Group, cache: CacheReader, writer: Writer
) -> None:
    """
    Add the pod, or its PodGroup, to the consumers of an entry's claim if it is allocated (RC-43).

    A claim that does not exist yet is skipped: its creation queues the pod (D-4, D-5).
    """
    resolved = resolve_claim(pod_claim, pod.resource_claim_statuses)
    if not isinstance(resolved, ResolvedClaim):
        return
    claim_key = Key(resolved.claim, key.namespace)
    claim = cache.claim(claim_key)
    if claim is None:
        return
    workload_claims = cache.api.workload_claims
    if resolved.generated and not is_for_pod(claim, pod, workload_claims=workload_claims):
        raise ReconcileError(
            f"claim '{claim_key}' is not for pod '{key}'; it waits for one that is"
        )
    if needs_reservation(claim, pod, workload_claims=workload_claims):
        await _add_consumer(key, pod, pod_claim, group, (claim_key, claim), cache, writer)


async def _add_consumer(
    key: Key,
    pod: Pod,
    pod_claim: PodClaim,
    group: Group,
    claim: tuple[Key, Claim],
    cache: CacheReader,
    writer: Writer,
) -> None:
    """Append the consumer to the cached claim; a newer one on the server is a conflict (RC-61)."""
    target = binding_target(key, pod, pod_claim, group)
    if target.is_pod_group and not cache.api.workload_claims:
        pairs = {"pod": str(key), "entry": pod_claim.name, "group": target.name}
        log.info("claim not reserved for the PodGroup, workloadClaims is off", extra={"kv": pairs})
        return
    full = cache.full_claim(*claim)
    if full is not None:
        full["status"].setdefault("reservedFor", []).append(target)
        await writer.update(cache.api.claims, full, subresource="status")
