"""The informers' caches and the controller's own state, as a sync reads them."""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kcm_host.api import Key, View
from kcm_host_resourceclaim.api_version import Api
from kcm_host_resourceclaim.errors import NO_GROUP, NO_GROUPS, PermanentProblem, Problem
from kcm_host_resourceclaim.metrics import ClaimCounts, Creations
from kcm_host_resourceclaim.models.claim import Claim, Template, with_status
from kcm_host_resourceclaim.models.pod import POD, Pod, PodGroup
from kcm_host_resourceclaim.mutation_cache import CreatedClaims
from kcm_host_resourceclaim.ownership import group_value, owner_value, pod_value


class RecentUids:
    """
    UIDs of objects that are gone, to know it before the stores do or without asking the server.

    Finding a UID counts as use (RC-16).
    """

    def __init__(self, capacity: int = 500) -> None:
        self._capacity = capacity
        self._uids: OrderedDict[str, None] = OrderedDict()

    def add(self, uid: str) -> None:
        """Remember one more, and forget the one used longest ago when there are too many."""
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
class Memory:
    """Own creations, removed consumers, claims let go, and counts."""

    created: CreatedClaims = field(default_factory=CreatedClaims)
    #: Pods and PodGroups that were seen being removed (RC-16).
    removed: RecentUids = field(default_factory=RecentUids)
    #: Deleted claims whose last finalizer was removed here. The answer to that carries no newer
    #: version than the store has, so nothing else tells that they are gone already.
    let_go: RecentUids = field(default_factory=RecentUids)
    #: UIDs of pods and PodGroups for which a claim is being created at this moment.
    creating: set[str] = field(default_factory=set)
    counts: ClaimCounts = field(default_factory=ClaimCounts)
    creations: Creations = field(default_factory=Creations)


#: The names of the indexes, as the watches declare them.
BY_CLAIM, BY_TEMPLATE, BY_GROUP = "claim", "template", "group"
BY_OWNER, BY_JUDGE = "owner", "judge"


class Known:
    """
    Reads by name and by reference; no request is ever made. One for each sync.

    Reading an object that never fitted its model raises `Undecodable`.
    """

    def __init__(self, view: View, api: Api, memory: Memory) -> None:
        #: Set by a sync that left something as it is because of an object which only the server
        #: has. If that goes while its watch is away, no store ever tells.
        self.relies_on_server = False
        self.api = api
        self.memory = memory
        self._view = view

    def pod(self, key: Key) -> Pod | None:
        """Give a pod."""
        return self._view.of(POD, Pod).get(key.name, key.namespace)

    def group(self, key: Key) -> PodGroup | None:
        """Give a PodGroup; None also when they are not followed."""
        if self.api.groups is None:
            return None
        return self._view.of(self.api.groups, PodGroup).get(key.name, key.namespace)

    def template(self, key: Key) -> Template | None:
        """Give a template."""
        return self._view.of(self.api.templates, Template).get(key.name, key.namespace)

    def claim(self, key: Key) -> Claim | None:
        """Give a claim as its store shows it."""
        return self._view.of(self.api.claims, Claim).get(key.name, key.namespace)

    def whole_claim(self, key: Key, expected: Claim) -> dict[str, Any] | None:
        """
        Give the whole claim for an update, if it still is as `expected`.

        Its status is a dict of fields that are raw. None: it changed or went while the sync
        waited. That was told as a change, so the sync may end: its key is queued again where
        there is something to do.
        """
        if self.claim(key) != expected:
            return None
        whole = self._view.of(self.api.claims, Claim).whole(key.name, key.namespace)
        return with_status(whole) if whole is not None else None

    def claim_or_created(self, key: Key) -> Claim | None:
        """Give a claim, also one just created that the store does not show yet (RC-15)."""
        return self.memory.created.get(key) or self.claim(key)

    @contextmanager
    def creating(self, uid: str) -> Iterator[None]:
        """Take note that a claim is being created for the owner with this UID."""
        self.memory.creating.add(uid)
        try:
            yield
        finally:
            self.memory.creating.discard(uid)

    def remember_created(self, key: Key, claim: Claim, version: str) -> None:
        """Take note of a claim just created, unless its store has shown it already."""
        stored = self.claim(key)
        if stored is None or stored.uid != claim.uid:
            self.memory.created.add(key, claim, version)

    def claim_for_entry(self, namespace: str, uid: str, entry: str) -> str | None:
        """
        Give the name of a claim that was made for an entry of the owner with this UID.

        Claims just created count too; the claim's own name plays no role (RC-38, RC-40, RC-52).
        """
        owner = owner_value(namespace, uid)
        created = dict(self.memory.created.owned_by(owner))
        stored = dict(self._view.of(self.api.claims, Claim).by_index(BY_OWNER, owner))
        found = {**stored, **created}
        names = (key.name for key, claim in found.items() if claim.pod_claim_name == entry)
        # The oldest of several cannot be told; the first by name is the same at every sync.
        return min(names, default=None)

    def group_of(self, key: Key, pod: Pod) -> tuple[Key, PodGroup] | None:
        """
        Give the PodGroup of a pod, None when it belongs to none (1.7).

        Raises `PermanentProblem` when PodGroups are switched off, `Problem` when it is missing.
        """
        name = pod.group_name
        if not name:
            return None
        if self.api.groups is None:
            raise PermanentProblem(NO_GROUPS.format(group=name))
        group_key = Key(name, key.namespace)
        group = self.group(group_key)
        if group is None:
            raise Problem(NO_GROUP.format(group=name, namespace=key.namespace))
        return group_key, group

    def pods_by(self, index: str, key: Key) -> Iterator[tuple[Key, Pod]]:
        """Give the pods that refer to a claim, template or PodGroup of their namespace."""
        return self._view.of(POD, Pod).by_index(index, str(key))

    def groups_by(self, index: str, key: Key) -> Iterator[tuple[Key, PodGroup]]:
        """Give the PodGroups that refer to a claim or template; none when they make no claims."""
        if self.api.groups is None or not self.api.group_claims:
            return iter(())
        return self._view.of(self.api.groups, PodGroup).by_index(index, str(key))

    def claims_judged_by_pod(self, key: Key) -> Iterator[tuple[Key, Claim]]:
        """Give the claims with a consumer or owning pod of this name."""
        return self._view.of(self.api.claims, Claim).by_index(BY_JUDGE, pod_value(key))

    def claims_judged_by_group(self, key: Key) -> Iterator[tuple[Key, Claim]]:
        """Give the claims with a PodGroup of this name as consumer."""
        return self._view.of(self.api.claims, Claim).by_index(BY_JUDGE, group_value(key))

    def pods(self) -> Iterator[tuple[Key, Pod]]:
        """Give all pods."""
        return self._view.of(POD, Pod).items()

    def claim_count(self) -> int:
        """Return how many claims the server has."""
        return len(self._view.of(self.api.claims, Claim))

    def claims(self) -> Iterator[tuple[Key, Claim]]:
        """Give all claims."""
        return self._view.of(self.api.claims, Claim).items()

    def groups(self) -> Iterator[tuple[Key, PodGroup]]:
        """Give all PodGroups that make claims."""
        if self.api.groups is None or not self.api.group_claims:
            return iter(())
        return self._view.of(self.api.groups, PodGroup).items()
