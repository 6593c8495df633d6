"""The evaluator of pods."""

import sys
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec.structs import force_setattr

from kcm_host.api import Key, Kind, Quantity, View
from kcm_host_resourcequota.evaluators.base import (
    Contribution,
    Evaluator,
    contribution_of,
    usage_of,
)
from kcm_host_resourcequota.evaluators.extended_resources import (
    REQUESTS_PREFIX,
    is_extended_request,
    is_extended_resource,
)
from kcm_host_resourcequota.evaluators.pod_requests import (
    HUGE_PAGES_PREFIX,
    ContainerShape,
    PodShape,
    RequestsAndLimits,
    StatusShape,
    pod_requests_and_limits,
    specified_requests_and_limits,
)
from kcm_host_resourcequota.scopes import ScopeAttributes

POD = Kind(group="", version="v1", name="Pod", resource="pods")

COUNT = "count/pods"
PODS = "pods"
LIMITS_PREFIX = "limits."

_STANDARD = ("cpu", "memory", "ephemeral-storage")
_NAMES = frozenset(
    {
        COUNT,
        PODS,
        *_STANDARD,
        *(REQUESTS_PREFIX + name for name in _STANDARD),
        *(LIMITS_PREFIX + name for name in _STANDARD),
    }
)
_PREFIXES = (HUGE_PAGES_PREFIX, REQUESTS_PREFIX + HUGE_PAGES_PREFIX)
_ONE = Quantity(Quantity.NANO)
#: The usage of a pod that has ended or expired (RQ-106, RQ-107).
_UNCHARGED = usage_of({COUNT: _ONE})

_BEST_EFFORT = "BestEffort"
_COMPUTE = ("cpu", "memory")
_RESIZE_PENDING = "PodResizePending"
_ENDED = frozenset({"Failed", "Succeeded"})

#: A part of an object that is decoded later or never.
RawJson = msgspec.Raw
_ABSENT = msgspec.Raw()


class PodMetadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The identity of a pod, and its deletion."""

    uid: str = ""
    deletion_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    deletion_grace_period_seconds: int | None = None


class Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One container."""

    name: str = ""
    restart_policy: str | None = None
    resources: RawJson = _ABSENT

    @property
    def shape(self) -> ContainerShape:
        """Return the fields that usage depends on."""
        sidecar = self.restart_policy == "Always"
        return ContainerShape(self.name, sidecar, _present(self.resources))


class ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The status of one container, as the kubelet reports it."""

    name: str = ""
    resources: RawJson = _ABSENT
    allocated_resources: RawJson = _ABSENT

    @property
    def shape(self) -> StatusShape:
        """Return the fields that usage depends on."""
        return StatusShape(self.name, _present(self.resources), _present(self.allocated_resources))


class AffinityTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One term of an affinity; an empty namespace selector counts as present (RQ-85)."""

    namespaces: tuple[str, ...] | None = None
    namespace_selector: RawJson = _ABSENT

    @property
    def crosses_namespaces(self) -> bool:
        """Return whether the term names or selects namespaces."""
        return bool(self.namespaces) or bool(_present(self.namespace_selector))


class WeightedTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One preferred term of an affinity."""

    pod_affinity_term: AffinityTerm = AffinityTerm()


class PodAffinity(msgspec.Struct, frozen=True, gc=False):
    """Affinity or anti-affinity to other pods."""

    required: tuple[AffinityTerm, ...] | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: tuple[WeightedTerm, ...] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )

    @property
    def crosses_namespaces(self) -> bool:
        """Return whether one of the terms does."""
        terms = (*(self.required or ()), *(each.pod_affinity_term for each in self.preferred or ()))
        return any(term.crosses_namespaces for term in terms)


class Affinity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The affinity and anti-affinity of a pod to other pods."""

    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None

    @property
    def crosses_namespaces(self) -> bool:
        """Return whether a term names or selects namespaces (RQ-85)."""
        both = (self.pod_affinity, self.pod_anti_affinity)
        return any(each is not None and each.crosses_namespaces for each in both)


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spec of a pod."""

    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    resources: RawJson = _ABSENT
    overhead: RawJson = _ABSENT
    active_deadline_seconds: int | None = None
    priority_class_name: str | None = None
    affinity: Affinity | None = None


class Condition(msgspec.Struct, frozen=True, gc=False):
    """One condition of a pod; its status field is not read."""

    type: str = ""
    reason: str | None = None


class ExtendedClaimStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The claim that was created for the extended resources of a pod."""

    resource_claim_name: str = ""


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The status of a pod."""

    phase: str | None = None
    qos_class: str | None = None
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    extended_resource_claim_status: ExtendedClaimStatus | None = None

    @property
    def infeasible(self) -> bool:
        """Return whether the first pending resize is impossible on its node (section 8.3)."""
        for condition in self.conditions or ():
            if condition.type == _RESIZE_PENDING:
                return condition.reason == "Infeasible"
        return False


def pod_shape(spec: PodSpec, status: PodStatus) -> PodShape:
    """Return the shape of a pod: all that its contribution depends on, except time."""
    deadline = spec.active_deadline_seconds
    statuses = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    return PodShape(
        containers=tuple([each.shape for each in spec.containers or ()]),
        init_containers=tuple([each.shape for each in spec.init_containers or ()]),
        statuses=tuple([each.shape for each in statuses]),
        pod_resources=_present(spec.resources),
        overhead=_present(spec.overhead),
        ended=status.phase in _ENDED,
        infeasible=status.infeasible,
        has_deadline=deadline is not None and deadline >= 0,
        qos_class=status.qos_class or "",
        priority_class=spec.priority_class_name or "",
        crosses_namespaces=spec.affinity is not None and spec.affinity.crosses_namespaces,
    )


def _present(raw: RawJson) -> bytes:
    """Return the JSON of a part, empty when it is missing or null."""
    text = bytes(raw)
    return b"" if text == b"null" else text


def is_pod_resource_name(name: str) -> bool:
    """Return whether pods are counted under a name of a quota (RQ-100 to RQ-104)."""
    return name in _NAMES or name.startswith(_PREFIXES) or is_extended_request(name)


def charged_amounts(pod: RequestsAndLimits) -> Mapping[str, Quantity]:
    """Return the amounts of a charged pod by name (RQ-130 to RQ-136)."""
    amounts = {COUNT: _ONE, PODS: _ONE}
    for name, quantity in pod.requests.items():
        if name in _STANDARD or name.startswith(HUGE_PAGES_PREFIX):
            amounts[name] = amounts[REQUESTS_PREFIX + name] = quantity
        elif is_extended_resource(name):
            amounts[REQUESTS_PREFIX + name] = quantity
    for name, quantity in pod.limits.items():
        if name in _STANDARD:
            amounts[LIMITS_PREFIX + name] = quantity
    return amounts


def scope_attributes_of(shape: PodShape) -> ScopeAttributes:
    """Return the scope attributes of a pod (RQ-80 to RQ-86)."""
    best_effort = _is_best_effort(shape)
    scopes = {
        "Terminating" if shape.has_deadline else "NotTerminating",
        _BEST_EFFORT if best_effort else "NotBestEffort",
    }
    if shape.crosses_namespaces:
        scopes.add("CrossNamespacePodAffinity")
    names = {sys.intern(shape.priority_class)} if shape.priority_class else set()
    return ScopeAttributes(frozenset(scopes), "PriorityClass", frozenset(names))


def _is_best_effort(shape: PodShape) -> bool:
    """
    Return whether the QoS class of a pod is `BestEffort` (RQ-95 to RQ-97).

    If the status has no QoS class: when no request and no limit of cpu or memory is above 0. No
    scope depends on which of the other two classes the pod has.
    """
    if shape.qos_class:
        return shape.qos_class == _BEST_EFFORT
    return not any(
        name in each and each[name].nano > 0
        for specified in specified_requests_and_limits(shape)
        for each in (specified.requests, specified.limits)
        for name in _COMPUTE
    )


class PodContributions(msgspec.Struct, frozen=True):
    """The contributions of a pod before and after its expiration (RQ-107, RQ-108)."""

    until_expired: Contribution = Contribution()
    expired: Contribution = Contribution()


class Pod(msgspec.Struct, frozen=True, gc=False):
    """
    A pod, reduced to its contributions when it is decoded.

    `metadata`, `spec` and `status` are None afterwards, and pods of equal shape share their
    `contributions`: a stored pod is a few hundred bytes. An invalid quantity makes the object
    undecodable, so that its last decodable version stays in the store (RQ-75).
    """

    metadata: PodMetadata | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None
    # The fields from here on are computed; the server never sends them.
    uid: str = ""
    #: The time (Unix seconds) after which the pod is no longer charged; None without deletion.
    expiration: float | None = None
    #: The claim for the pod's extended resources; None while the status has none (RQ-190).
    extended_claim: str | None = None
    contributions: PodContributions = PodContributions()

    def __post_init__(self) -> None:
        metadata = self.metadata or PodMetadata()
        status = self.status or PodStatus()
        contributions = contributions_for(pod_shape(self.spec or PodSpec(), status))
        claim = status.extended_resource_claim_status
        force_setattr(self, "uid", metadata.uid)
        force_setattr(self, "expiration", _expiration(metadata))
        force_setattr(self, "extended_claim", claim.resource_claim_name if claim else None)
        force_setattr(self, "contributions", contributions)
        for name in ("metadata", "spec", "status"):
            force_setattr(self, name, None)

    def contribution(self, now: float) -> Contribution:
        """Return the contribution at `now`; at the time of expiration it is still charged."""
        if self.expiration is not None and now > self.expiration:
            return self.contributions.expired
        return self.contributions.until_expired


class PodEvaluator(Evaluator):
    """Computes the usage of pods (sections 7.1 and 8)."""

    resource = "pods"
    kind = POD
    model = Pod

    def handles(self, name: str) -> bool:
        """See `Evaluator.handles`."""
        return is_pod_resource_name(name)

    def contribution(self, key: Key, obj: Pod, view: View, now: float) -> Contribution:
        """See `Evaluator.contribution`."""
        return obj.contribution(now)

    def expiration(self, obj: Pod) -> float | None:
        """See `Evaluator.expiration`; a pod that has ended is not charged anyway."""
        contributions = obj.contributions
        return obj.expiration if contributions.until_expired is not contributions.expired else None


@lru_cache(maxsize=2048)
def contributions_for(shape: PodShape) -> PodContributions:
    """Return the contributions of pods of one shape; the cache evicts old templates."""
    attributes = scope_attributes_of(shape)
    expired = contribution_of(_UNCHARGED, attributes)
    if shape.ended:
        return PodContributions(expired, expired)
    usage = usage_of(charged_amounts(pod_requests_and_limits(shape)))
    return PodContributions(contribution_of(usage, attributes), expired)


def _expiration(metadata: PodMetadata) -> float | None:
    """Return deletion time plus grace period, which the time already includes, as by RQ-109."""
    deletion = metadata.deletion_timestamp
    grace = metadata.deletion_grace_period_seconds
    return None if deletion is None or grace is None else deletion.timestamp() + grace
