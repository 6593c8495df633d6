"""From changes in the caches to the keys of the work queue (section 4 of the rules)."""

from collections.abc import Iterable, Iterator

from kcm_host.api import Change, Key, Undecodable, View
from kcm_host_resourceclaim.api_version import Api
from kcm_host_resourceclaim.cache import BY_CLAIM, BY_GROUP, BY_TEMPLATE, Known, Memory
from kcm_host_resourceclaim.errors import Problem
from kcm_host_resourceclaim.models.claim import Claim, Owner, Template
from kcm_host_resourceclaim.models.pod import Entry, Named, Pod, PodGroup, Unnamed, resolve
from kcm_host_resourceclaim.reservation import (
    binding_target,
    is_for_group,
    is_for_pod,
    is_settled,
    needs_reservation,
)


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


POD_KEY, CLAIM_KEY, GROUP_KEY = "pod", "claim", "podgroup"


class Wakeups:
    """
    Says which keys to queue when something changed.

    Everything is judged on the new state alone. As long as one of the stores lacks its first
    list nothing is queued, for nothing could be judged; once all have it, everything is judged
    once (RC-4, RC-7).
    """

    def __init__(self, api: Api, memory: Memory, *, watches: int) -> None:
        """Begin with `watches` watches, each of which is to call `synced` once."""
        self._api = api
        self._memory = memory
        self._unsynced = watches

    def synced(self, view: View) -> Iterable[Key]:
        """Take note that one more store has its first list."""
        self._unsynced -= 1
        if self._unsynced:
            return ()
        known = self._known(view)
        keys = _unsettled(known.claims(), known)
        for key, pod in known.pods():
            keys += _keys_of_pod(key, pod, known)
        for key, group in known.groups():
            keys += _keys_of_group(key, group, known)
        return keys

    def pod(self, change: Change[Pod], view: View) -> Iterable[Key]:
        """
        Queue a pod that needs work, and the claims whose sync its end, coming or going decides.

        These are found by their consumers and owners: a pod may be a consumer of a claim that
        its spec does not name. Of a pod without claims there is nothing to find.
        """
        old, new = change.old, change.new
        known, keys = self._known(view), []
        if _fate(old) != _fate(new) and not self._unsynced:
            keys = _unsettled(known.claims_judged_by_pod(change.key), known)
        if old is not None and _is_other(old, new) and (old.entries or keys):
            self._memory.removed.add(old.uid)
        if new is not None and not self._unsynced:
            keys += _keys_of_pod(change.key, new, known)
        return keys

    def claim(self, change: Change[Claim], view: View) -> Iterable[Key]:
        """Queue a claim that needs a sync, and who refers to it and needs work (RC-22 to RC-24)."""
        old, new, created = change.old, change.new, self._memory.created
        self._memory.counts.changed(change.key, new)
        # Before anything is judged: a deleted claim must not be taken for a new one (D-2).
        if old is not None and _is_other(old, new):
            created.gone(change.key, old.uid, change.version)
        known_before = created.get(change.key)
        if new is not None:
            created.seen(change.key, change.version)
        if self._unsynced:
            return ()
        known = self._known(view)
        keys = list(_waiting_for(BY_CLAIM, change.key, known))
        # A failing sync may have made it and not recorded it, so no name leads to who lost it.
        if old is not None and (new is None or _made_for(old) != _made_for(new)):
            keys += _keys_of_owners(change.key, old.metadata.owner_references, known)
        if new is not None:
            keys += _unsettled(((change.key, new),), known)
            # Whoever created it just now knows it already.
            if known_before is None or known_before.uid != new.uid:
                owners = new.metadata.owner_references
                busy = self._memory.creating
                waiting = [owner for owner in owners if owner.uid not in busy]
                keys += _keys_of_owners(change.key, waiting, known)
        return keys

    def template(self, change: Change[Template], view: View) -> Iterable[Key]:
        """Queue who waits for the template (RC-25, RC-26)."""
        if self._unsynced or change.new is None:
            return ()
        return list(_waiting_for(BY_TEMPLATE, change.key, self._known(view)))

    def group(self, change: Change[PodGroup], view: View) -> Iterable[Key]:
        """Queue a PodGroup that needs work, claims of one that is gone, its pods (RC-27 to 30)."""
        old, new = change.old, change.new
        known, keys = self._known(view), []
        comes_or_goes = old is None or _is_other(old, new)
        if self._api.group_claims and comes_or_goes and not self._unsynced:
            keys = _unsettled(known.claims_judged_by_group(change.key), known)
        if old is not None and comes_or_goes and (old.entries or keys):
            self._memory.removed.add(old.uid)
        return keys + _keys_of_group(change.key, new, known) if not self._unsynced else ()

    def _known(self, view: View) -> Known:
        return Known(view, self._api, self._memory)


def _is_other(old: Pod | PodGroup | Claim, new: Pod | PodGroup | Claim | None) -> bool:
    """Whether the old object is gone; one made anew under its name is another (D-11)."""
    return new is None or new.uid != old.uid


def _made_for(claim: Claim) -> tuple[tuple[Owner, ...], str]:
    """Return all by which a claim is found for an entry of its owner."""
    return claim.metadata.owner_references, claim.pod_claim_name


def _fate(pod: Pod | None) -> tuple[str, bool] | None:
    """Give all that claims are judged by of a pod with a certain name."""
    return (pod.uid, pod.done) if pod is not None else None


def _keys_of_pod(key: Key, pod: Pod, known: Known) -> list[Key]:
    if pod_needs_work(key, pod, known):
        return [Key(key.name, key.namespace, POD_KEY)]
    return []


def _keys_of_group(key: Key, group: PodGroup | None, known: Known) -> list[Key]:
    """Give the group's own key, and those of its pods in any case (RC-30)."""
    keys = []
    makes_claims = known.api.group_claims
    if makes_claims and group is not None and group_needs_work(key, group, known):
        keys.append(Key(key.name, key.namespace, GROUP_KEY))
    for pod_key, pod in known.pods_by(BY_GROUP, key):
        keys += _keys_of_pod(pod_key, pod, known)
    return keys


def _waiting_for(index: str, key: Key, known: Known) -> Iterator[Key]:
    """Give the keys of pods and PodGroups that refer to something and need work."""
    for pod_key, pod in known.pods_by(index, key):
        yield from _keys_of_pod(pod_key, pod, known)
    for group_key, group in known.groups_by(index, key):
        yield from _keys_of_group(group_key, group, known)


def _keys_of_owners(key: Key, owners: Iterable[Owner], known: Known) -> list[Key]:
    """
    Return the keys of those owners of a claim that need work.

    A claim is found by its owner and annotation, so a new one may be what an entry waits for, and
    one that changes hands may be missed (RC-38, RC-40, RC-52).
    """
    keys: list[Key] = []
    for owner in owners:
        keys += _keys_of_owner(Key(owner.name, key.namespace), owner, known)
    return keys


def _keys_of_owner(key: Key, owner: Owner, known: Known) -> list[Key]:
    """Give the keys of one owner and, of a PodGroup, its pods; one that misfits tells later."""
    try:
        if owner.is_controlling_pod:
            pod = known.pod(key)
            return _keys_of_pod(key, pod, known) if pod and pod.uid == owner.uid else []
        if owner.controller and owner.is_pod_group and known.api.group_claims:
            return _keys_of_group(key, known.group(key), known)
    except Undecodable:
        pass
    return []


def _unsettled(claims: Iterable[tuple[Key, Claim]], known: Known) -> list[Key]:
    """Give the keys of those claims for which a sync would make a request."""
    return [
        Key(key.name, key.namespace, CLAIM_KEY)
        for key, claim in claims
        if _needs_sync(key, claim, known)
    ]


def _needs_sync(key: Key, claim: Claim, known: Known) -> bool:
    try:
        return not is_settled(key, claim, known)
    except Undecodable:
        return True
