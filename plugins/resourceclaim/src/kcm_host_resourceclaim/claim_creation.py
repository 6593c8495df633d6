"""Claims made from templates: found or created for each entry, and recorded in the status."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any

from kcm_host.api import HostError, Key, Kind, Writer, decode_object
from kcm_host_resourceclaim.cache import Known
from kcm_host_resourceclaim.errors import (
    CHECKING,
    CREATE,
    NO_ADMIN_ACCESS,
    NO_ALTERNATIVES,
    NO_GROUP_CLAIMS,
    NO_TEMPLATE,
    UNEXPECTED,
    UNKNOWN_ENTRY,
    PermanentProblem,
    Problem,
    server_message,
)
from kcm_host_resourceclaim.models.claim import POD_CLAIM_NAME, Claim, ClaimSpec, Template
from kcm_host_resourceclaim.models.pod import (
    POD,
    Entry,
    Holder,
    Named,
    Pod,
    PodGroup,
    Unnamed,
    records_to_apply,
    resolve,
)
from kcm_host_resourceclaim.reservation import binding_target, is_for_group, is_for_pod

log = logging.getLogger(__name__)


#: The server appends 5 characters, and the result is to fit a DNS label of 63, with one in hand.
LONGEST_BASE = 57


def generate_name(owner: str, entry: str) -> str:
    """
    Give the `generateName` for an entry of a pod or PodGroup (RC-45).

    Where both names are too long they shrink in proportion, each to one character at least
    (D-12), and the hyphen at the end is left out.
    """
    length = len(owner) + len(entry) + 2
    if length <= LONGEST_BASE:
        return f"{owner}-{entry}-"
    owner_part = len(owner) * LONGEST_BASE // length
    entry_part = len(entry) * LONGEST_BASE // length
    if owner_part == 0:
        owner_part, entry_part = 1, entry_part - 1
    elif entry_part == 0:
        owner_part, entry_part = owner_part - 1, 1
    return f"{owner[:owner_part]}-{entry[:entry_part]}"


def new_claim(
    template: Template, *, entry: str, kind: Kind, owner: Key, uid: str
) -> dict[str, Any]:
    """
    Give the body of the claim for an entry of `owner`, an object of `kind` (RC-44).

    It gets no finalizer: the scheduler adds its own when it allocates. The template stays as
    it is.
    """
    labels = template.spec.metadata
    metadata: dict[str, Any] = {
        "generateName": generate_name(owner.name, entry),
        "annotations": {**labels.annotations, POD_CLAIM_NAME: entry},
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
    if labels.labels:
        metadata["labels"] = labels.labels
    return {"metadata": metadata, "spec": template.spec.spec}


FIELD_MANAGER = "ResourceClaimController"
COMPONENT = "resource_claim"
REASON = "FailedResourceClaimCreation"


async def record_claims(
    kind: Kind,
    key: Key,
    holder: Holder,
    find: Callable[[Entry], Awaitable[str | None]],
    writer: Writer,
) -> bool:
    """
    Record what `find` gives for the entries, in one apply; say whether there was anything new.

    The first problem is told to users and raised, and nothing is recorded (RC-35, RC-54): claims
    that were made before it stay, and are found at the next sync.
    """
    names = await _new_names(kind, key, holder.entries, find, writer)
    if names:
        records = records_to_apply(holder.recorded, names)
        body = {"status": {"resourceClaimStatuses": records}}
        await writer.apply(kind, key, body, field_manager=FIELD_MANAGER, subresource="status")
    return bool(names)


async def _new_names(
    kind: Kind,
    key: Key,
    entries: Iterable[Entry],
    find: Callable[[Entry], Awaitable[str | None]],
    writer: Writer,
) -> Mapping[str, str]:
    names: dict[str, str] = {}
    for entry in entries:
        try:
            name = await find(entry)
        except Exception as problem:
            _tell_users(writer, kind, key, entry, problem)
            raise
        if name is not None:
            names[entry.name] = name
    return names


def _tell_users(writer: Writer, kind: Kind, key: Key, entry: Entry, problem: Exception) -> None:
    """Record on a pod or PodGroup why the claim of an entry cannot be made (RC-70)."""
    match problem:
        case HostError():
            cause = server_message(problem)
        case Problem():
            cause = str(problem)
        case _:
            cause = UNEXPECTED.format(sort=type(problem).__name__, error=problem)
    message = f"{kind.name}ResourceClaim {entry.name}: {cause}"
    writer.event(kind, key, reason=REASON, message=message, component=COMPONENT)


async def new_name_for_pod(
    key: Key,
    pod: Pod,
    entry: Entry,
    group: tuple[Key, PodGroup] | None,
    known: Known,
    writer: Writer,
) -> str | None:
    """
    Give the claim to record for an entry of a pod; None when there is nothing new to record.

    Makes the claim where there is none. That of a PodGroup is only looked for: the group's own
    sync makes it, and wakes the pod (RC-40). Raises `Problem`, also as `PermanentProblem`.
    """
    group_claims = known.api.group_claims

    def is_own(claim: Claim) -> bool:
        return is_for_pod(claim, pod, group_claims=group_claims)

    if not await _lacks_claim(key, pod, entry, is_own, known, writer):
        return None
    target = binding_target(key, pod, entry, group)
    if target.is_pod_group and not group_claims:
        raise PermanentProblem(NO_GROUP_CLAIMS.format(entry=entry.name))
    found = known.claim_for_entry(key.namespace, target.uid, entry.name)
    if found is not None or target.is_pod_group:
        return found
    return await _create(POD, key, pod.uid, entry, known, writer)


async def new_name_for_group(
    key: Key, group: PodGroup, entry: Entry, kind: Kind, known: Known, writer: Writer
) -> str | None:
    """As `new_name_for_pod`, for an entry of a PodGroup (RC-51 to RC-53)."""

    def is_own(claim: Claim) -> bool:
        return is_for_group(claim, group)

    if not await _lacks_claim(key, group, entry, is_own, known, writer):
        return None
    found = known.claim_for_entry(key.namespace, group.uid, entry.name)
    return found or await _create(kind, key, group.uid, entry, known, writer)


async def _lacks_claim(
    key: Key,
    holder: Holder,
    entry: Entry,
    is_own: Callable[[Claim], bool],
    known: Known,
    writer: Writer,
) -> bool:
    """Whether a claim is to be found or made: never for an entry that names one itself."""
    match resolve(entry, holder.recorded):
        case Unnamed.UNSUPPORTED:
            raise Problem(CHECKING + UNKNOWN_ENTRY.format(entry=entry.name))
        case Unnamed.SKIPPED | Named(generated=False):
            return False
        case Named(name) if name:
            claim = await _existing(Key(name, key.namespace), known, writer)
            if claim is not None and is_own(claim):
                return False
            if claim is not None:
                pairs = {"owner": str(key), "entry": entry.name, "claim": name}
                log.info("recorded claim is for somebody else", extra={"kv": pairs})
    return True


async def _existing(key: Key, known: Known, writer: Writer) -> Claim | None:
    """Give a recorded claim; the server is asked only about one that nobody here knows (RC-36)."""
    claim = known.claim_or_created(key)
    if claim is not None:
        return claim
    try:
        found = await writer.read(known.api.claims, key)
    except HostError as error:
        raise Problem(CHECKING + server_message(error)) from error
    known.relies_on_server |= found is not None
    return decode_object(found, Claim) if found is not None else None


async def _create(
    kind: Kind, key: Key, uid: str, entry: Entry, known: Known, writer: Writer
) -> str:
    """Make the claim for an entry of an object of `kind` from its template, and give its name."""
    name = entry.resource_claim_template_name or ""
    template = known.template(Key(name, key.namespace))
    if template is None:
        raise Problem(NO_TEMPLATE.format(name=name))
    spec = template.claim_spec()
    _check_allowed(spec, known)
    body = new_claim(template, entry=entry.name, kind=kind, owner=key, uid=uid)
    count = partial(known.memory.creations.count, kind, admin_access=spec.asks_for_admin_access)
    with known.creating(uid):
        try:
            answer = await writer.create(known.api.claims, body, namespace=key.namespace)
        except HostError as error:
            count(success=False)
            raise Problem(CREATE + server_message(error)) from error
        count(success=True)
        created: str = answer["metadata"]["name"]
        known.remember_created(
            Key(created, key.namespace),
            decode_object(answer, Claim),
            answer["metadata"]["resourceVersion"],
        )
    return created


def _check_allowed(spec: ClaimSpec, known: Known) -> None:
    """Refuse what a feature that is switched off would need (RC-39)."""
    if spec.asks_for_admin_access and not known.api.admin_access:
        raise Problem(NO_ADMIN_ACCESS)
    if spec.has_alternatives and not known.api.prioritized_list:
        raise Problem(NO_ALTERNATIVES)
