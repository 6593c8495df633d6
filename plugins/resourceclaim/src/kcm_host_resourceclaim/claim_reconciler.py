"""The sync of a claim: take away who uses it no more, then release it, then delete it."""

from typing import Any

from kcm_host.api import Key, NotFound, Writer, decode_object
from kcm_host_resourceclaim.cache import Known
from kcm_host_resourceclaim.models.claim import FINALIZER, Claim, Consumer
from kcm_host_resourceclaim.models.pod import POD, Pod, PodGroup
from kcm_host_resourceclaim.reservation import (
    Standing,
    group_standing,
    is_deletable,
    is_releasable,
    pod_standing,
    standing,
)


async def sync_claim(key: Key, known: Known, writer: Writer) -> None:
    """
    Bring one claim up to date with its consumers and its owning pod (RC-57 to RC-62).

    Nothing is written before all consumers are known; an error from the server ends the sync.
    """
    claim = known.claim(key)
    if claim is None or claim.uid in known.memory.let_go:
        return
    gone = await _gone(key, claim, known, writer)
    if gone or is_releasable(claim):
        whole = known.whole_claim(key, claim)
        if whole is None:
            return
        if gone:
            await _drop(whole, gone, known, writer, protected=claim.protected)
        else:
            await _release(whole, known, writer, allocated=claim.allocated)
    if len(gone) == len(claim.consumers) and is_deletable(key, claim, known):
        await _delete(key, known, writer)


async def _gone(key: Key, claim: Claim, known: Known, writer: Writer) -> frozenset[int]:
    """Give the positions of the consumers that go."""
    gone = []
    for position, consumer in enumerate(claim.consumers):
        found = standing(consumer, key.namespace, known)
        if found is Standing.UNKNOWN:
            found = await _asked(consumer, key.namespace, known, writer)
            known.relies_on_server |= found is Standing.STAYS
        if found is not Standing.STAYS:
            gone.append(position)
    return frozenset(gone)


async def _asked(consumer: Consumer, namespace: str, known: Known, writer: Writer) -> Standing:
    """Ask the server about a consumer that the store lacks; UNKNOWN means that it is not there."""
    key = Key(consumer.name, namespace)
    if consumer.is_pod or known.api.groups is None:
        pod = await writer.read(POD, key)
        return pod_standing(consumer, decode_object(pod, Pod) if pod is not None else None)
    found = await writer.read(known.api.groups, key)
    group = decode_object(found, PodGroup) if found is not None else None
    return group_standing(consumer, group)


async def _drop(
    whole: dict[str, Any], gone: frozenset[int], known: Known, writer: Writer, *, protected: bool
) -> None:
    """
    Write the consumers that stay; with the last one the allocation of a protected claim goes too.

    One write for both, because the server takes no consumers without an allocation. Then the
    finalizer, if what the server stored needs it no more (RC-58).
    """
    status = whole["status"]
    status["reservedFor"] = [
        each for position, each in enumerate(status["reservedFor"]) if position not in gone
    ]
    if not status["reservedFor"]:
        del status["reservedFor"]
        if protected:
            status.pop("allocation", None)
    stored = await writer.update(known.api.claims, whole, subresource="status")
    claim = decode_object(stored, Claim)
    if claim.protected and not claim.allocated:
        await _remove_finalizer(stored, known, writer)


async def _release(whole: dict[str, Any], known: Known, writer: Writer, *, allocated: bool) -> None:
    """Let a claim go that somebody deleted and nobody uses (RC-59)."""
    if allocated:
        del whole["status"]["allocation"]
        whole = await writer.update(known.api.claims, whole, subresource="status")
    await _remove_finalizer(whole, known, writer)


async def _remove_finalizer(whole: dict[str, Any], known: Known, writer: Writer) -> None:
    """Remove the scheduler's finalizer and leave those of others in their order."""
    metadata = whole["metadata"]
    metadata["finalizers"] = [each for each in metadata["finalizers"] if each != FINALIZER]
    await writer.update(known.api.claims, whole)
    if not metadata["finalizers"] and "deletionTimestamp" in metadata:
        known.memory.let_go.add(metadata["uid"])


async def _delete(key: Key, known: Known, writer: Writer) -> None:
    try:
        await writer.delete(known.api.claims, key)
    except NotFound:
        return  # What was wanted (D-6).
