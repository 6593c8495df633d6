"""
The reconcilers of pods and PodGroups.

Claims are found or created from templates for their entries, recorded in the status, and reserved.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from kcm_host.api import HostError, Key, Kind, Writer, decode_object
from kcm_host_resourceclaim.cache import CacheReader
from kcm_host_resourceclaim.events_metrics import (
    CHECKING,
    CREATE,
    NO_ADMIN_ACCESS,
    NO_PRIORITIZED_LIST,
    NO_TEMPLATE,
    NO_WORKLOAD_CLAIMS,
    UNSUPPORTED_ENTRY,
    ReconcileError,
    TerminalError,
    event_message,
    server_message,
)
from kcm_host_resourceclaim.models.claim import (
    POD_CLAIM_NAME,
    Claim,
    ClaimSpec,
    Template,
    is_for_group,
    is_for_pod,
)
from kcm_host_resourceclaim.models.pod import (
    POD,
    ClaimOwner,
    Pod,
    PodClaim,
    PodGroup,
    ResolvedClaim,
    Unresolved,
    resolve_claim,
    statuses_to_apply,
)
from kcm_host_resourceclaim.reservation import binding_target, needs_reservation

log = logging.getLogger(__name__)

FIELD_MANAGER = "ResourceClaimController"
COMPONENT = "resource_claim"
REASON = "FailedResourceClaimCreation"
#: The server appends 5 characters. The result has to fit a DNS label of 63, with one spare.
MAX_BASE_LENGTH = 57

#: Returns the claim to record for an entry, None when there is nothing new to record.
Ensure = Callable[[PodClaim], Awaitable[str | None]]
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
        return await ensure_pod_claim(
            key, pod=pod, pod_claim=pod_claim, group=group, cache=cache, writer=writer
        )

    if await record_claims(POD, key, pod, ensure=ensure, writer=writer):
        return
    if pod.scheduled:
        for pod_claim in pod.resource_claims:
            await _reserve(
                key, pod=pod, pod_claim=pod_claim, group=group, cache=cache, writer=writer
            )


async def sync_group(key: Key, cache: CacheReader, writer: Writer) -> None:
    """
    Create and record the claims of one PodGroup; its pods reserve them (RC-50 to RC-56).

    Raises `ReconcileError`.
    """
    group, kind = cache.group(key), cache.api.groups
    if group is None or kind is None or group.deleting:
        return

    async def ensure(pod_claim: PodClaim) -> str | None:
        return await ensure_group_claim(
            key, group=group, pod_claim=pod_claim, kind=kind, cache=cache, writer=writer
        )

    await record_claims(kind, key, group, ensure=ensure, writer=writer)


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
        await _add_consumer(
            key,
            pod=pod,
            pod_claim=pod_claim,
            group=group,
            claim=(claim_key, claim),
            cache=cache,
            writer=writer,
        )


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
    target = binding_target(key, pod, pod_claim, group=group)
    if target.is_pod_group and not cache.api.workload_claims:
        pairs = {"pod": str(key), "entry": pod_claim.name, "group": target.name}
        log.info("claim not reserved for the PodGroup, workloadClaims is off", extra={"kv": pairs})
        return
    full = cache.full_claim(*claim)
    if full is not None:
        full["status"].setdefault("reservedFor", []).append(target)
        await writer.update(cache.api.claims, full, subresource="status")


def generate_name(owner: str, pod_claim_name: str) -> str:
    """
    Return the `generateName` for an entry of a pod or PodGroup (RC-45).

    When both names are too long they are shortened in proportion, each to one character at least
    (D-12), and the hyphen at the end is left out.
    """
    length = len(owner) + len(pod_claim_name) + 2
    if length <= MAX_BASE_LENGTH:
        return f"{owner}-{pod_claim_name}-"
    owner_part = len(owner) * MAX_BASE_LENGTH // length
    claim_part = len(pod_claim_name) * MAX_BASE_LENGTH // length
    if owner_part == 0:
        owner_part, claim_part = 1, claim_part - 1
    elif claim_part == 0:
        owner_part, claim_part = owner_part - 1, 1
    return f"{owner[:owner_part]}-{pod_claim_name[:claim_part]}"


def new_claim(
    template: Template, *, pod_claim_name: str, kind: Kind, owner: Key, uid: str
) -> dict[str, Any]:
    """
    Return the body of the claim for an entry of `owner`, an object of `kind` (RC-44).

    It has no finalizer: the scheduler adds its own when it allocates.
    """
    source = template.spec.metadata
    metadata: dict[str, Any] = {
        "generateName": generate_name(owner.name, pod_claim_name),
        "annotations": {**source.annotations, POD_CLAIM_NAME: pod_claim_name},
        "ownerReferences": [
            {
                "apiVersion": kind.api_version,
                "kind": kind.name,
                "name": owner.name,
                "uid": uid,
                "controller": True,
            }
        ],
    }
    if source.labels:
        metadata["labels"] = source.labels
    return {"metadata": metadata, "spec": template.spec.spec}


async def record_claims(
    kind: Kind, key: Key, owner: ClaimOwner, ensure: Ensure, writer: Writer
) -> bool:
    """
    Record the claims that `ensure` returns for the entries; return whether any is new.

    One apply records all. The first error is reported as an Event and raised, and no claim is
    recorded (RC-35, RC-54): claims created before it are found by the next sync.
    """
    names: dict[str, str] = {}
    for pod_claim in owner.resource_claims:
        try:
            name = await ensure(pod_claim)
        except Exception as error:
            message = f"{kind.name}ResourceClaim {pod_claim.name}: {event_message(error)}"
            writer.event(kind, key, reason=REASON, message=message, component=COMPONENT)
            raise
        if name is not None:
            names[pod_claim.name] = name
    if names:
        statuses = statuses_to_apply(owner.resource_claim_statuses, names)
        body = {"status": {"resourceClaimStatuses": statuses}}
        await writer.apply(kind, key, body, field_manager=FIELD_MANAGER, subresource="status")
    return bool(names)


async def ensure_pod_claim(
    key: Key,
    pod: Pod,
    pod_claim: PodClaim,
    group: tuple[Key, PodGroup] | None,
    cache: CacheReader,
    writer: Writer,
) -> str | None:
    """
    Return the claim to record for an entry of a pod; None when there is nothing new to record.

    A missing claim is created, but not that of a PodGroup: the sync of the PodGroup creates it and
    queues the pod (RC-40). Raises `ReconcileError`, also as `TerminalError`.
    """
    workload_claims = cache.api.workload_claims

    def is_own(claim: Claim) -> bool:
        return is_for_pod(claim, pod, workload_claims=workload_claims)

    if not await _needs_claim(
        key, owner=pod, pod_claim=pod_claim, is_own=is_own, cache=cache, writer=writer
    ):
        return None
    target = binding_target(key, pod, pod_claim, group=group)
    if target.is_pod_group and not workload_claims:
        raise TerminalError(NO_WORKLOAD_CLAIMS.format(entry=pod_claim.name))
    found = cache.find_claim(key.namespace, target.uid, pod_claim.name)
    if found is not None or target.is_pod_group:
        return found
    return await _create_claim(
        POD, key=key, uid=pod.uid, pod_claim=pod_claim, cache=cache, writer=writer
    )


async def ensure_group_claim(
    key: Key, group: PodGroup, pod_claim: PodClaim, kind: Kind, cache: CacheReader, writer: Writer
) -> str | None:
    """Return as `ensure_pod_claim`, for an entry of a PodGroup (RC-51 to RC-53)."""

    def is_own(claim: Claim) -> bool:
        return is_for_group(claim, group)

    if not await _needs_claim(
        key, owner=group, pod_claim=pod_claim, is_own=is_own, cache=cache, writer=writer
    ):
        return None
    found = cache.find_claim(key.namespace, group.uid, pod_claim.name)
    return found or await _create_claim(
        kind, key=key, uid=group.uid, pod_claim=pod_claim, cache=cache, writer=writer
    )


async def _needs_claim(
    key: Key,
    owner: ClaimOwner,
    pod_claim: PodClaim,
    is_own: Callable[[Claim], bool],
    cache: CacheReader,
    writer: Writer,
) -> bool:
    """Return whether a claim has to be found or created: never for an entry that names one."""
    match resolve_claim(pod_claim, owner.resource_claim_statuses):
        case Unresolved.UNSUPPORTED:
            raise ReconcileError(CHECKING + UNSUPPORTED_ENTRY.format(entry=pod_claim.name))
        case Unresolved.NOT_NEEDED | ResolvedClaim(generated=False):
            return False
        case ResolvedClaim(name) if name:
            claim = await _recorded_claim(Key(name, key.namespace), cache, writer)
            if claim is not None and is_own(claim):
                return False
            if claim is not None:
                pairs = {"owner": str(key), "entry": pod_claim.name, "claim": name}
                log.info("recorded claim owned by another object", extra={"kv": pairs})
    return True


async def _recorded_claim(key: Key, cache: CacheReader, writer: Writer) -> Claim | None:
    """Return a recorded claim; the server is asked only when no cache has it (RC-36)."""
    claim = cache.claim_or_created(key)
    if claim is not None:
        return claim
    try:
        found = await writer.read(cache.api.claims, key)
    except HostError as error:
        raise ReconcileError(CHECKING + server_message(error)) from error
    cache.relies_on_live_read |= found is not None
    return decode_object(found, Claim) if found is not None else None


async def _create_claim(
    kind: Kind, key: Key, uid: str, pod_claim: PodClaim, cache: CacheReader, writer: Writer
) -> str:
    """Create the claim for an entry of an object of `kind` from its template; return its name."""
    name = pod_claim.resource_claim_template_name or ""
    template = cache.template(Key(name, key.namespace))
    if template is None:
        raise ReconcileError(NO_TEMPLATE.format(name=name))
    spec = template.claim_spec()
    _check_features(spec, cache)
    body = new_claim(template, pod_claim_name=pod_claim.name, kind=kind, owner=key, uid=uid)
    count = partial(cache.state.creations.increment, kind, admin_access=spec.has_admin_access)
    with cache.creating(uid):
        try:
            response = await writer.create(cache.api.claims, body, namespace=key.namespace)
        except HostError as error:
            count(success=False)
            raise ReconcileError(CREATE + server_message(error)) from error
        count(success=True)
        created: str = response["metadata"]["name"]
        cache.add_created(
            Key(created, key.namespace),
            decode_object(response, Claim),
            response["metadata"]["resourceVersion"],
        )
    return created


def _check_features(spec: ClaimSpec, cache: CacheReader) -> None:
    """Raise `ReconcileError` when the claim needs a feature that is switched off (RC-39)."""
    if spec.has_admin_access and not cache.api.admin_access:
        raise ReconcileError(NO_ADMIN_ACCESS)
    if spec.has_prioritized_list and not cache.api.prioritized_list:
        raise ReconcileError(NO_PRIORITIZED_LIST)
