"""The informers' caches and the controller's own state, as a sync reads them."""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kcm_host.api import Key, View
from kcm_host_resourceclaim.api_version import ServedApi
from kcm_host_resourceclaim.events_metrics import (
    NO_GENERIC_WORKLOAD,
    NO_POD_GROUP,
    ClaimCounts,
    CreationCounter,
    ReconcileError,
    TerminalError,
)
from kcm_host_resourceclaim.models.claim import (
    Claim,
    Template,
    group_reference,
    owner_value,
    pod_reference,
    with_decoded_status,
)
from kcm_host_resourceclaim.models.pod import POD, Pod, PodGroup
from kcm_host_resourceclaim.mutation_cache import MutationCache

#: The names of the indexes, as the watches declare them.
BY_CLAIM, BY_TEMPLATE, BY_GROUP = "claim", "template", "group"
BY_OWNER, BY_REFERENCE = "owner", "reference"


class UidCache:
    """UIDs of deleted objects; the least recently used one is evicted first (RC-16)."""

    def __init__(self, capacity: int = 500) -> None:
        self._capacity = capacity
        self._uids: OrderedDict[str, None] = OrderedDict()

    def add(self, uid: str) -> None:
        """Add a UID, and evict one when the capacity is exceeded."""
        self._uids[uid] = None
        self._uids.move_to_end(uid)
        if len(self._uids) > self._capacity:
            self._uids.popitem(last=False)

    def __contains__(self, uid: str) -> bool:
        if uid not in self._uids:
            return False
        self._uids.move_to_end(uid)
        return True

    def __len__(self) -> int:
        return len(self._uids)


@dataclass(frozen=True, slots=True)
class State:
    """The state of one start of the controller; a restart begins with an empty one (RC-7)."""

    created: MutationCache = field(default_factory=MutationCache)
    #: Pods and PodGroups whose deletion was observed (RC-16).
    deleted_uids: UidCache = field(default_factory=UidCache)
    #: Deleted claims whose last finalizer was removed by this controller. The response to that
    #: write has no newer version than the cache, so nothing else shows that they are gone already.
    finalized: UidCache = field(default_factory=UidCache)
    #: UIDs of pods and PodGroups for which a create request is in flight.
    creating: set[str] = field(default_factory=set)
    claim_counts: ClaimCounts = field(default_factory=ClaimCounts)
    creations: CreationCounter = field(default_factory=CreationCounter)


class CacheReader:
    """
    Reads by name and by reference for one sync; no request is ever made.

    Reading an object of which no version could be decoded raises `Undecodable`.
    """

    def __init__(self, view: View, api: ServedApi, state: State) -> None:
        #: Set by a sync that changed nothing because of an object which only the server has. When
        #: that object is deleted while its watch is interrupted, no cache ever shows the deletion.
        self.relies_on_live_read = False
        self.api = api
        self.state = state
        self._view = view

    def pod(self, key: Key) -> Pod | None:
        """Return a pod."""
        return self._view.of(POD, Pod).get(key.name, key.namespace)

    def group(self, key: Key) -> PodGroup | None:
        """Return a PodGroup; None also when PodGroups are not watched."""
        if self.api.groups is None:
            return None
        return self._view.of(self.api.groups, PodGroup).get(key.name, key.namespace)

    def template(self, key: Key) -> Template | None:
        """Return a template."""
        return self._view.of(self.api.templates, Template).get(key.name, key.namespace)

    def claim(self, key: Key) -> Claim | None:
        """Return a claim from the informer's cache."""
        return self._view.of(self.api.claims, Claim).get(key.name, key.namespace)

    def full_claim(self, key: Key, expected: Claim) -> dict[str, Any] | None:
        """
        Return the full claim for an update, if it still equals `expected`.

        Its status is a dict of raw fields. None: the claim was changed or deleted while the sync
        waited. The change was delivered, so the sync may end: the key is queued again when there is
        something to do.
        """
        if self.claim(key) != expected:
            return None
        full = self._view.of(self.api.claims, Claim).full_object(key.name, key.namespace)
        return with_decoded_status(full) if full is not None else None

    def claim_or_created(self, key: Key) -> Claim | None:
        """Return a claim, also one just created that the informer does not have yet (RC-15)."""
        return self.state.created.get(key) or self.claim(key)

    @contextmanager
    def creating(self, uid: str) -> Iterator[None]:
        """Mark the owner with this UID as one for which a create request is in flight."""
        self.state.creating.add(uid)
        try:
            yield
        finally:
            self.state.creating.discard(uid)

    def add_created(self, key: Key, claim: Claim, resource_version: str) -> None:
        """Add a claim just created, unless the informer's cache has it already."""
        cached = self.claim(key)
        if cached is None or cached.uid != claim.uid:
            self.state.created.add(key, claim, resource_version)

    def find_claim(self, namespace: str, uid: str, pod_claim_name: str) -> str | None:
        """
        Return the name of a claim that was made for an entry of the owner with this UID.

        Claims just created are included; the claim's own name is ignored (RC-38, RC-40, RC-52).
        """
        owner = owner_value(namespace, uid)
        created = dict(self.state.created.by_owner(owner))
        cached = dict(self._view.of(self.api.claims, Claim).by_index(BY_OWNER, owner))
        found = {**cached, **created}
        names = (key.name for key, claim in found.items() if claim.pod_claim_name == pod_claim_name)
        # The oldest of several is not known; the first by name is the same at every sync.
        return min(names, default=None)

    def group_of(self, key: Key, pod: Pod) -> tuple[Key, PodGroup] | None:
        """
        Return the PodGroup of a pod, None when it belongs to none (1.7).

        Raises `TerminalError` when PodGroups are switched off, `ReconcileError` when it is missing.
        """
        name = pod.pod_group_name
        if not name:
            return None
        if self.api.groups is None:
            raise TerminalError(NO_GENERIC_WORKLOAD.format(group=name))
        group_key = Key(name, key.namespace)
        group = self.group(group_key)
        if group is None:
            raise ReconcileError(NO_POD_GROUP.format(group=name, namespace=key.namespace))
        return group_key, group

    def pods_by(self, index: str, key: Key) -> Iterator[tuple[Key, Pod]]:
        """Return the pods that reference a claim, template or PodGroup of their namespace."""
        return self._view.of(POD, Pod).by_index(index, str(key))

    def groups_by(self, index: str, key: Key) -> Iterator[tuple[Key, PodGroup]]:
        """Return the PodGroups that reference a claim or template; none without workload claims."""
        if self.api.groups is None or not self.api.workload_claims:
            return iter(())
        return self._view.of(self.api.groups, PodGroup).by_index(index, str(key))

    def claims_referencing_pod(self, key: Key) -> Iterator[tuple[Key, Claim]]:
        """Return the claims with a consumer or owning pod of this name."""
        return self._view.of(self.api.claims, Claim).by_index(BY_REFERENCE, pod_reference(key))

    def claims_referencing_group(self, key: Key) -> Iterator[tuple[Key, Claim]]:
        """Return the claims with a consuming PodGroup of this name."""
        return self._view.of(self.api.claims, Claim).by_index(BY_REFERENCE, group_reference(key))

    def pods(self) -> Iterator[tuple[Key, Pod]]:
        """Return all pods."""
        return self._view.of(POD, Pod).items()

    def claim_count(self) -> int:
        """Return the number of claims on the server."""
        return len(self._view.of(self.api.claims, Claim))

    def claims(self) -> Iterator[tuple[Key, Claim]]:
        """Return all claims."""
        return self._view.of(self.api.claims, Claim).items()

    def groups(self) -> Iterator[tuple[Key, PodGroup]]:
        """Return all PodGroups; none without workload claims."""
        if self.api.groups is None or not self.api.workload_claims:
            return iter(())
        return self._view.of(self.api.groups, PodGroup).items()
