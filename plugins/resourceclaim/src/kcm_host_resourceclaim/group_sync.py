"""The sync of a PodGroup: each of its entries gets a claim that its pods share."""

from kcm_host.api import Key, Writer
from kcm_host_resourceclaim.entries import Entry
from kcm_host_resourceclaim.finding import new_name_for_group
from kcm_host_resourceclaim.known import Known
from kcm_host_resourceclaim.recording import record_claims


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
