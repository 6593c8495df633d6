"""The reconciler of claims: consumers that are done are removed, then the claim is released."""

from typing import Any

from kcm_host.api import Key, NotFound, Writer, decode_object
from kcm_host_resourceclaim.cache import CacheReader
from kcm_host_resourceclaim.models.claim import FINALIZER, Claim, Consumer
from kcm_host_resourceclaim.models.pod import POD, Pod, PodGroup
from kcm_host_resourceclaim.reservation import (
    ConsumerState,
    consumer_state,
    group_consumer_state,
    is_deletable,
    is_releasable,
    pod_consumer_state,
)


async def sync_claim(key: Key, cache: CacheReader, writer: Writer) -> None:
    """
    Reconcile one claim with its consumers and its owning pod (RC-57 to RC-62).

    Nothing is written before the state of all consumers is known; an error from the server ends
    the sync.
    """
    claim = cache.claim(key)
    if claim is None or claim.uid in cache.state.finalized:
        return
    to_remove = await _consumers_to_remove(key, claim, cache, writer=writer)
    if to_remove or is_releasable(claim):
        full = cache.full_claim(key, claim)
        if full is None:
            return
        if to_remove:
            await _remove_consumers(
                full, to_remove, cache, writer=writer, deallocate=claim.has_finalizer
            )
        else:
            await _release(full, cache, writer, allocated=claim.allocated)
    if len(to_remove) == len(claim.consumers) and is_deletable(key, claim, cache):
        await _delete(key, cache, writer)


async def _consumers_to_remove(
    key: Key, claim: Claim, cache: CacheReader, writer: Writer
) -> frozenset[int]:
    """Return the positions of the consumers to remove."""
    to_remove = []
    for position, consumer in enumerate(claim.consumers):
        state = consumer_state(consumer, key.namespace, cache)
        if state is ConsumerState.NOT_CACHED:
            state = await _live_consumer_state(consumer, key.namespace, cache, writer=writer)
            cache.relies_on_live_read |= state is ConsumerState.KEEP
        if state is not ConsumerState.KEEP:
            to_remove.append(position)
    return frozenset(to_remove)


async def _live_consumer_state(
    consumer: Consumer, namespace: str, cache: CacheReader, writer: Writer
) -> ConsumerState:
    """Ask the server for a consumer that is not cached; NOT_CACHED means that it does not exist."""
    key = Key(consumer.name, namespace)
    if consumer.is_pod or cache.api.groups is None:
        found = await writer.read(POD, key)
        pod = decode_object(found, Pod) if found is not None else None
        return pod_consumer_state(consumer, pod)
    found = await writer.read(cache.api.groups, key)
    group = decode_object(found, PodGroup) if found is not None else None
    return group_consumer_state(consumer, group)


async def _remove_consumers(
    full: dict[str, Any],
    to_remove: frozenset[int],
    cache: CacheReader,
    writer: Writer,
    *,
    deallocate: bool,
) -> None:
    """
    Write the remaining consumers; with the last one the allocation is removed when `deallocate`.

    One write for both, because the server accepts no consumers without an allocation. Then the
    finalizer is removed, if the stored claim no longer needs it (RC-58).
    """
    status = full["status"]
    status["reservedFor"] = [
        each for position, each in enumerate(status["reservedFor"]) if position not in to_remove
    ]
    if not status["reservedFor"]:
        del status["reservedFor"]
        if deallocate:
            status.pop("allocation", None)
    stored = await writer.update(cache.api.claims, full, subresource="status")
    claim = decode_object(stored, Claim)
    if claim.has_finalizer and not claim.allocated:
        await _remove_finalizer(stored, cache, writer)


async def _release(
    full: dict[str, Any], cache: CacheReader, writer: Writer, *, allocated: bool
) -> None:
    """Deallocate and release a deleted claim without consumers (RC-59)."""
    if allocated:
        del full["status"]["allocation"]
        full = await writer.update(cache.api.claims, full, subresource="status")
    await _remove_finalizer(full, cache, writer)


async def _remove_finalizer(full: dict[str, Any], cache: CacheReader, writer: Writer) -> None:
    """Remove the scheduler's finalizer and keep the others in their order."""
    metadata = full["metadata"]
    metadata["finalizers"] = [each for each in metadata["finalizers"] if each != FINALIZER]
    await writer.update(cache.api.claims, full)
    if not metadata["finalizers"] and "deletionTimestamp" in metadata:
        cache.state.finalized.add(metadata["uid"])


async def _delete(key: Key, cache: CacheReader, writer: Writer) -> None:
    try:
        await writer.delete(cache.api.claims, key)
    except NotFound:
        return  # The desired result (D-6).
