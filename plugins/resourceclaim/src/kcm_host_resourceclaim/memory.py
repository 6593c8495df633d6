"""What one start of the controller remembers; a restart begins anew (RC-7)."""

from dataclasses import dataclass, field

from kcm_host_resourceclaim.counting import ClaimCounts, Creations
from kcm_host_resourceclaim.created import CreatedClaims
from kcm_host_resourceclaim.recent import RecentUids


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
