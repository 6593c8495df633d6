"""From changes in the stores to the keys of work (section 4 of the rules)."""

from collections.abc import Iterable, Iterator

from kcm_host.api import Change, Key, Undecodable, View
from kcm_host_resourceclaim.claim import Claim
from kcm_host_resourceclaim.consumers import is_settled
from kcm_host_resourceclaim.entries import claim_names
from kcm_host_resourceclaim.known import BY_CLAIM, BY_GROUP, BY_TEMPLATE, Known
from kcm_host_resourceclaim.memory import Memory
from kcm_host_resourceclaim.needs import group_needs_work, pod_needs_work
from kcm_host_resourceclaim.pod import Pod
from kcm_host_resourceclaim.podgroup import PodGroup
from kcm_host_resourceclaim.served import Api
from kcm_host_resourceclaim.template import Template

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
        keys = [_claim_key(key) for key, claim in known.claims() if _needs_sync(key, claim, known)]
        for key, pod in known.pods():
            keys += _keys_of_pod(key, pod, known)
        for key, group in known.groups():
            keys += _keys_of_group(key, group, known)
        return keys

    def pod(self, change: Change[Pod], view: View) -> Iterable[Key]:
        """
        Queue the claims of a pod that is done or gone, and a pod that needs work (RC-17 to RC-20).

        A pod made anew under its name while the watch was away is the end of the old one (D-11).
        """
        old, new = change.old, change.new
        keys: list[Key] = []
        if old is not None and old.concerns_claims and (new is None or new.uid != old.uid):
            self._memory.removed.add(old.uid)
            keys += _claim_keys(change.key, old)
        if self._unsynced:
            return ()
        if new is not None and new.concerns_claims:
            keys += _keys_of_pod(change.key, new, self._known(view))
        return keys

    def claim(self, change: Change[Claim], view: View) -> Iterable[Key]:
        """Queue a claim that needs a sync, and who refers to it and needs work (RC-22 to RC-24)."""
        old, new, created = change.old, change.new, self._memory.created
        # Before anything is judged: a deleted claim must not be taken for a new one (D-2).
        if old is not None and (new is None or new.uid != old.uid):
            created.gone(change.key, old.uid, change.version)
        if new is not None:
            created.seen(change.key, change.version)
        if self._unsynced:
            return ()
        known = self._known(view)
        keys = list(_waiting_for(BY_CLAIM, change.key, known))
        if new is not None and _needs_sync(change.key, new, known):
            keys.append(_claim_key(change.key))
        return keys

    def template(self, change: Change[Template], view: View) -> Iterable[Key]:
        """Queue who waits for the template (RC-25, RC-26)."""
        if self._unsynced or change.new is None:
            return ()
        return list(_waiting_for(BY_TEMPLATE, change.key, self._known(view)))

    def group(self, change: Change[PodGroup], view: View) -> Iterable[Key]:
        """Queue a PodGroup that needs work, claims of one that is gone, its pods (RC-27 to 30)."""
        old, new = change.old, change.new
        if not self._api.group_claims or not any(each.entries for each in (old, new) if each):
            return ()
        keys: list[Key] = []
        if old is not None and (new is None or new.uid != old.uid):
            self._memory.removed.add(old.uid)
            keys += [_claim_key(Key(name, change.key.namespace)) for name in claim_names(old)]
        if self._unsynced:
            return ()
        return keys + _keys_of_group(change.key, new, self._known(view))

    def _known(self, view: View) -> Known:
        return Known(view, self._api, self._memory)


def _keys_of_pod(key: Key, pod: Pod, known: Known) -> list[Key]:
    keys = _claim_keys(key, pod) if pod.done else []
    if pod_needs_work(key, pod, known):
        keys.append(Key(key.name, key.namespace, POD_KEY))
    return keys


def _claim_keys(key: Key, pod: Pod) -> list[Key]:
    names = list(claim_names(pod))
    if pod.extended_claim:
        names.append(pod.extended_claim)
    return [_claim_key(Key(name, key.namespace)) for name in names]


def _keys_of_group(key: Key, group: PodGroup | None, known: Known) -> list[Key]:
    """Give the group's own key, and those of its pods in any case (RC-30)."""
    keys = []
    if group is not None and group_needs_work(key, group, known):
        keys.append(Key(key.name, key.namespace, GROUP_KEY))
    for pod_key, pod in known.pods_by(BY_GROUP, key):
        keys += _keys_of_pod(pod_key, pod, known)
    return keys


def _waiting_for(index: str, key: Key, known: Known) -> Iterator[Key]:
    """
    Give the keys of pods and PodGroups that refer to something and need work.

    The other claims of a pod that is done are no matter: they were queued when it was done.
    """
    for pod_key, pod in known.pods_by(index, key):
        if pod_needs_work(pod_key, pod, known):
            yield Key(pod_key.name, pod_key.namespace, POD_KEY)
    for group_key, group in known.groups_by(index, key):
        yield from _keys_of_group(group_key, group, known)


def _needs_sync(key: Key, claim: Claim, known: Known) -> bool:
    try:
        return not is_settled(key, claim, known)
    except Undecodable:
        return True


def _claim_key(key: Key) -> Key:
    return Key(key.name, key.namespace, CLAIM_KEY)
