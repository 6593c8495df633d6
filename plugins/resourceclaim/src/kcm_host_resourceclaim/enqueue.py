"""From changes in the caches to the keys of the work queue (section 4 of the rules)."""

from collections.abc import Iterable, Iterator

from kcm_host.api import Change, Key, Undecodable, View
from kcm_host_resourceclaim.api_version import ServedApi
from kcm_host_resourceclaim.cache import BY_CLAIM, BY_GROUP, BY_TEMPLATE, CacheReader, State
from kcm_host_resourceclaim.events_metrics import ReconcileError
from kcm_host_resourceclaim.models.claim import (
    Claim,
    OwnerReference,
    Template,
    is_for_group,
    is_for_pod,
)
from kcm_host_resourceclaim.models.pod import (
    Pod,
    PodClaim,
    PodGroup,
    ResolvedClaim,
    Unresolved,
    resolve_claim,
)
from kcm_host_resourceclaim.reservation import (
    binding_target,
    claim_needs_sync,
    needs_reservation,
)

POD_KEY, CLAIM_KEY, GROUP_KEY = "pod", "claim", "podgroup"


class EnqueueHandlers:
    """
    The handlers of changes; each returns the keys to queue.

    A key is queued only when its sync would do something, judged on the new state alone. Nothing is
    queued until all caches are synced, because nothing could be judged; then every object is judged
    once (RC-4, RC-7).
    """

    def __init__(self, api: ServedApi, state: State) -> None:
        self._api = api
        self._state = state
        self._synced = False

    def on_synced(self, view: View) -> Iterable[Key]:
        """Return the keys of all objects to sync; from now on changes are judged one by one."""
        self._synced = True
        cache = self._cache(view)
        keys = _claim_keys(cache.claims(), cache)
        for key, pod in cache.pods():
            keys += _pod_keys(key, pod, cache)
        for key, group in cache.groups():
            keys += _group_keys(key, group, cache)
        return keys

    def on_pod(self, change: Change[Pod], view: View) -> Iterable[Key]:
        """
        Queue the pod, and the claims whose sync depends on its creation, end or deletion.

        The claims are found by their consumers and owners: a pod may be a consumer of a claim that
        its spec does not name.
        """
        old, new = change.old, change.new
        if old is None and not self._synced:
            return ()
        cache, keys = self._cache(view), []
        if _uid_and_done(old) != _uid_and_done(new) and self._synced:
            keys = _claim_keys(cache.claims_referencing_pod(change.key), cache)
        # Most pods have no entries and no claim references them: they are not added.
        if old is not None and _is_gone(old, new) and (old.resource_claims or keys):
            self._state.deleted_uids.add(old.uid)
        if new is not None and self._synced:
            keys += _pod_keys(change.key, new, cache)
        return keys

    def on_claim(self, change: Change[Claim], view: View) -> Iterable[Key]:
        """Queue the claim, and the pods and PodGroups that reference or own it (RC-22 to RC-24)."""
        old, new, created = change.old, change.new, self._state.created
        self._state.claim_counts.update(change.key, new)
        # Before anything is judged: a deleted claim must not be taken for a new one (D-2).
        if old is not None and _is_gone(old, new):
            created.on_delete(change.key, old.uid, change.resource_version)
        own = created.get(change.key)
        if new is not None:
            created.on_update(change.key, change.resource_version)
        if not self._synced:
            return ()
        cache = self._cache(view)
        keys = list(_referrer_keys(BY_CLAIM, change.key, cache))
        # A failing sync may have created it without recording it, so no name leads to its owner.
        if old is not None and (new is None or _ownership(old) != _ownership(new)):
            keys += _owner_keys(change.key, old.metadata.owner_references, cache)
        if new is not None:
            keys += _claim_keys(((change.key, new),), cache)
            # The owner of a claim that this controller created needs no sync because of it.
            if own is None or own.uid != new.uid:
                owners = new.metadata.owner_references
                in_flight = self._state.creating
                waiting = [owner for owner in owners if owner.uid not in in_flight]
                keys += _owner_keys(change.key, waiting, cache)
        return keys

    def on_template(self, change: Change[Template], view: View) -> Iterable[Key]:
        """Queue the pods and PodGroups that wait for the template (RC-25, RC-26)."""
        if not self._synced or change.new is None:
            return ()
        return list(_referrer_keys(BY_TEMPLATE, change.key, self._cache(view)))

    def on_group(self, change: Change[PodGroup], view: View) -> Iterable[Key]:
        """Queue the PodGroup, its pods, and the claims reserved for it (RC-27 to RC-30)."""
        old, new = change.old, change.new
        cache, keys = self._cache(view), []
        is_other = old is None or _is_gone(old, new)
        if self._api.workload_claims and is_other and self._synced:
            keys = _claim_keys(cache.claims_referencing_group(change.key), cache)
        if old is not None and is_other and (old.resource_claims or keys):
            self._state.deleted_uids.add(old.uid)
        return keys + _group_keys(change.key, new, cache) if self._synced else ()

    def _cache(self, view: View) -> CacheReader:
        return CacheReader(view, self._api, self._state)


def pod_needs_sync(key: Key, pod: Pod, cache: CacheReader) -> bool:
    """
    Return whether an entry of the pod has no claim, or a claim is not reserved for it (RC-21).

    A pod that has ended needs no sync (D-1): claims made for it would be deleted again.
    """
    entries = pod.resource_claims
    # First, because most pods have none.
    if not entries or pod.deleting or pod.terminal:
        return False
    return any(_entry_needs_sync(key, pod, pod_claim, cache=cache) for pod_claim in entries)


def group_needs_sync(key: Key, group: PodGroup, cache: CacheReader) -> bool:
    """Return whether an entry of the PodGroup has no claim (RC-29)."""
    if group.deleting:
        return False
    entries = group.resource_claims
    return any(_group_entry_needs_sync(key, group, pod_claim, cache=cache) for pod_claim in entries)


def _entry_needs_sync(key: Key, pod: Pod, pod_claim: PodClaim, cache: CacheReader) -> bool:
    match resolve_claim(pod_claim, pod.resource_claim_statuses):
        case Unresolved.NOT_NEEDED:
            return False
        case ResolvedClaim(name, generated):
            claim_key = Key(name, key.namespace)
        case _:
            return True
    try:
        claim = cache.claim_or_created(claim_key)
    except Undecodable:
        return False
    workload_claims = cache.api.workload_claims
    if generated and (claim is None or not is_for_pod(claim, pod, workload_claims=workload_claims)):
        return _can_get_claim(key, pod, pod_claim, cache=cache)
    if claim is None or not pod.scheduled:
        return False
    return needs_reservation(claim, pod, workload_claims=workload_claims)


def _can_get_claim(key: Key, pod: Pod, pod_claim: PodClaim, cache: CacheReader) -> bool:
    """
    Return whether a sync of the pod would find or create the claim that an entry does not have.

    The claim of a PodGroup is only found. Also true when this cannot be decided: the sync then
    reports why.
    """
    try:
        target = binding_target(key, pod, pod_claim, group=cache.group_of(key, pod))
    except (ReconcileError, Undecodable):
        return True
    if target.is_pod or not cache.api.workload_claims:
        return True
    return cache.find_claim(key.namespace, target.uid, pod_claim.name) is not None


def _group_entry_needs_sync(
    key: Key, group: PodGroup, pod_claim: PodClaim, cache: CacheReader
) -> bool:
    match resolve_claim(pod_claim, group.resource_claim_statuses):
        case Unresolved.NOT_NEEDED:
            return False
        case ResolvedClaim(name, generated):
            try:
                claim = cache.claim_or_created(Key(name, key.namespace))
            except Undecodable:
                return False
            return generated and (claim is None or not is_for_group(claim, group))
    return True


def _is_gone(old: Pod | PodGroup | Claim, new: Pod | PodGroup | Claim | None) -> bool:
    """Return whether the old object is gone; one recreated under its name is another (D-11)."""
    return new is None or new.uid != old.uid


def _ownership(claim: Claim) -> tuple[tuple[OwnerReference, ...], str]:
    """Return the fields by which a claim is found for an entry of its owner."""
    return claim.metadata.owner_references, claim.pod_claim_name


def _uid_and_done(pod: Pod | None) -> tuple[str, bool] | None:
    """Return the state of a pod on which claims that reference its name depend."""
    return (pod.uid, pod.done) if pod is not None else None


def _claim_keys(claims: Iterable[tuple[Key, Claim]], cache: CacheReader) -> list[Key]:
    """Return the keys of the claims that need a sync."""
    return [
        Key(key.name, key.namespace, CLAIM_KEY)
        for key, claim in claims
        if _needs_sync(key, claim, cache)
    ]


def _needs_sync(key: Key, claim: Claim, cache: CacheReader) -> bool:
    """Return whether a claim needs a sync; true when it cannot be decided: the sync reports why."""
    try:
        return claim_needs_sync(key, claim, cache)
    except Undecodable:
        return True


def _pod_keys(key: Key, pod: Pod, cache: CacheReader) -> list[Key]:
    """Return the key of the pod if it needs a sync."""
    if pod_needs_sync(key, pod, cache):
        return [Key(key.name, key.namespace, POD_KEY)]
    return []


def _group_keys(key: Key, group: PodGroup | None, cache: CacheReader) -> list[Key]:
    """Return the keys of the PodGroup and of its pods, if they need a sync (RC-30)."""
    keys = []
    if cache.api.workload_claims and group is not None and group_needs_sync(key, group, cache):
        keys.append(Key(key.name, key.namespace, GROUP_KEY))
    for pod_key, pod in cache.pods_by(BY_GROUP, key):
        keys += _pod_keys(pod_key, pod, cache)
    return keys


def _referrer_keys(index: str, key: Key, cache: CacheReader) -> Iterator[Key]:
    """Return the keys of pods and PodGroups that reference an object and need a sync."""
    for pod_key, pod in cache.pods_by(index, key):
        yield from _pod_keys(pod_key, pod, cache)
    for group_key, group in cache.groups_by(index, key):
        yield from _group_keys(group_key, group, cache)


def _owner_keys(key: Key, owners: Iterable[OwnerReference], cache: CacheReader) -> list[Key]:
    """
    Return the keys of those owners of a claim that need a sync.

    A claim is found by its owner and annotation: an entry may wait for a new claim, and may lose
    a claim that gets another owner (RC-38, RC-40, RC-52).
    """
    keys: list[Key] = []
    for owner in owners:
        keys += _keys_of_owner(Key(owner.name, key.namespace), owner, cache)
    return keys


def _keys_of_owner(key: Key, owner: OwnerReference, cache: CacheReader) -> list[Key]:
    """Return the keys for one owner; an undecodable one is queued when it can be decoded again."""
    try:
        if owner.is_controlling_pod:
            pod = cache.pod(key)
            return _pod_keys(key, pod, cache) if pod and pod.uid == owner.uid else []
        if owner.controller and owner.is_pod_group and cache.api.workload_claims:
            return _group_keys(key, cache.group(key), cache)
    except Undecodable:
        pass
    return []
