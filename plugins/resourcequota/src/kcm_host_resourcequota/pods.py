"""What one pod uses."""

from functools import lru_cache

import msgspec
from msgspec.structs import force_setattr

from kcm_host.api import Key, Kind, View
from kcm_host_resourcequota.evaluator import Evaluator
from kcm_host_resourcequota.pod_model import PodMetadata, PodSpec, PodStatus, shape_of
from kcm_host_resourcequota.pod_names import charged_amounts, is_pod_name, uncharged_amounts
from kcm_host_resourcequota.pod_requests import pod_needs
from kcm_host_resourcequota.pod_scopes import vector_of
from kcm_host_resourcequota.pod_shape import Shape
from kcm_host_resourcequota.usage import Contribution, contribution_of, usage_of

POD = Kind("", "v1", "Pod", "pods")

_UNCHARGED = usage_of(uncharged_amounts())


class PodFacts(msgspec.Struct, frozen=True):
    """What a pod contributes until its time to go is over, and after that (RQ-107, RQ-108)."""

    until_expired: Contribution = Contribution()
    expired: Contribution = Contribution()


class Pod(msgspec.Struct, frozen=True, gc=False):
    """
    A pod, reduced to what it contributes as soon as it is decoded.

    `metadata`, `spec` and `status` are None from then on, and pods with the same needs and scopes
    share their `facts`: a stored pod is a few hundred bytes. A quantity that is none makes the
    object undecodable, so that its last good figures stay (RQ-75).
    """

    metadata: PodMetadata | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None
    # The server never sends what follows: it is computed from what it sends.
    uid: str = ""
    #: The instant (Unix seconds) after which the pod is no longer charged; None if none is set.
    expires: float | None = None
    #: The claim made for the pod's extended resources; None while the pod names none (RQ-190).
    extended_claim: str | None = None
    facts: PodFacts = PodFacts()

    def __post_init__(self) -> None:
        metadata = self.metadata or PodMetadata()
        status = self.status or PodStatus()
        facts = facts_of(shape_of(self.spec or PodSpec(), status))
        claim = status.extended_resource_claim_status
        force_setattr(self, "uid", metadata.uid)
        force_setattr(self, "expires", _expiry(metadata))
        force_setattr(self, "extended_claim", claim.resource_claim_name if claim else None)
        force_setattr(self, "facts", facts)
        for name in ("metadata", "spec", "status"):
            force_setattr(self, name, None)

    def contribution(self, now: float) -> Contribution:
        """Give what it contributes at `now`; at the very instant of expiry it is still charged."""
        if self.expires is not None and now > self.expires:
            return self.facts.expired
        return self.facts.until_expired


class PodEvaluator(Evaluator):
    """Knows what pods use (sections 7.1 and 8)."""

    resource = "pods"
    kind = POD
    model = Pod

    def serves(self, name: str) -> bool:
        """See `Evaluator.serves`."""
        return is_pod_name(name)

    def contribution(self, key: Key, obj: Pod, view: View, now: float) -> Contribution:
        """See `Evaluator.contribution`."""
        return obj.contribution(now)

    def deadline(self, obj: Pod) -> float | None:
        """See `Evaluator.deadline`; a pod that has ended is not charged in any case."""
        facts = obj.facts
        return obj.expires if facts.until_expired is not facts.expired else None


@lru_cache(maxsize=2048)
def facts_of(shape: Shape) -> PodFacts:
    """Give the facts of pods of one shape; bounded, so that templates long gone are let go."""
    vector = vector_of(shape)
    expired = contribution_of(_UNCHARGED, vector)
    if shape.ended:
        return PodFacts(expired, expired)
    return PodFacts(contribution_of(usage_of(charged_amounts(pod_needs(shape))), vector), expired)


def _expiry(metadata: PodMetadata) -> float | None:
    """Give deletion time plus grace period: the period is waited for twice, as by RQ-109."""
    deletion = metadata.deletion_timestamp
    grace = metadata.deletion_grace_period_seconds
    return None if deletion is None or grace is None else deletion.timestamp() + grace
