"""Find or make the claims of all entries, record them in the status, and tell of trouble."""

from collections.abc import Awaitable, Callable, Iterable, Mapping

from kcm_host.api import HostError, Key, Kind, Writer
from kcm_host_resourceclaim.entries import Entry, Holder, records_to_apply
from kcm_host_resourceclaim.problems import UNEXPECTED, Problem, server_message

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
